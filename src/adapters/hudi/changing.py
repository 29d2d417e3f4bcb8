"""What a change writes: the stored rows of one commit, and how Hudi is to take them."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import narwhals as nw
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.change import Matching
from ...domain.epoch import ROW_KIND
from ...domain.merge import Replace, fold
from ..spark.merging import one_a_key
from ..spark.schema import empty_frame, lazy, named, typed
from .names import PARTITION
from .rows import stored
from .texts import folder_text
from .writing import Operation

if TYPE_CHECKING:
    from ...domain.change import Change
    from ...domain.table import TableSpec
    from .reading import Reading

_ARRIVAL = "_arrival"


def written(change: Change, now: Reading) -> tuple[DataFrame, Operation]:
    """The rows that make a change of the newest version."""
    spec = now.spec
    if change.overwrite is not None:
        return stored(change.overwrite.to_native(), spec), Operation.OVERWRITE
    parts = [] if change.append is None else [stored(change.append.to_native(), spec)]
    if change.merge is not None:
        parts.append(stored(_merged(one_a_key(change.merge, spec), now), spec))
    if change.delete is not None:
        keys = change.delete.to_native().select(*map(named, spec.key)).distinct()
        parts.append(stored(keys, spec, deleted=F.lit(True)))
    rows = reduce(DataFrame.union, parts) if parts else stored(empty_frame(now.folder.session, spec.schema), spec)
    return rows, Operation.UPSERT if spec.key else Operation.ADD


def restored(moves: nw.LazyFrame[Any], spec: TableSpec) -> DataFrame:
    """The rows that make the changes told by row kinds."""
    rows: DataFrame = moves.filter(nw.col(ROW_KIND) != "-U").to_native()
    return stored(rows, spec, deleted=named(ROW_KIND) == "-D")


def _merged(incoming: nw.LazyFrame[Any], now: Reading) -> DataFrame:
    """Rows, one a key, folded into the stored ones of their keys."""
    spec: TableSpec = now.spec
    rows: DataFrame = incoming.to_native()
    if now.version is None or (not spec.groups and all(rule == Replace() for rule in spec.column_rules.values())):
        return rows
    there = now.content(Matching(incoming.select(*spec.key)), _folders(rows, spec))
    both = _arriving(there, spec, 0).union(_arriving(rows, spec, 1))
    folded = fold(lazy(both), key=spec.key, rules=spec.column_rules, groups=spec.groups, arrival=_ARRIVAL)
    native: DataFrame = folded.to_native()
    return native


def _arriving(rows: DataFrame, spec: TableSpec, arrival: int) -> DataFrame:
    return typed(rows, spec.schema, f"{arrival} AS {_ARRIVAL}")


def _folders(rows: DataFrame, spec: TableSpec) -> list[str] | None:
    """The partitions that rows fall into."""
    if not spec.partition_by:
        return None
    text = folder_text(spec.schema, spec.partition_by)
    found = typed(rows, spec.schema).selectExpr(f"{text} AS {PARTITION}").distinct().collect()
    return [row[0] for row in found]
