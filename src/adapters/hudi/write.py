"""Turns a change into one commit: the stored rows and Hudi's operation."""

from __future__ import annotations

from functools import reduce
from typing import Any

import narwhals as nw
from attrs import evolve
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...domain.errors import NotSupported
from ...domain.table.change import POSITION, Change, Matching
from ...domain.table.row_kind import ROW_KIND
from ...domain.table.schema import Schema
from ...domain.table.spec import RETYPING, TableSpec
from ..spark.merge import fold_by_key, one_row_per_key
from ..spark.schema import lazy, named, typed
from .append import append_change, as_deletes
from .commit import CommitInput, Operation
from .key_encoding import folder_text, key_text
from .names import KEY, PARTITION, SEQUENCE, check_column_names
from .read import TableVersion
from .rows import to_stored

LOOKED_UP_BYTES = 32 * 1024 * 1024
"""A few keys are looked up by themselves only in tables larger than this, in bytes …"""
LOOKED_UP_KEYS = 32
"""… and only up to this number of keys, because each stored key is compared with each of them."""
_ARRIVAL = "_headwater_arrival"
_BEFORE_ALL = "-1"
"""The arrival of stored rows: before all incoming rows, whose positions count from 0."""


def prepare_change(change: Change, now: TableVersion, sequence: int) -> CommitInput:
    """The commit that applies a change to the newest version; `sequence` is its number."""
    if change.overwrite is not None:
        return prepare_overwrite(change.overwrite.to_native(), now, sequence)
    if now.folded:
        return append_change(change, now, sequence)
    merged = None if change.merge is None else lazy(_merge(change.merge, now))
    return prepare_merged(evolve(change, merge=merged), now)


def prepare_merged(change: Change, now: TableVersion) -> CommitInput:
    """As `prepare_change`, with rows to merge that are merged with each other and with the stored rows already."""
    spec, given = now.spec, (change.append, change.merge)
    parts = [to_stored(each.to_native(), spec) for each in given if each is not None]
    if change.delete is not None:
        keys = change.delete.to_native().select(*map(named, spec.key)).distinct()
        parts.append(to_stored(keys, spec, deleted=F.lit(True)))
    rows = reduce(DataFrame.union, parts) if parts else to_stored(now.nothing(), spec)
    # Where no file is found by key, rows of new keys go into a file of their own: an upsert would look them up, and
    # rewrite a file.
    adds = not spec.key or (change.merge is change.delete is None and now.by_key is None)
    return CommitInput(rows, Operation.ADD if adds else Operation.UPSERT)


def prepare_overwrite(rows: DataFrame, now: TableVersion, sequence: int) -> CommitInput:
    """The commit that replaces all rows; a table that is replaced as a whole gets their columns too.

    Raises:
        NotSupported: a column has another type than in the newest version.
        ConfigError: a column of a table that is replaced as a whole has a name of Hudi's.
    """
    if not now.spec.whole:
        return CommitInput(to_stored(rows, now.spec, sequence=sequence_value(now, sequence)), Operation.OVERWRITE)
    schema = Schema.of(lazy(rows))
    check_column_names(evolve(now.spec, schema=schema))
    before = now.spec.schema
    # Hudi would silently write the new values in the old type, where it can.
    if other := [name for name in schema.names if name in before and before[name] != schema[name]]:
        raise NotSupported(
            f"column {other[0]!r} of table {now.spec.name}, {before[other[0]].ddl} until now, as"
            f" {schema[other[0]].ddl}",
            "hudi",
            RETYPING,
        )
    return CommitInput(to_stored(rows, evolve(now.spec, schema=schema)), Operation.OVERWRITE, schema)


def sequence_value(now: TableVersion, sequence: int) -> Column | None:
    """The value of `SEQUENCE` for the rows of a commit; None if the table is not folded on read."""
    return F.lit(sequence) if now.folded else None


def prepare_restore(moves: nw.LazyFrame[Any], spec: TableSpec) -> CommitInput:
    """The commit that applies changes, which have row kinds."""
    rows: DataFrame = moves.filter(nw.col(ROW_KIND) != "-U").to_native()
    return CommitInput(to_stored(rows, spec, deleted=named(ROW_KIND) == "-D"), Operation.UPSERT)


def replace_all(rows: DataFrame, now: TableVersion) -> DataFrame:
    """Stored rows, and deletes of all other rows.

    With resizable buckets, Hudi's own overwrite leaves files that are never read; later rows in them are lost.
    """
    if now.folded:
        names, there = [KEY, SEQUENCE], as_deletes(now.arrived(), now.spec)
    else:
        names, there = [KEY], to_stored(now.content().select(*map(named, now.spec.key)), now.spec, deleted=F.lit(True))
    others = there.join(rows.select(*names), names, "left_anti")
    return rows.union(others.select(rows.columns))


def _merge(incoming: nw.LazyFrame[Any], now: TableVersion) -> DataFrame:
    """Incoming rows folded with each other and with the stored rows of their keys: one row per key."""
    spec: TableSpec = now.spec
    if now.version is None or spec.newest_counts:
        alone: DataFrame = one_row_per_key(incoming, spec).to_native()
        return alone
    rows: DataFrame = incoming.to_native()
    there = _matching_rows(rows, now)
    position = POSITION if POSITION in rows.columns else "0"
    both = _with_arrival(there, spec, _BEFORE_ALL).union(_with_arrival(rows, spec, position))
    return fold_by_key(both, key=spec.key, rules=spec.column_rules, groups=spec.groups, arrival=_ARRIVAL)


def _matching_rows(rows: DataFrame, now: TableVersion) -> DataFrame:
    """The stored rows with the keys of the incoming rows."""
    folders = _folders(rows, now.spec)
    if now.by_key is not None and now.folder.bytes > LOOKED_UP_BYTES:
        text = key_text(now.spec.schema, now.spec.key)
        keys = typed(rows, now.spec.schema).selectExpr(f"{text} AS {KEY}").filter(named(KEY).isNotNull())
        found = [row[0] for row in keys.distinct().limit(LOOKED_UP_KEYS + 1).collect()]
        if len(found) <= LOOKED_UP_KEYS:
            return now.of_keys(found, folders)
    return now.content(Matching(lazy(rows.select(*map(named, now.spec.key)))), folders)


def _with_arrival(rows: DataFrame, spec: TableSpec, arrival: str) -> DataFrame:
    return typed(rows, spec.schema, f"CAST({arrival} AS bigint) AS {_ARRIVAL}")


def _folders(rows: DataFrame, spec: TableSpec) -> list[str] | None:
    """The partitions that rows fall into."""
    if not spec.partition_by:
        return None
    text = folder_text(spec.schema, spec.partition_by)
    found = typed(rows, spec.schema).selectExpr(f"{text} AS {PARTITION}").distinct().collect()
    return [row[0] for row in found]
