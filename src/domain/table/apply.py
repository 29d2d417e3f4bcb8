"""The reference meaning of changes and of filtered reads, for every engine.

A store may implement the same natively; the contract suite checks that the result is the same. A simple store of files
or frames can call these functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw

from .change import POSITION, Between, Change, Matching
from .merge import Adding, fold
from .schema import DataType, Schema
from .spec import TableSpec

_ARRIVAL = "_headwater_arrival"
_STORED = -1
"""The arrival of stored rows, before that of all incoming rows, whose positions count from 0."""


def cast_columns(rows: nw.LazyFrame[Any], schema: Schema) -> nw.LazyFrame[Any]:
    """Select the columns of a schema, in its order and types."""
    return rows.select(nw.col(each.name).cast(each.type.narwhals) for each in schema.columns)


def fill_columns(rows: nw.LazyFrame[Any], schema: Schema, *more: str) -> nw.LazyFrame[Any]:
    """Select the columns of a schema, with null in those that the rows lack, and then some more columns."""
    there = rows.collect_schema().names()
    columns = (
        nw.col(name) if name in there else null for name, null in zip(schema.names, schema.filled(None), strict=True)
    )
    return rows.select(*columns, *more)


def apply_change(
    stored: nw.LazyFrame[Any], change: Change, spec: TableSpec, add_up: Adding | None = None
) -> nw.LazyFrame[Any]:
    """A table's rows after a change.

    Args:
        stored: the rows before, in the spec's columns and types. Unless the change overwrites the table, rows whose
            keys are not in the change may be left out; they are then missing in the result too.
        change: the change to apply.
        spec: the table.
        add_up: see `fold`.
    """
    if change.overwrite is not None:
        return cast_columns(change.overwrite, spec.schema)
    if change.load is not None:
        return (
            merge_rows(stored.head(0), change.load, spec, add_up)
            if spec.key
            else cast_columns(change.load, spec.schema)
        )
    parts = [stored]
    if (keys := touched_keys(change, spec)) is not None:
        parts = [stored.join(keys, on=list(spec.key), how="anti")]
    if change.merge is not None:
        merged_keys = cast_columns(change.merge, spec.schema.select(spec.key))
        parts.append(merge_rows(stored.join(merged_keys, on=list(spec.key), how="semi"), change.merge, spec, add_up))
    if change.append is not None:
        parts.append(cast_columns(change.append, spec.schema))
    return nw.concat(parts)


def touched_keys(change: Change, spec: TableSpec) -> nw.LazyFrame[Any] | None:
    """The keys whose stored rows a change replaces or removes, possibly repeated; None if it does neither."""
    key = spec.schema.select(spec.key)
    parts = [cast_columns(part, key) for part in (change.merge, change.delete) if part is not None]
    return nw.concat(parts) if parts else None


def merge_rows(
    stored: nw.LazyFrame[Any], incoming: nw.LazyFrame[Any], spec: TableSpec, add_up: Adding | None = None
) -> nw.LazyFrame[Any]:
    """Merge incoming rows with the stored rows of their keys by the table's merge rules.

    Args:
        stored: at most one row per key, in the spec's columns and types.
        incoming: the rows to merge; several rows of one key are ordered by ``_position``, counted from 0.
        spec: the table.
        add_up: see `fold`.

    Returns:
        One row per key, in the spec's columns.
    """
    placed = POSITION in incoming.collect_schema().names()
    position = nw.col(POSITION).cast(nw.Int64) if placed else nw.lit(0, nw.Int64)
    arriving = incoming.with_columns(position.alias(_ARRIVAL))
    columns = [nw.col(each.name).cast(each.type.narwhals) for each in spec.schema.columns]
    rows = nw.concat(
        [
            stored.with_columns(nw.lit(_STORED, nw.Int64).alias(_ARRIVAL)).select(*columns, _ARRIVAL),
            arriving.select(*columns, _ARRIVAL),
        ]
    )
    folded = fold(rows, key=spec.key, rules=spec.column_rules, groups=spec.groups, arrival=_ARRIVAL, add_up=add_up)
    return cast_columns(folded, spec.schema)


def select_matching(rows: nw.LazyFrame[Any], matching: Matching, schema: Schema) -> nw.LazyFrame[Any]:
    """The rows that match a filter. Literals are applied first, so that an engine can push them down to its files."""
    for name, wish in matching.within.items():
        rows = _within(rows, name, wish, schema[name])
    if matching.keys is None:
        return rows
    wanted = matching.keys.collect_schema().names()
    return rows.join(cast_columns(matching.keys, schema.select(wanted)), on=wanted, how="semi")


def add_columns(
    asked: nw.LazyFrame[Any], found: nw.LazyFrame[Any], matching: Matching, columns: Mapping[str, str]
) -> nw.LazyFrame[Any]:
    """Rows that ask for their keys, with columns of the rows that match; see `TableReader.look_up`."""
    assert matching.keys is not None
    on = matching.keys.collect_schema().names()
    added = (nw.col(name).alias(into) for into, name in columns.items())
    return asked.join(found.select(*on, *added), on=on, how="left")


def _within(
    rows: nw.LazyFrame[Any], name: str, wish: tuple[Any, ...] | Between, data_type: DataType
) -> nw.LazyFrame[Any]:
    column, dtype = nw.col(name), data_type.narwhals
    if isinstance(wish, Between):
        return rows.filter(column >= nw.lit(wish.low, dtype), column <= nw.lit(wish.high, dtype))
    equal = [column == nw.lit(value, dtype) for value in wish if value is not None]
    return rows.filter(nw.any_horizontal(*equal, ignore_nulls=True)) if equal else rows.head(0)
