"""Stored rows as Polars frames, and the content they fold to; see `..stored`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import narwhals as nw
import polars as pl

from ....domain.table.change import POSITION, Change
from ....domain.table.merge import Latest, Sum, fold
from ....domain.table.schema import INTEGERS, TIMES
from ....domain.table.spec import TableSpec
from ...polars.match import with_keys
from ...polars.schema import collect, conform, lazy, polars_schema
from ...polars.sums import add_up, may_overflow
from ..stored import APPENDED, DELETED, MERGED, OPERATION, SEQUENCE

_LAST = "_headwater_last"
_PLAIN_ORDER = INTEGERS | TIMES | {"decimal"}
"""Types that Polars orders as `fold` does; texts have a natural order."""


def as_rows(change: Change, spec: TableSpec, sequence: int) -> pl.DataFrame | None:
    """A change of a keyed table as rows with `_sequence` and `_op`; None if the change is empty."""
    parts = []
    if change.added is not None:
        parts.append(with_operation(collect(change.added), spec, sequence, APPENDED))
    if change.merge is not None:
        parts.append(with_operation(one_row_per_key(change.merge, spec), spec, sequence, MERGED))
    if change.delete is not None:
        parts.append(with_operation(_keys_alone(change.delete, spec), spec, sequence, DELETED))
    return pl.concat(parts) if parts else None


def with_operation(rows: pl.DataFrame, spec: TableSpec, sequence: int, operation: int) -> pl.DataFrame:
    """Rows with the `_sequence` of one commit and the same `_op`."""
    return conform(rows, spec.schema, spec.name).with_columns(
        pl.lit(sequence, pl.Int64).alias(SEQUENCE), pl.lit(operation, pl.Int8).alias(OPERATION)
    )


def one_row_per_key(rows: nw.LazyFrame[Any], spec: TableSpec) -> pl.DataFrame:
    """Rows folded with each other by the table's merge rules, in the order of their `_position`, if any."""
    found = collect(rows)
    if not spec.key or POSITION not in found.columns:
        return found
    ordered = conform(found, spec.schema, spec.name).with_columns(found[POSITION].cast(pl.Int64).alias(SEQUENCE))
    return _folded(ordered, spec, spec.key)


def select_newest(found: pl.LazyFrame, log: pl.LazyFrame, spec: TableSpec, key: Sequence[str]) -> pl.LazyFrame:
    """The rows that are the newest of their keys, and not deleted, with their `_sequence`, if the newest row counts.

    Args:
        found: some stored rows.
        log: all stored rows but those that were appended. Of two appended rows of a key, one was deleted in between.
        spec: the table's spec.
        key: see `fold_rows`.
    """
    there = found.collect()
    newer, found = with_keys(log.select(*key, SEQUENCE), there.select(key)), there.lazy()
    last = newer.group_by(key).agg(pl.col(SEQUENCE).max().alias(_LAST))
    newest = (pl.col(SEQUENCE) >= pl.col(_LAST)).fill_null(value=True)
    return found.join(last, on=key, how="left").filter(newest, pl.col(OPERATION) != DELETED).select(_columns(spec, key))


def fold_rows(rows: pl.LazyFrame, spec: TableSpec, key: Sequence[str], *, deletes: bool = True) -> pl.LazyFrame:
    """Fold stored rows to one row per key that is not deleted, with the `_sequence` of its newest row.

    Args:
        rows: all stored rows of their keys.
        spec: the table's spec.
        key: columns that tell the keys of these rows apart: those of the key, some of them, or one that numbers them,
            which the result has then too.
        deletes: whether the rows may include deletes.
    """
    names = _columns(spec, key)
    if spec.newest_counts:
        newest = rows.sort(SEQUENCE).unique(key, keep="last", maintain_order=False)
        return newest.filter(pl.col(OPERATION) != DELETED).select(names)
    newest_image = _latest_of_all(spec)
    if deletes:
        gone = pl.when(pl.col(OPERATION) == DELETED).then(pl.col(SEQUENCE)).max().over(key)
        rows = rows.filter(gone.is_null() | (pl.col(SEQUENCE) > gone))
    if newest_image is not None:
        return _newest_images(rows, spec, key, newest_image)
    more = {name: rows.collect_schema()[name] for name in key}
    schema = more | polars_schema(spec.schema) | {SEQUENCE: pl.Int64()}
    # The rows are needed to see whether a sum may overflow; filters on the result must not be pushed down to them.
    pushed = dict.fromkeys(("predicate_pushdown", "projection_pushdown", "slice_pushdown"), False)
    kinds = pl.Schema({name: schema[name] for name in names})
    return rows.select(names).map_batches(partial(_folded, spec=spec, key=key), schema=kinds, **pushed)


def fold_parts(
    base: pl.LazyFrame, log: pl.LazyFrame, spec: TableSpec, key: Sequence[str], *, deletes: bool
) -> pl.LazyFrame:
    """Fold base rows (appended) with log rows (all others); base rows whose keys have no log rows stay as they are.

    `key` and `deletes`: see `fold_rows`.
    """
    columns = _columns(spec, key)
    touched = log.select(key).unique()
    untouched = base.join(touched, on=key, how="anti").select(columns)
    met = base.join(touched, on=key, how="semi")
    return pl.concat([untouched, fold_rows(pl.concat([met, log]), spec, key, deletes=deletes)])


def has_only_groups(spec: TableSpec) -> bool:
    """Whether all columns but the key are in sequence groups, whose orders are those of Polars."""
    return not spec.column_rules and all(_in_plain_order(group, spec) for group in spec.groups)


def drop_outdone(rows: pl.LazyFrame, spec: TableSpec, key: Sequence[str]) -> pl.LazyFrame:
    """Drop the rows that count for no sequence group; none of each key's rows may be a delete, or be deleted later.

    Of each key the newest row stays in any case.

    Args:
        rows: some stored rows, of a table that `has_only_groups`.
        spec: the table's spec.
        key: see `fold_rows`.
    """
    orders = [[*group.by, SEQUENCE] for group in spec.groups]
    counting = [rows.filter(pl.any_horizontal(pl.col(group.by).is_not_null())) for group in spec.groups]
    newest = [
        each.sort(by, nulls_last=False).unique(key, keep="last", maintain_order=False).select(*key, SEQUENCE)
        for each, by in [*zip(counting, orders, strict=True), (rows, [SEQUENCE])]
    ]
    return rows.join(pl.concat(newest).unique(), on=[*key, SEQUENCE], how="semi")


def _latest_of_all(spec: TableSpec) -> Latest | None:
    """The sequence group that has all columns but the key, if its order is that of Polars; None if there is none."""
    if spec.column_rules or len(spec.groups) != 1:
        return None
    (group,) = spec.groups
    return group if _in_plain_order(group, spec) else None


def _in_plain_order(group: Latest, spec: TableSpec) -> bool:
    return all(spec.schema[name].name in _PLAIN_ORDER for name in group.by)


def _newest_images(rows: pl.LazyFrame, spec: TableSpec, key: Sequence[str], group: Latest) -> pl.LazyFrame:
    """As `fold` of rows with one sequence group: the row of each key that is highest by the group's columns."""
    ordered = rows.sort(*group.by, SEQUENCE, nulls_last=False)
    columns = dict.fromkeys((*group.by, *group.columns))
    names = dict.fromkeys((*columns, *(name for name in spec.key if name not in key)))
    found = ordered.group_by(key).agg(*(pl.col(name).last() for name in names), pl.col(SEQUENCE).max())
    given = pl.any_horizontal(pl.col(name).is_not_null() for name in group.by)
    return found.select(
        pl.when(given).then(pl.col(name)).alias(name) if name in columns else name for name in _columns(spec, key)
    )


def _folded(rows: pl.DataFrame, spec: TableSpec, key: Sequence[str]) -> pl.DataFrame:
    """Rows of `_sequence` and the table's columns, folded by key; a row that shares its key with no other stays."""
    schema = polars_schema(spec.schema)
    typed = [pl.col(name).cast(schema[name]) if name in schema else pl.col(name) for name in _columns(spec, key)]
    shared = _may_share_key(rows.select(key))
    for group in spec.groups:  # a row whose values are ignored does not stay as it is
        shared |= rows.select(_is_ignored(group)).to_series()
    if not shared.any():
        return rows.select(typed)
    together = _folded_together(rows.filter(shared), spec, key)
    return pl.concat([rows.filter(~shared).select(typed), together.select(typed)])


def _is_ignored(group: Latest) -> pl.Expr:
    """Whether a row has values of a sequence group, but nothing that orders it."""
    given = (pl.col(name).is_not_null() for name in group.columns)
    return pl.all_horizontal(pl.col(*group.by).is_null()) & pl.any_horizontal(*given, False)


def _folded_together(rows: pl.DataFrame, spec: TableSpec, key: Sequence[str]) -> pl.DataFrame:
    """Rows of `_sequence` and the table's columns, folded by key."""
    if (group := _latest_of_all(spec)) is not None:
        return _newest_images(rows.lazy(), spec, key, group).collect()
    if has_only_groups(spec):
        return _folded_by_groups(rows, spec, key)
    sums = [name for name, rule in spec.column_rules.items() if isinstance(rule, Sum)]
    exact = add_up if any(may_overflow(rows[name]) for name in sums) else None
    folded = collect(
        fold(lazy(rows), key=key, rules=spec.column_rules, groups=spec.groups, arrival=SEQUENCE, add_up=exact)
    )
    if not (rest := [name for name in spec.key if name not in key]):
        return folded
    return folded.join(rows.select(*key, *rest).unique(key), on=key, how="left")


def _folded_by_groups(rows: pl.DataFrame, spec: TableSpec, key: Sequence[str]) -> pl.DataFrame:
    """As `fold` of rows with sequence groups alone, in half the time: mostly, few rows of a key are of one group."""
    rest = (pl.col(name).first() for name in spec.key if name not in key)
    folded = rows.lazy().group_by(key).agg(pl.col(SEQUENCE).max(), *rest)
    for group in spec.groups:
        folded = folded.join(_newest_of_group(rows, group, key).lazy(), on=key, how="left")
    return folded.collect()


def _newest_of_group(rows: pl.DataFrame, group: Latest, key: Sequence[str]) -> pl.DataFrame:
    """The key and the columns of a sequence group of each key's newest row that has something that orders it."""
    given = rows.filter(pl.any_horizontal(pl.col(*group.by).is_not_null()))
    names, shared = [*key, *group.by, *group.columns], _may_share_key(given.select(key))
    compared = given.filter(shared).sort(*group.by, SEQUENCE, nulls_last=False)
    newest = compared.select(names).unique(key, keep="last", maintain_order=False)
    return pl.concat([given.filter(~shared).select(names), newest])


def _columns(spec: TableSpec, key: Sequence[str]) -> list[str]:
    return list(dict.fromkeys((*spec.schema.names, SEQUENCE, *key)))


def _may_share_key(keys: pl.DataFrame) -> pl.Series:
    """Whether each row may be equal to another one: by their hashes, several times as fast as by the rows."""
    if _rises(keys):
        return pl.Series([False]).new_from_index(0, keys.height)
    hashes = keys.hash_rows()
    in_order = hashes.sort()
    repeated = in_order.filter(in_order == in_order.shift()).unique()
    return hashes.is_in(repeated.implode())


def _rises(keys: pl.DataFrame) -> bool:
    """Whether each row is higher than the one before it; only of keys of one column, as bulk files are sorted."""
    if keys.width != 1:
        return False
    key = keys.to_series()
    return not key.null_count() and bool((key.head(-1) < key.slice(1)).all())


def _keys_alone(keys: nw.LazyFrame[Any], spec: TableSpec) -> pl.DataFrame:
    """Keys, with null in all other columns."""
    others = polars_schema(spec.schema.without(spec.key))
    found = collect(keys.select(*spec.key)).unique()
    return found.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in others.items())
