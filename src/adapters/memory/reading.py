"""Finds the rows a read is after, in the partitions that can hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ...domain.change import Matching
from ...domain.reference import matched
from .schema import collected, lazy, polars_schema, stack

if TYPE_CHECKING:
    from collections.abc import Sequence

    import narwhals as nw

    from ...domain.schema import Schema
    from .content import Content

_PLACE = "_place"


def read(content: Content, schema: Schema, matching: Matching | None) -> pl.DataFrame:
    """The rows of a content in a schema's columns; only those that match, where something is to be matched."""
    if matching is None:
        return stack(schema, content.rows())
    keys = None if matching.keys is None else lazy(collected(matching.keys).unique())
    wanted = Matching(keys, matching.within)
    return _matched(stack(schema, _pruned(content, schema, wanted).rows()), wanted, schema)


def _pruned(content: Content, schema: Schema, wanted: Matching) -> Content:
    """The partitions whose values match, found as rows are found."""
    places = list(content.partitions)
    directory = pl.DataFrame(places, schema=polars_schema(schema.select(content.by)), orient="row")
    directory = directory.with_columns(pl.Series(_PLACE, range(len(places)), dtype=pl.Int64))
    within = {name: wish for name, wish in wanted.within.items() if name in content.by}
    found = _matched(directory, Matching(_known(wanted.keys, content.by), within), schema)
    return content.only(places[at] for at in found[_PLACE])


def _known(keys: nw.LazyFrame[Any] | None, by: Sequence[str]) -> nw.LazyFrame[Any] | None:
    """What keys say of the partition columns; None if nothing."""
    if keys is None:
        return None
    columns = [name for name in keys.collect_schema().names() if name in by]
    return keys.select(*columns).unique() if columns else None


def _matched(rows: pl.DataFrame, wanted: Matching, schema: Schema) -> pl.DataFrame:
    return collected(matched(lazy(rows), wanted, schema))
