"""Lookups of counts by key, answered from memory.

The rows of a partition that lookups ask for are indexed when they are asked for again. The index follows the table's
log: it takes in the rows of each commit since. So it has the rows of exactly one version, whoever made the commits.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import polars as pl
from attrs import define, field, frozen

from ....domain.errors import VersionExpired
from ....domain.table.apply import cast_columns, select_matching
from ....domain.table.change import Matching
from ....domain.table.merge import Max, Sum
from ....domain.table.schema import INTEGERS
from ....domain.table.sums import counts
from ...polars.key_index import HashCollision, KeyIndex
from ...polars.schema import collect, empty, polars_schema
from ..actions import by_partition
from ..followed_log import BEFORE_ALL
from ..prune import prune
from ..stored import DELETED, OPERATION, has_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ....domain.table.spec import TableSpec
    from ..actions import DataFile, PartitionValues
    from .read import LocalVersion

_MEBIBYTE = 1024 * 1024
_FEW = 8
"""Up to this number of stored rows for each key asked for, the first lookup makes the index: it costs little more."""
_UNEQUAL_HASHES = frozenset({"float", "double"})
"""Types with equal values that have different hashes: 0.0 and -0.0."""

_Name: TypeAlias = "tuple[str, PartitionValues, tuple[str, ...], tuple[str, ...], tuple[tuple[str, Any], ...]]"
"""Names an index: the path of its table, its partition, the columns of its keys and of its counts, the literals."""


class _NotCounts(Exception):
    """Rows are deleted or null, which an index of counts has no place for."""


@frozen(eq=False)
class _Lookup:
    """A read of counts by their keys.

    Args:
        spec: the table.
        keys: the keys, in some of the key columns.
        literals: the value of each other key column.
        folds: what several rows of a key come to, by column.
    """

    spec: TableSpec
    keys: pl.DataFrame
    literals: Mapping[str, Any]
    folds: Mapping[str, Callable[[pl.Expr], pl.Expr]]

    @classmethod
    def of(cls, matching: Matching, spec: TableSpec) -> _Lookup | None:
        """What a read looks up; None if it is not by whole keys, or not of counts."""
        if matching.keys is None or (folds := _folds(spec)) is None:
            return None
        named, within = matching.keys.collect_schema().names(), dict(matching.within)
        key = [name for name in spec.key if name in named]
        others = {name: within.pop(name, ()) for name in spec.key if name not in named}
        literals = {name: found[0] for name, found in others.items() if isinstance(found, tuple) and len(found) == 1}
        whole = len(key) == len(named) > 1 and literals.keys() == others.keys() and None not in literals.values()
        hashed = all(spec.schema[name].name not in _UNEQUAL_HASHES for name in key)
        if not whole or not hashed or not within.keys() <= set(key):
            return None
        schema = spec.schema.select(key)
        keys = select_matching(cast_columns(matching.keys, schema), Matching(None, within), schema)
        return cls(spec, collect(keys), literals, folds)

    def name(self, path: str, place: PartitionValues) -> _Name:
        """The name of the index that it needs of a partition."""
        return path, place, tuple(self.keys.columns), tuple(self.folds), tuple(self.literals.items())

    def find_files(self, stored: LocalVersion) -> dict[PartitionValues, list[DataFile]]:
        """All files of each partition that the keys may be in."""
        by, schema = self.spec.partition_by, self.spec.schema
        literals = {name: (value,) for name, value in self.literals.items() if name in by}
        within = literals | {name: tuple(self.keys[name].unique()) for name in by if name in self.keys.columns}
        return by_partition(prune(stored.files, within, schema))

    def read(self, stored: LocalVersion, files: Sequence[DataFile]) -> pl.DataFrame:
        """The rows of files that such lookups ask for."""
        if any(file.highest.get(OPERATION, DELETED) == DELETED for file in files):
            raise _NotCounts
        literals = Matching(None, {name: (value,) for name, value in self.literals.items()})
        stored_rows: nw.LazyFrame[Any] = nw.from_native(stored.stored(files))
        wanted = select_matching(stored_rows, literals, self.spec.schema)
        rows = collect(wanted.select(*self.keys.columns, *self.folds))
        if any(rows[name].null_count() for name in self.folds):
            raise _NotCounts
        return rows

    def shape(self, found: pl.DataFrame) -> pl.DataFrame:
        """Rows of an index in the columns of the table."""
        schema = polars_schema(self.spec.schema)
        literals = (pl.lit(value, schema[name]).alias(name) for name, value in self.literals.items())
        return found.with_columns(*literals).select(pl.col(name).cast(dtype) for name, dtype in schema.items())


@frozen(eq=False)
class _Entry:
    """The index of a partition at a version. There is none after the first lookup, and if it `fails` to be made."""

    index: KeyIndex | None = None
    version: int = BEFORE_ALL
    fails: bool = False

    @property
    def size(self) -> int:
        """The size of the index in bytes."""
        return 0 if self.index is None else self.index.size

    def rows_since(self, lookup: _Lookup, stored: LocalVersion, place: PartitionValues) -> pl.DataFrame | None:
        """The rows that were committed up to a later version; None if rows were removed, or the commits are gone."""
        try:
            commits = [stored.log.commit(number) for number in range(self.version + 1, stored.version + 1)]
        except VersionExpired:
            return None
        if any(commit.rewrites for commit in commits):
            return None
        added = [file for commit in commits for file in commit.added if file.action.get("dataChange", True)]
        return lookup.read(stored, [file for file in added if file.place == place])


@define(eq=False)
class Lookups:
    """The indexes of the tables of a store, up to a number of bytes; the least recently used one is dropped first.

    Several threads may use it: an index never changes.
    """

    limit: int = 256 * _MEBIBYTE
    _lock: Lock = field(init=False, factory=Lock)
    _entries: OrderedDict[_Name, _Entry] = field(init=False, factory=OrderedDict)

    def find(self, stored: LocalVersion, matching: Matching) -> pl.DataFrame | None:
        """The matching rows of a version; None if they have to be read."""
        if (lookup := _Lookup.of(matching, stored.spec)) is None:
            return None
        parts = [empty(stored.spec.schema)]
        for place, files in lookup.find_files(stored).items():
            name = lookup.name(stored.log.path, place)
            entry = _bring_up(self._entries.get(name), lookup, stored, files)
            self._keep(name, entry)
            if entry.index is None or entry.version != stored.version:
                return None
            parts.append(lookup.shape(entry.index.find(lookup.keys)))
        return pl.concat(parts)

    def _keep(self, name: _Name, entry: _Entry) -> None:
        with self._lock:
            self._entries[name] = entry if entry.size <= self.limit else _Entry(fails=True)
            self._entries.move_to_end(name)
            while sum(each.size for each in self._entries.values()) > self.limit:
                self._entries.popitem(last=False)


def _bring_up(entry: _Entry | None, lookup: _Lookup, stored: LocalVersion, files: Sequence[DataFile]) -> _Entry:
    """The index of a partition at a version, made from its files or from an index of an earlier version."""
    if entry is not None and (entry.fails or entry.version > stored.version):
        return entry
    try:
        if entry is not None and entry.index is not None:
            if (rows := entry.rows_since(lookup, stored, files[0].place)) is not None:
                return _Entry(entry.index.add(rows), stored.version)
            entry = None
        if entry is None and sum(file.rows or 0 for file in files) > _FEW * lookup.keys.height:
            return _Entry()
        rows = lookup.read(stored, files)
        return _Entry(KeyIndex.of(rows, lookup.keys.columns, lookup.folds), stored.version)
    except (HashCollision, _NotCounts):
        return _Entry(fails=True)


def _folds(spec: TableSpec) -> Mapping[str, Callable[[pl.Expr], pl.Expr]] | None:
    """What several rows of a key come to, by column; None if a table has more than counts, whose sums always fit."""
    if not has_log(spec) or spec.groups:
        return None
    folds = {}
    for name, rule in spec.column_rules.items():
        if spec.schema[name].name not in INTEGERS or not isinstance(rule, Sum | Max) or not counts(name):
            return None
        folds[name] = pl.Expr.sum if isinstance(rule, Sum) else pl.Expr.max
    return folds
