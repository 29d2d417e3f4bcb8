"""Finds the rows a read is after, in the partitions that can hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ...domain.change import Between
from .schema import collected, polars_schema, polars_type, stack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...domain.change import Matching
    from ...domain.schema import DataType, Schema
    from .content import Content

_PLACE = "_place"


def read(content: Content, schema: Schema, matching: Matching | None) -> pl.DataFrame:
    """The rows of a content in a schema's columns; only those that match, where something is to be matched."""
    if matching is None:
        return stack(schema, content.rows())
    keys = None if matching.keys is None else _keys(matching, schema)
    pruned = _pruned(content, schema, keys, matching.within)
    return _matched(stack(schema, pruned.rows()), schema, keys, matching.within)


def _keys(matching: Matching, schema: Schema) -> pl.DataFrame:
    assert matching.keys is not None
    found = collected(matching.keys)
    types = polars_schema(schema.select(found.columns))
    return found.select(pl.col(name).cast(dtype) for name, dtype in types.items()).unique()


def _pruned(content: Content, schema: Schema, keys: pl.DataFrame | None, within: Mapping[str, Any]) -> Content:
    """The partitions whose values match, found as rows are found."""
    places = list(content.partitions)
    directory = pl.DataFrame(places, schema=polars_schema(schema.select(content.by)), orient="row")
    directory = directory.with_columns(pl.Series(_PLACE, range(len(places)), dtype=pl.Int64))
    known = [name for name in content.by if keys is not None and name in keys.columns]
    wanted = keys.select(known).unique() if keys is not None and known else None
    literals = {name: wish for name, wish in within.items() if name in content.by}
    return content.only(places[at] for at in _matched(directory, schema, wanted, literals)[_PLACE])


def _matched(rows: pl.DataFrame, schema: Schema, keys: pl.DataFrame | None, within: Mapping[str, Any]) -> pl.DataFrame:
    for name, wish in within.items():
        rows = rows.filter(_satisfies(name, wish, schema[name]))
    return rows if keys is None else rows.join(keys, on=keys.columns, how="semi", maintain_order="left")


def _satisfies(name: str, wish: tuple[Any, ...] | Between, data_type: DataType) -> pl.Expr:
    values = [wish.low, wish.high] if isinstance(wish, Between) else list(wish)
    typed = pl.Series(values, dtype=polars_type(data_type))
    if isinstance(wish, Between):
        return pl.col(name).is_between(pl.lit(typed[:1]), pl.lit(typed[1:]))
    return pl.col(name).is_in(typed.drop_nulls().implode())
