"""What a change makes of a table's rows, and which of them a read is after: the reference, for every engine.

A store may do the same natively, and the contract suite holds it to the same answer; one that keeps files or frames and
wants no tricks hands its rows to these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from .change import Between
from .epoch import POSITION
from .merge import fold

if TYPE_CHECKING:
    from .change import Change, Matching
    from .merge import Adding
    from .schema import DataType, Schema
    from .table import TableSpec

_ARRIVAL = "_arrival"
_STORED = -1
"""Stored rows have arrived before all that come, whose positions count from 0."""


def typed(rows: nw.LazyFrame[Any], schema: Schema) -> nw.LazyFrame[Any]:
    """The columns of a schema, in its order and types."""
    return rows.select(nw.col(each.name).cast(each.type.narwhals) for each in schema.columns)


def changed(
    stored: nw.LazyFrame[Any], change: Change, spec: TableSpec, add_up: Adding | None = None
) -> nw.LazyFrame[Any]:
    """A table's rows after a change.

    Args:
        stored: the rows before, in the spec's columns and types; of a change that does not overwrite, those whose keys
            it does not name may be left out, and are then left out of the answer.
        change: what is wanted.
        spec: of the table.
        add_up: see `fold`.
    """
    if change.overwrite is not None:
        return typed(change.overwrite, spec.schema)
    if change.load is not None:
        return met(stored.head(0), change.load, spec, add_up) if spec.key else typed(change.load, spec.schema)
    parts = [stored]
    if (keys := touched(change, spec)) is not None:
        parts = [stored.join(keys, on=list(spec.key), how="anti")]
    if change.merge is not None:
        merged_keys = typed(change.merge, spec.schema.select(spec.key))
        parts.append(met(stored.join(merged_keys, on=list(spec.key), how="semi"), change.merge, spec, add_up))
    if change.append is not None:
        parts.append(typed(change.append, spec.schema))
    return nw.concat(parts)


def touched(change: Change, spec: TableSpec) -> nw.LazyFrame[Any] | None:
    """The keys whose stored rows a change replaces or removes, repeats among them; None if it does neither."""
    key = spec.schema.select(spec.key)
    parts = [typed(part, key) for part in (change.merge, change.delete) if part is not None]
    return nw.concat(parts) if parts else None


def met(
    stored: nw.LazyFrame[Any],
    incoming: nw.LazyFrame[Any],
    spec: TableSpec,
    add_up: Adding | None = None,
) -> nw.LazyFrame[Any]:
    """Rows to merge, met with the stored ones of their keys by the table's merge rules: one row a key.

    Args:
        stored: at most one row a key, in the spec's columns and types.
        incoming: several rows of one key have their order in ``_position``, counted from 0.
        spec: of the table.
        add_up: see `fold`.
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
    return typed(folded, spec.schema)


def matched(rows: nw.LazyFrame[Any], matching: Matching, schema: Schema) -> nw.LazyFrame[Any]:
    """The rows that a read is after; literals first, so that an engine can push them down to its files."""
    for name, wish in matching.within.items():
        rows = _within(rows, name, wish, schema[name])
    if matching.keys is None:
        return rows
    wanted = matching.keys.collect_schema().names()
    return rows.join(typed(matching.keys, schema.select(wanted)), on=wanted, how="semi")


def _within(
    rows: nw.LazyFrame[Any], name: str, wish: tuple[Any, ...] | Between, data_type: DataType
) -> nw.LazyFrame[Any]:
    column, dtype = nw.col(name), data_type.narwhals
    if isinstance(wish, Between):
        return rows.filter(column >= nw.lit(wish.low, dtype), column <= nw.lit(wish.high, dtype))
    equal = [column == nw.lit(value, dtype) for value in wish if value is not None]
    return rows.filter(nw.any_horizontal(*equal, ignore_nulls=True)) if equal else rows.head(0)
