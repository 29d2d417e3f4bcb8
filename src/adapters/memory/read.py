"""Finds the matching rows, in the partitions that can hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import polars as pl

from ...domain.table.apply import select_matching
from ...domain.table.change import Matching
from ...domain.table.schema import Schema
from ..polars.schema import collect, lazy, polars_schema, stack
from .content import Content

_PLACE = "_headwater_place"


def read(content: Content, schema: Schema, matching: Matching | None) -> pl.DataFrame:
    """The rows of a content in a schema's columns; only matching rows, if `matching` is set."""
    if matching is None:
        return stack(schema, content.rows())
    keys = None if matching.keys is None else lazy(collect(matching.keys).unique())
    wanted = Matching(keys, matching.within)
    return _match(stack(schema, _prune(content, schema, wanted).rows()), wanted, schema)


def _prune(content: Content, schema: Schema, wanted: Matching) -> Content:
    """The partitions whose values match, found with the same rules as rows."""
    places = list(content.partitions)
    directory = pl.DataFrame(places, schema=polars_schema(schema.select(content.by)), orient="row")
    directory = directory.with_columns(pl.Series(_PLACE, range(len(places)), dtype=pl.Int64))
    within = {name: wish for name, wish in wanted.within.items() if name in content.by}
    found = _match(directory, Matching(_partition_keys(wanted.keys, content.by), within), schema)
    return content.only(places[at] for at in found[_PLACE])


def _partition_keys(keys: nw.LazyFrame[Any] | None, by: Sequence[str]) -> nw.LazyFrame[Any] | None:
    """The values of the partition columns in the keys; None if the keys have no such column."""
    if keys is None:
        return None
    columns = [name for name in keys.collect_schema().names() if name in by]
    return keys.select(*columns).unique() if columns else None


def _match(rows: pl.DataFrame, wanted: Matching, schema: Schema) -> pl.DataFrame:
    return collect(select_matching(lazy(rows), wanted, schema))
