"""Filters the matching rows of a read, and tells what values they have."""

from __future__ import annotations

import narwhals as nw
import polars as pl
from attrs import evolve

from ...domain.table.apply import cast_columns, select_matching
from ...domain.table.change import Between, Matching
from ...domain.table.schema import Schema
from .schema import collect, lazy

_FEW = 64
"""Up to this number of different values, files are pruned by each value; else by the range that they span."""
_WITHOUT_BOUNDS = frozenset({"boolean", "binary", "float", "double"})


def with_distinct_keys(matching: Matching) -> Matching:
    """The same conditions, with computed and distinct keys."""
    return matching if matching.keys is None else evolve(matching, keys=lazy(collect(matching.keys).unique()))


def bounds_of(matching: Matching, schema: Schema) -> dict[str, tuple[object, ...] | Between]:
    """Literals that all matching rows satisfy: those of the conditions, and those of its computed keys."""
    within = dict(matching.within)
    if matching.keys is not None:
        keys = collect(matching.keys)
        for name in keys.columns:
            if name not in within and schema[name].name not in _WITHOUT_BOUNDS:
                within[name] = _span(keys[name].drop_nulls())
    return within


def _span(values: pl.Series) -> tuple[object, ...] | Between:
    few = values.unique()
    return tuple(few.to_list()) if few.len() <= _FEW else Between(values.min(), values.max())


def only_matching(rows: pl.LazyFrame, wanted: Matching, schema: Schema) -> pl.LazyFrame:
    """The matching rows."""
    if wanted.within:
        literals = evolve(wanted, keys=None)
        rows = select_matching(nw.from_native(rows), literals, schema).to_native()
    if wanted.keys is None:
        return rows
    names = wanted.keys.collect_schema().names()
    return with_keys(rows, collect(cast_columns(wanted.keys, schema.select(names))))


def with_keys(rows: pl.LazyFrame, keys: pl.DataFrame) -> pl.LazyFrame:
    """The rows whose keys are among these; a key with a null is not.

    Keys of one column are looked for in a set: a join takes two to four times as long.
    """
    if keys.width == 1 and not keys.dtypes[0].is_float():  # NaN
        return rows.filter(pl.col(keys.columns).is_in(keys.to_series().implode()))
    return rows.join(keys.lazy(), on=keys.columns, how="semi")
