"""Applies a change to a content, with the reference implementation of the merge rules."""

from __future__ import annotations

import polars as pl
from attrs import frozen

from ...domain.errors import BadInput
from ...domain.table.apply import merge_rows
from ...domain.table.change import POSITION, Change
from ...domain.table.merge import Adding, Sum
from ...domain.table.spec import TableSpec
from ..polars.schema import collect, conform, empty, lazy, stack
from ..polars.sums import add_up, may_overflow
from .content import Content


@frozen(eq=False)
class Parts:
    """A change whose frames have been computed and checked against the table."""

    append: pl.DataFrame
    merge: pl.DataFrame
    delete: pl.DataFrame
    overwrite: pl.DataFrame | None

    @property
    def rows(self) -> int:
        """The number of rows to write and of keys to delete."""
        frames = (self.append, self.merge, self.delete, self.overwrite)
        return sum(frame.height for frame in frames if frame is not None)


def compute_change(change: Change, spec: TableSpec) -> Parts:
    """Compute all frames of a change before anything is stored.

    Raises:
        BadInput: rows do not fit the table: a column is missing, or a key is null or duplicated.
    """
    schema, key = spec.schema, spec.schema.select(spec.key)
    parts = Parts(
        empty(schema) if change.append is None else conform(collect(change.append), schema, spec.name),
        empty(schema) if change.merge is None else conform(_in_order(collect(change.merge)), schema, spec.name),
        empty(key) if change.delete is None else conform(collect(change.delete), key, spec.name).unique(),
        _whole(change, spec),
    )
    _check_keys(parts, spec)
    return parts


def apply_change(content: Content, parts: Parts, spec: TableSpec) -> Content:
    """The content after a change.

    Raises:
        BadInput: a row to append has a key that is stored.
    """
    if parts.overwrite is not None:
        return Content(spec.partition_by, {}).plus(parts.overwrite, spec.schema)
    if not spec.key:
        return content.plus(parts.append, spec.schema)
    _check_appended(content, parts, spec)
    merged = parts.merge.select(spec.key).unique()
    stored, content = content.split(merged)
    _, content = content.split(parts.delete)
    folded = _folded(stack(spec.schema, stored), parts.merge, spec)
    return content.plus(stack(spec.schema, [parts.append, folded]), spec.schema)


def _whole(change: Change, spec: TableSpec) -> pl.DataFrame | None:
    """The rows that replace the whole content; None if the change does not replace it."""
    if change.overwrite is not None:
        return conform(collect(change.overwrite), spec.schema, spec.name)
    if change.load is None:
        return None
    rows = conform(_in_order(collect(change.load)), spec.schema, spec.name)
    return _folded(empty(spec.schema), rows, spec) if spec.key else rows


def _in_order(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort(POSITION, maintain_order=True) if POSITION in rows.columns else rows


def _folded(stored: pl.DataFrame, incoming: pl.DataFrame, spec: TableSpec) -> pl.DataFrame:
    if not incoming.height:
        return incoming
    rows = merge_rows(lazy(stored), lazy(incoming.with_row_index(POSITION)), spec, _exactly(stored, incoming, spec))
    return conform(collect(rows), spec.schema, spec.name)


def _exactly(stored: pl.DataFrame, incoming: pl.DataFrame, spec: TableSpec) -> Adding | None:
    """The function for exact sums, if a sum may not fit into its column; else None."""
    sums = [name for name, rule in spec.column_rules.items() if isinstance(rule, Sum)]
    return add_up if any(may_overflow(pl.concat([stored[name], incoming[name]])) for name in sums) else None


def _check_keys(parts: Parts, spec: TableSpec) -> None:
    if not spec.key:
        return
    merged = parts.merge.select(spec.key).unique()
    whole = [] if parts.overwrite is None else [parts.overwrite.select(spec.key)]
    keys = pl.concat([parts.append.select(spec.key), merged, parts.delete, *whole])
    if keys.null_count().sum_horizontal().item():
        raise BadInput(f"table {spec.name}: key ({', '.join(spec.key)}) is null in some rows; reject them before")
    if (twice := keys.filter(keys.is_duplicated())).height:
        raise BadInput(
            f"table {spec.name}: key {twice.row(0)} occurs more than once in one change; fold its rows first"
        )


def _check_appended(content: Content, parts: Parts, spec: TableSpec) -> None:
    stored, _ = content.split(parts.append.select(spec.key))
    if any(rows.height for rows in stored):
        there = stack(spec.schema.select(spec.key), (rows.select(spec.key) for rows in stored)).row(0)
        raise BadInput(f"table {spec.name}: key {there} to append is stored already; merge its row instead")
