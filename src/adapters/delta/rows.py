"""Stored rows on Spark, and the content they fold to; see `stored`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ...domain.table.change import Change
from ...domain.table.merge import ColumnRule, Replace
from ...domain.table.spec import TableSpec
from ..spark.merge import fold_by_key, one_row_per_key
from ..spark.schema import named, typed
from .stored import APPENDED, DELETED, MERGED, OPERATION, SEQUENCE

_NEWEST_DELETE, _LAST, _COUNT = "_headwater_newest_delete", "_headwater_last", "_headwater_count"


def as_rows(change: Change, spec: TableSpec, sequence: int) -> DataFrame | None:
    """A change of a keyed table as rows with `_sequence` and `_op`; None if the change is empty."""
    parts = [
        (change.added, APPENDED),
        (None if change.merge is None else one_row_per_key(change.merge, spec), MERGED),
        (None if change.delete is None else change.delete.select(*spec.key), DELETED),
    ]
    frames = [
        with_operation(part.to_native(), spec, sequence, operation) for part, operation in parts if part is not None
    ]
    return reduce(DataFrame.union, frames) if frames else None


def with_operation(rows: DataFrame, spec: TableSpec, sequence: int, operation: int) -> DataFrame:
    """Rows with the `_sequence` of one commit and the same `_op`."""
    hidden = (f"CAST({sequence} AS bigint) AS {SEQUENCE}", f"CAST({operation} AS tinyint) AS {OPERATION}")
    return typed(rows, spec.schema, *hidden)


def fold_rows(rows: DataFrame, spec: TableSpec, *, deletes: bool = True) -> DataFrame:
    """Fold stored rows to one row per key that is not deleted, with the `_sequence` of its newest row.

    Args:
        rows: all stored rows of their keys.
        spec: the table's spec.
        deletes: whether the rows may include deletes.
    """
    if spec.newest_counts:
        newest = _folded(rows, spec, {**spec.column_rules, OPERATION: Replace()})
        return newest.filter(F.col(OPERATION) != DELETED).drop(OPERATION)
    if not deletes:
        return _folded(rows, spec, spec.column_rules)
    by_key = Window.partitionBy(*map(named, spec.key))
    newest_delete = F.max(F.when(F.col(OPERATION) == DELETED, F.col(SEQUENCE))).over(by_key)
    alive = F.col(_NEWEST_DELETE).isNull() | (F.col(SEQUENCE) > F.col(_NEWEST_DELETE))
    return _folded(rows.withColumn(_NEWEST_DELETE, newest_delete).filter(alive), spec, spec.column_rules)


def fold_parts(base: DataFrame, log: DataFrame, spec: TableSpec, *, deletes: bool) -> DataFrame:
    """Fold base rows (appended) with log rows (all others); base rows whose keys have no log rows stay as they are."""
    key = list(spec.key)
    touched = log.select(*map(named, key)).distinct()
    untouched = base.join(touched, key, "left_anti").select(*map(named, (*spec.schema.names, SEQUENCE)))
    met = base.join(touched, key, "left_semi").select(*map(named, log.columns))
    return untouched.union(fold_rows(met.union(log), spec, deletes=deletes))


def keep_newest(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """Of each key the newest stored row. If it has replaced others, it is stored as a merged one."""
    by_key, operation = Window.partitionBy(*map(named, spec.key)), F.col(OPERATION)
    last, count = F.max(SEQUENCE).over(by_key), F.count(SEQUENCE).over(by_key)
    replaces = (F.col(_COUNT) > 1) & (operation != DELETED)
    newest = rows.withColumns({_LAST: last, _COUNT: count}).filter(F.col(SEQUENCE) == F.col(_LAST))
    return newest.withColumn(OPERATION, F.when(replaces, F.lit(MERGED)).otherwise(operation)).drop(_LAST, _COUNT)


def _folded(rows: DataFrame, spec: TableSpec, rules: Mapping[str, ColumnRule]) -> DataFrame:
    found = fold_by_key(rows, key=spec.key, rules=rules, groups=spec.groups, arrival=SEQUENCE)
    last = [OPERATION] if OPERATION in rules else []
    return found.select(*map(named, (*spec.schema.names, SEQUENCE, *last)))
