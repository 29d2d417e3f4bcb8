"""The rows that a log-structured table stores, and the content they fold to.

Beside the table's own columns a row has `_sequence`, the number of the commit that brought it, and `_op`, what it does.
At most one row a key comes with each commit, so `_sequence` orders the rows of a key by their arrival.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ...domain.merge import Replace
from ...domain.schema import Column, DataType
from ...domain.table import Layout
from ..spark.merging import folded, one_a_key
from ..spark.schema import named, typed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...domain.change import Change
    from ...domain.merge import ColumnRule
    from ...domain.schema import Schema
    from ...domain.table import TableSpec

SEQUENCE, OPERATION = "_sequence", "_op"
APPENDED, MERGED, DELETED = 0, 1, 2

_HIDDEN = (Column(SEQUENCE, DataType("bigint")), Column(OPERATION, DataType("tinyint")))
_NEWEST_DELETE = "_newest_delete"


def logged(spec: TableSpec) -> bool:
    """Whether a table keeps a log of changes beside its base rows."""
    return bool(spec.key) and spec.layout is Layout.LOG


def stored_schema(spec: TableSpec) -> Schema:
    """The columns a table has on disk."""
    return spec.schema.plus(*_HIDDEN) if logged(spec) else spec.schema


def as_rows(change: Change, spec: TableSpec, sequence: int) -> DataFrame | None:
    """A change of a keyed table as rows with `_sequence` and `_op`; None if it asks for nothing."""
    added = change.append if change.overwrite is None else change.overwrite
    parts = [
        (added, APPENDED),
        (None if change.merge is None else one_a_key(change.merge, spec), MERGED),
        (None if change.delete is None else change.delete.select(*spec.key), DELETED),
    ]
    frames = [operating(part.to_native(), spec, sequence, operation) for part, operation in parts if part is not None]
    return reduce(DataFrame.union, frames) if frames else None


def operating(rows: DataFrame, spec: TableSpec, sequence: int, operation: int) -> DataFrame:
    """Rows as one commit's, all doing the same."""
    hidden = (f"CAST({sequence} AS bigint) AS {SEQUENCE}", f"CAST({operation} AS tinyint) AS {OPERATION}")
    return typed(rows, spec.schema, *hidden)


def content(rows: DataFrame, spec: TableSpec, *, deletes: bool = True) -> DataFrame:
    """Fold all rows of the keys at hand: one row a key that is there, with the `_sequence` of its newest.

    Args:
        rows: as they are stored.
        spec: of the table.
        deletes: whether there may be deletes among them.
    """
    if all(isinstance(rule, Replace) for rule in spec.column_rules.values()) and not spec.groups:
        newest = _folded(rows, spec, {**spec.column_rules, OPERATION: Replace()})
        return newest.filter(F.col(OPERATION) != DELETED).drop(OPERATION)
    if not deletes:
        return _folded(rows, spec, spec.column_rules)
    by_key = Window.partitionBy(*map(named, spec.key))
    newest_delete = F.max(F.when(F.col(OPERATION) == DELETED, F.col(SEQUENCE))).over(by_key)
    alive = F.col(_NEWEST_DELETE).isNull() | (F.col(SEQUENCE) > F.col(_NEWEST_DELETE))
    return _folded(rows.withColumn(_NEWEST_DELETE, newest_delete).filter(alive), spec, spec.column_rules)


def content_of_parts(base: DataFrame, log: DataFrame, spec: TableSpec, *, deletes: bool) -> DataFrame:
    """Fold base rows (appended) and log rows (all others), passing on untouched base rows as they are."""
    key = list(spec.key)
    touched = log.select(*map(named, key)).distinct()
    untouched = base.join(touched, key, "left_anti").select(*map(named, (*spec.schema.names, SEQUENCE)))
    met = base.join(touched, key, "left_semi").select(*map(named, log.columns))
    return untouched.union(content(met.union(log), spec, deletes=deletes))


def _folded(rows: DataFrame, spec: TableSpec, rules: Mapping[str, ColumnRule]) -> DataFrame:
    found = folded(rows, key=spec.key, rules=rules, groups=spec.groups, arrival=SEQUENCE)
    last = [OPERATION] if OPERATION in rules else []
    return found.select(*map(named, (*spec.schema.names, SEQUENCE, *last)))
