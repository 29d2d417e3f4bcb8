"""What a change writes: the stored rows of one commit, and how Hudi is to take them."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import evolve
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.change import Matching
from ...domain.epoch import ROW_KIND
from ...domain.errors import NotSupported
from ...domain.merge import Replace, fold
from ...domain.schema import Schema
from ...domain.table import RETYPING
from ..spark.merging import one_a_key
from ..spark.schema import empty_frame, lazy, named, quoted, typed
from .names import PARTITION
from .rows import stored
from .texts import folder_text
from .writing import Operation, Written

if TYPE_CHECKING:
    from ...domain.change import Change
    from ...domain.table import TableSpec
    from .reading import Reading

_ARRIVAL = "_arrival"


def written(change: Change, now: Reading) -> Written:
    """The rows that make a change of the newest version."""
    spec = now.spec
    if change.overwrite is not None:
        return overwritten(change.overwrite.to_native(), now)
    parts = [] if change.append is None else [stored(change.append.to_native(), spec)]
    if change.merge is not None:
        parts.append(stored(_merged(one_a_key(change.merge, spec), now), spec))
    if change.delete is not None:
        keys = change.delete.to_native().select(*map(named, spec.key)).distinct()
        parts.append(stored(keys, spec, deleted=F.lit(True)))
    rows = reduce(DataFrame.union, parts) if parts else stored(empty_frame(now.folder.session, spec.schema), spec)
    return Written(rows, Operation.UPSERT if spec.key else Operation.ADD)


def overwritten(rows: DataFrame, now: Reading) -> Written:
    """Rows in the place of all there are; in columns of their own, where the table is replaced as a whole.

    Raises:
        NotSupported: a column has another type than in the newest version.
    """
    if not now.spec.whole:
        return Written(stored(rows, now.spec), Operation.OVERWRITE)
    schema = Schema.of(lazy(rows))
    before = now.spec.schema
    # Hudi would write the new values as the old type, without a word where it can.
    if other := [name for name in schema.names if name in before and before[name] != schema[name]]:
        raise NotSupported(
            f"column {other[0]!r} of table {now.spec.name}, {before[other[0]].ddl} until now, as"
            f" {schema[other[0]].ddl}",
            "hudi",
            RETYPING,
        )
    # A column that is never null, such as a literal, could not come to a table that has rows.
    nullable = rows.selectExpr(*(f"IF(true, {quoted(name)}, NULL) AS {quoted(name)}" for name in schema.names))
    return Written(stored(nullable, evolve(now.spec, schema=schema)), Operation.OVERWRITE, schema)


def restored(moves: nw.LazyFrame[Any], spec: TableSpec) -> Written:
    """The rows that make the changes told by row kinds."""
    rows: DataFrame = moves.filter(nw.col(ROW_KIND) != "-U").to_native()
    return Written(stored(rows, spec, deleted=named(ROW_KIND) == "-D"), Operation.UPSERT)


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
