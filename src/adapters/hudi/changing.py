"""What a change writes: the stored rows of one commit, and how Hudi is to take them."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import evolve
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.change import Matching
from ...domain.epoch import POSITION, ROW_KIND
from ...domain.errors import NotSupported
from ...domain.merge import Replace
from ...domain.schema import Schema
from ...domain.table import RETYPING
from ..spark.merging import folded, one_a_key
from ..spark.schema import empty_frame, lazy, named, quoted, typed
from .arriving import arriving, gone
from .names import KEY, PARTITION, SEQUENCE
from .rows import stored
from .texts import folder_text, key_text
from .writing import Operation, Written

if TYPE_CHECKING:
    from pyspark.sql import Column

    from ...domain.change import Change
    from ...domain.table import TableSpec
    from .reading import Reading

LOOKED_UP_BYTES = 32 * 1024 * 1024
"""How large a table is at least for it to be quicker to look for a few keys than to read all rows …"""
LOOKED_UP_KEYS = 32
"""… and how few they are: each stored key is compared with each of them, one after the other."""
_ARRIVAL = "_arrival"
_BEFORE_ALL = "-1"
"""Stored rows have arrived before all that come, whose positions count from 0."""


def written(change: Change, now: Reading, sequence: int) -> Written:
    """The rows that make a change of the newest version, by the commit of a number."""
    spec = now.spec
    if change.overwrite is not None:
        return overwritten(change.overwrite.to_native(), now, sequence)
    if now.folded:
        return arriving(change, now, sequence)
    parts = [] if change.append is None else [stored(change.append.to_native(), spec)]
    if change.merge is not None:
        parts.append(stored(_merged(change.merge, now), spec))
    if change.delete is not None:
        keys = change.delete.to_native().select(*map(named, spec.key)).distinct()
        parts.append(stored(keys, spec, deleted=F.lit(True)))
    rows = reduce(DataFrame.union, parts) if parts else stored(empty_frame(now.folder.session, spec.schema), spec)
    return Written(rows, Operation.UPSERT if spec.key else Operation.ADD)


def overwritten(rows: DataFrame, now: Reading, sequence: int) -> Written:
    """Rows in the place of all there are; in columns of their own, where the table is replaced as a whole.

    Raises:
        NotSupported: a column has another type than in the newest version.
    """
    if not now.spec.whole:
        return Written(stored(rows, now.spec, sequence=number(now, sequence)), Operation.OVERWRITE)
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


def number(now: Reading, sequence: int) -> Column | None:
    """What the rows of a commit are numbered with, where they are."""
    return F.lit(sequence) if now.folded else None


def restored(moves: nw.LazyFrame[Any], spec: TableSpec) -> Written:
    """The rows that make the changes told by row kinds."""
    rows: DataFrame = moves.filter(nw.col(ROW_KIND) != "-U").to_native()
    return Written(stored(rows, spec, deleted=named(ROW_KIND) == "-D"), Operation.UPSERT)


def replacing(rows: DataFrame, now: Reading) -> DataFrame:
    """Stored rows, and what takes all others away.

    Hudi's own overwrite leaves buckets that are resized with files nobody reads: what is written next is lost in them.
    """
    if now.folded:
        names, there = [KEY, SEQUENCE], gone(now.arrived(), now.spec)
    else:
        names, there = [KEY], stored(now.content().select(*map(named, now.spec.key)), now.spec, deleted=F.lit(True))
    others = there.join(rows.select(*names), names, "left_anti")
    return rows.union(others.select(rows.columns))


def _merged(incoming: nw.LazyFrame[Any], now: Reading) -> DataFrame:
    """Rows folded with each other and into the stored ones of their keys: one a key."""
    spec: TableSpec = now.spec
    if now.version is None or (not spec.groups and all(rule == Replace() for rule in spec.column_rules.values())):
        alone: DataFrame = one_a_key(incoming, spec).to_native()
        return alone
    rows: DataFrame = incoming.to_native()
    there = _met(rows, now)
    position = POSITION if POSITION in rows.columns else "0"
    both = _arriving(there, spec, _BEFORE_ALL).union(_arriving(rows, spec, position))
    return folded(both, key=spec.key, rules=spec.column_rules, groups=spec.groups, arrival=_ARRIVAL)


def _met(rows: DataFrame, now: Reading) -> DataFrame:
    """The stored rows whose keys come again."""
    folders = _folders(rows, now.spec)
    if now.by_key is not None and now.folder.bytes > LOOKED_UP_BYTES:
        text = key_text(now.spec.schema, now.spec.key)
        keys = typed(rows, now.spec.schema).selectExpr(f"{text} AS {KEY}").filter(named(KEY).isNotNull())
        found = [row[0] for row in keys.distinct().limit(LOOKED_UP_KEYS + 1).collect()]
        if len(found) <= LOOKED_UP_KEYS:
            return now.of_keys(found, folders)
    return now.content(Matching(lazy(rows.select(*map(named, now.spec.key)))), folders)


def _arriving(rows: DataFrame, spec: TableSpec, arrival: str) -> DataFrame:
    return typed(rows, spec.schema, f"CAST({arrival} AS bigint) AS {_ARRIVAL}")


def _folders(rows: DataFrame, spec: TableSpec) -> list[str] | None:
    """The partitions that rows fall into."""
    if not spec.partition_by:
        return None
    text = folder_text(spec.schema, spec.partition_by)
    found = typed(rows, spec.schema).selectExpr(f"{text} AS {PARTITION}").distinct().collect()
    return [row[0] for row in found]
