"""Warns of columns that no record has, such as those with a typo in their names."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any

import narwhals as nw

from ...domain.epoch.batch import ERROR, RAW
from ...domain.errors import find_similar
from ...domain.source.record_spec import RecordSpec

if TYPE_CHECKING:
    import polars as pl

_log = logging.getLogger(__name__)
_FIELD = re.compile(r'"([^"\\]+)"\s*:')


def warn_of_absent(rows: nw.LazyFrame[Any], spec: RecordSpec, place: str) -> None:
    """Warn of the columns that are null in all rows because no record has a field of that name.

    A record's text is searched only for the names of columns without a value. Names that JSON can escape in several
    ways are not looked for.

    Args:
        rows: of the first epoch of a source or a bulk load, in memory; later ones may lack fields that are optional.
        spec: the spec of the records.
        place: where they came from.
    """
    if not spec.is_json:
        return
    frame: pl.DataFrame = rows.collect().to_native()
    if not frame[ERROR].null_count():
        return
    expected = [each for each in spec.columns.names if each not in (*spec.changes.metadata, *spec.optional)]
    names = [each for each in expected if each.isascii()]
    empty = [each for each in names if frame[each].null_count() == frame.height]
    if absent := [each for each in empty if not frame[RAW].str.contains(json.dumps(each), literal=True).any()]:
        undeclared = [each for each in _FIELD.findall(frame[RAW].drop_nulls()[0]) if each not in spec.schema.names]
        _log.warning(
            "%s: no record of the first epoch has these columns of `schema`, so they are null in all its rows: %s;"
            " correct a name that is wrong",
            place,
            ", ".join(_with_likely(each, undeclared) for each in absent),
        )


def _with_likely(name: str, found: list[str]) -> str:
    """A name for a message, with the most similar one that is there."""
    near = find_similar(name, found)
    return repr(name) if near is None else f"{name!r} (did you mean {near!r}?)"
