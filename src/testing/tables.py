"""Tables of text cells in specifications: converted to records, and compared with typed rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import narwhals as nw

from ..adapters.records.decoder import to_json
from ..domain.epoch.watermark import instant
from ..domain.errors import BadInput
from ..domain.source.conversion import Convert, Undecodable
from ..domain.source.decode import converters, from_text
from ..domain.source.record_spec import RecordSpec
from ..domain.table.schema import DataType, Schema
from .expected import hashable, rows_of

Table: TypeAlias = "Sequence[Sequence[str]]"
"""A row of column names, then rows of cells. A cell is a value as in CSV; blank means null, ``""`` an empty string."""

_EMPTY_TEXT = '""'


def as_records(table: Table, spec: RecordSpec) -> Iterator[str]:
    """The rows of a table as JSON texts, one for each row, as a source would read them.

    Blank cells are left out. A cell that does not fit its column's type stays text.

    Raises:
        BadInput: the source has no such column, or the table has one twice.
    """
    names, *rows = table
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise BadInput(f"the table of the step has column {twice!r} twice: name each column once")
    known = dict(converters(spec.schema, zone=spec.time_zone, to_json=to_json, written=from_text))
    if unknown := [name for name in names if name not in known]:
        raise BadInput(f"the source has no column {unknown[0]!r}; there are: {', '.join(known)}")
    for row in rows:
        cells = zip(names, row, strict=True)
        yield to_json({name: _value_or_text(known[name], cell) for name, cell in cells if cell})


def assert_shows(frame: nw.LazyFrame[Any], schema: Schema, table: Table) -> None:
    """Assert that a view has exactly the rows of a table, compared in the table's columns.

    Rows may come in any order; duplicates are counted.

    Raises:
        AssertionError: the rows differ; the message lists the missing rows and those that are too many.
        ConfigError: the view has no such column.
    """
    names, *rows = table
    wanted = schema.select(names)
    converting = [convert for _, convert in converters(wanted, zone="UTC", to_json=to_json, written=from_text)]
    cells = list(zip(wanted.columns, converting, strict=True))
    expected = Counter(
        tuple(
            hashable(_instant(each.type, _value(convert, cell)))
            for (each, convert), cell in zip(cells, row, strict=True)
        )
        for row in rows
    )
    found = Counter(map(hashable, rows_of(frame.select(*names))))
    if expected != found:
        raise AssertionError(
            "\n".join(
                [
                    "the rows are not those of the table",
                    *_listed("missing", expected - found),
                    *_listed("too many", found - expected),
                ]
            )
        )


def _value(convert: Convert, cell: str) -> Any:
    return ("" if cell == _EMPTY_TEXT else convert(cell)) if cell else None


def _instant(kind: DataType, value: Any) -> Any:
    """A timestamp as in frames, with its time zone, which converters leave out if it is UTC; also inside a value."""
    if value is None:
        return None
    if kind.element is not None:
        return [_instant(kind.element, each) for each in value]
    if kind.fields:
        return {each.name: _instant(each.type, value[each.name]) for each in kind.fields}
    return instant(value) if kind.name == "timestamp" else value


def _value_or_text(convert: Convert, cell: str) -> Any:
    try:
        return _value(convert, cell)
    except Undecodable:
        return cell


def _listed(title: str, rows: Counter[tuple[Any, ...]]) -> Iterator[str]:
    for row in sorted(rows.elements(), key=str):
        yield f"  {title}: | {' | '.join(_shown(row))} |"


def _shown(row: Iterable[Any]) -> list[str]:
    return ["" if value is None else str(value) or _EMPTY_TEXT for value in row]
