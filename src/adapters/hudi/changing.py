"""What a change writes: the stored rows of one commit, and how Hudi is to take them."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import narwhals as nw
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.change import Matching
from ...domain.changelog.net import net_changes
from ...domain.epoch import POSITION, ROW_KIND
from ...domain.merge import Replace
from ..spark.merging import folded, one_a_key
from ..spark.schema import empty_frame, lazy, named, typed
from .names import KEY, PARTITION, SEQUENCE
from .rows import stored
from .texts import folder_text
from .writing import Operation

if TYPE_CHECKING:
    from ...domain.change import Change
    from ...domain.table import TableSpec
    from .reading import Reading

_ARRIVAL = "_arrival"
_BEFORE_ALL = "-1"
"""Stored rows have arrived before all that come, whose positions count from 0."""


def written(change: Change, sequence: int, now: Reading) -> tuple[DataFrame, Operation]:
    """The rows that make a change of the newest version, by the commit of a number."""
    spec = now.spec
    if now.folded:
        return _arriving_now(change, sequence, now)
    if change.overwrite is not None:
        return stored(change.overwrite.to_native(), spec), Operation.OVERWRITE
    parts = [] if change.append is None else [stored(change.append.to_native(), spec)]
    if change.merge is not None:
        parts.append(stored(_merged(change.merge, now), spec))
    if change.delete is not None:
        keys = change.delete.to_native().select(*map(named, spec.key)).distinct()
        parts.append(stored(keys, spec, deleted=F.lit(True)))
    rows = reduce(DataFrame.union, parts) if parts else stored(empty_frame(now.folder.session, spec.schema), spec)
    return rows, Operation.UPSERT if spec.key else Operation.ADD


def _arriving_now(change: Change, sequence: int, now: Reading) -> tuple[DataFrame, Operation]:
    """The rows of a change of a table that folds them when it reads: they are stored as they come."""
    spec, number = now.spec, F.lit(sequence)
    if change.overwrite is not None:
        return stored(change.overwrite.to_native(), spec, sequence=number), Operation.OVERWRITE
    merged = None if change.merge is None else one_a_key(change.merge, spec)
    parts = [stored(each.to_native(), spec, sequence=number) for each in (change.append, merged) if each is not None]
    if change.delete is not None:
        parts.append(gone(now.arrived(Matching(change.delete.select(*spec.key))), spec))
    return reduce(DataFrame.union, parts) if parts else gone(now.arrived().limit(0), spec), Operation.UPSERT


def gone(arrived: DataFrame, spec: TableSpec) -> DataFrame:
    """Rows as they came, stored as deletes."""
    return stored(arrived, spec, deleted=F.lit(True), sequence=F.col(SEQUENCE))


def rearrived(before: Reading, after: Reading) -> DataFrame:
    """The rows that lead a table which folds them from one version to another."""
    key = (*after.spec.key, SEQUENCE)
    moves: DataFrame = net_changes(lazy(before.arrived()), lazy(after.arrived()), key).to_native()
    moves = moves.filter(F.col(ROW_KIND) != "-U")
    return stored(moves, after.spec, deleted=F.col(ROW_KIND) == "-D", sequence=F.col(SEQUENCE))


def refolded(now: Reading) -> DataFrame:
    """The rows that leave one row a key: the folded one in the place of the newest, and deletes of the others."""
    folded_rows = now.fold(now.arrived(), arrivals=_ARRIVAL).filter(F.size(_ARRIVAL) > 1)
    each = folded_rows.withColumn(_ARRIVAL, F.explode(_ARRIVAL))
    return stored(each, now.spec, deleted=F.col(_ARRIVAL) != F.col(SEQUENCE), sequence=F.col(_ARRIVAL))


def restored(moves: nw.LazyFrame[Any], spec: TableSpec) -> DataFrame:
    """The rows that make the changes told by row kinds."""
    rows: DataFrame = moves.filter(nw.col(ROW_KIND) != "-U").to_native()
    return stored(rows, spec, deleted=named(ROW_KIND) == "-D")


def replacing(rows: DataFrame, now: Reading) -> DataFrame:
    """Stored rows, and what takes all others away.

    Hudi's own overwrite leaves buckets that are resized with files nobody reads: what is written next is lost in them.
    """
    if now.folded:
        names = [KEY, SEQUENCE]
        there = gone(now.arrived(), now.spec)
    else:
        names = [KEY]
        there = stored(now.content().select(*map(named, now.spec.key)), now.spec, deleted=F.lit(True))
    others = there.join(rows.select(*names), names, "left_anti")
    return rows.union(others.select(rows.columns))


def _merged(incoming: nw.LazyFrame[Any], now: Reading) -> DataFrame:
    """Rows folded with each other and into the stored ones of their keys: one a key."""
    spec: TableSpec = now.spec
    if now.version is None or (not spec.groups and all(rule == Replace() for rule in spec.column_rules.values())):
        alone: DataFrame = one_a_key(incoming, spec).to_native()
        return alone
    rows: DataFrame = incoming.to_native()
    there = now.content(Matching(incoming.select(*spec.key)), _folders(rows, spec))
    position = POSITION if POSITION in rows.columns else "0"
    both = _arriving(there, spec, _BEFORE_ALL).union(_arriving(rows, spec, position))
    return folded(both, key=spec.key, rules=spec.column_rules, groups=spec.groups, arrival=_ARRIVAL)


def _arriving(rows: DataFrame, spec: TableSpec, arrival: str) -> DataFrame:
    return typed(rows, spec.schema, f"CAST({arrival} AS bigint) AS {_ARRIVAL}")


def _folders(rows: DataFrame, spec: TableSpec) -> list[str] | None:
    """The partitions that rows fall into."""
    if not spec.partition_by:
        return None
    text = folder_text(spec.schema, spec.partition_by)
    found = typed(rows, spec.schema).selectExpr(f"{text} AS {PARTITION}").distinct().collect()
    return [row[0] for row in found]
