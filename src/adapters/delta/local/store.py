"""Versioned tables on Delta Lake, on Polars: the same tables as `..store`, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, evolve, field

from ....domain.epoch.epoch import Mark
from ....domain.errors import EpochConflict, NotSupported, TableDamaged
from ....domain.ports import Version
from ....domain.table.apply import add_columns
from ....domain.table.change import Change, Matching
from ....domain.table.schema import Schema
from ....domain.table.spec import Ensured, TableSpec
from ...polars.file_cache import FileCache
from ...polars.schema import collect, empty, lazy
from ...shared.leases import LeaseFiles
from ...shared.path import absolute, folder_of
from ..base_store import TRIES, BaseDeltaStore, other_commits
from ..compaction_policy import CompactionPolicy, files_of, keeps_most, with_operations
from ..expire import SweepPolicy
from ..followed_log import UsedTable
from .compaction import prepare_compaction
from .disk import Disk
from .log import CommitConflict, LocalLog
from .lookups import Lookups
from .read import LocalVersion
from .storage import Storage, is_in_bucket
from .write import Writing, prepare_change, prepare_restore

if TYPE_CHECKING:
    import polars as pl


@define(eq=False)
class _Table(UsedTable[LocalLog, LocalVersion]):
    """A table in use.

    Args:
        cache: the rows of recent files.
        is_patient: whether it is compacted by the patient policy.
    """

    cache: FileCache = field(kw_only=True)
    is_patient: bool = field(init=False, default=False)

    def at(self, version: int) -> LocalVersion:
        return LocalVersion(self.spec_at(version), self.log, version, self.cache)


@define(eq=False)
class LocalDeltaStore(BaseDeltaStore[_Table]):
    """Tables in Delta Lake, ``pipeline.table`` at ``<root>/<pipeline>/<table>``.

    Args:
        root: a folder of this machine, or the address of an object store.
        compaction: which partitions `compact` rewrites.
        sweep: how long `expire` keeps unneeded files.
        cache: the rows of recent files, in memory.
        lookups: answers lookups of counts, from memory.
        storage: where the tables are.
    """

    root: str = field(converter=absolute)
    compaction: CompactionPolicy = field(factory=CompactionPolicy)
    sweep: SweepPolicy = field(factory=SweepPolicy)
    cache: FileCache = field(factory=FileCache)
    lookups: Lookups = field(factory=Lookups)
    storage: Storage = field()
    _tables: Ensured[_Table] = field(init=False, factory=Ensured)
    _logs: dict[str, LocalLog] = field(init=False, factory=dict)

    @storage.default
    def _place(self) -> Storage:
        if not is_in_bucket(self.root):
            return Disk()
        from .bucket import Bucket  # needs the package obstore

        return Bucket(self.root)

    def ensure(self, spec: TableSpec, published: Mapping[str, Version] | None = None) -> Schema:
        log = self._log(spec.name)
        added = log.added_columns(spec, published)
        self._tables[spec.name] = _Table(spec, log, LeaseFiles(log.path, self.storage.small_files), cache=self.cache)
        return added

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        used = self._tables[table]
        if at is None:
            return lazy(empty(used.spec.schema))
        stored = used.readable_version(at)
        if matching is None:
            return nw.from_native(stored.content(Matching()))
        found = self.lookups.find(stored, matching)
        # What is looked up by keys is small, and often used more than once.
        return lazy(stored.content(matching).collect() if found is None else found)

    def look_up(
        self, table: str, at: Version | None, asked: nw.LazyFrame[Any], matching: Matching, columns: Mapping[str, str]
    ) -> nw.LazyFrame[Any]:
        if at is None:
            return super().look_up(table, at, asked, matching, columns)
        stored, rows = self._tables[table].readable_version(at), collect(asked)
        if (found := self.lookups.attach(stored, rows, matching, columns)) is not None:
            return lazy(found)
        # Not by `read`: it would ask the indexes again.
        return add_columns(lazy(rows), nw.from_native(stored.content(matching)), matching, columns)

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        self._tables[table].spec.check_takes(change)
        file_bytes = self.compaction.target_bytes
        return self._commit_marked(
            table, mark, lambda stored: prepare_change(change, stored, mark.sequence, file_bytes)
        )

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        wanted = None if to is None else self._tables[table].readable_version(to)
        return self._commit_marked(table, mark, partial(prepare_restore, wanted))

    def changed_keys(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        used = self._tables[table]
        used.spec.check_compared()
        before = None if after is None else used.readable_version(after)
        return lazy(used.readable_version(until).changed_keys(before).collect())

    def compact(self, table: str) -> Version | None:
        used = self._tables[table]
        newest = used.log.newest()
        policy = self.compaction.patient if used.is_patient else self.compaction
        if newest < 0:
            return None
        if not (rewrites := policy.choose(with_operations(used.log.files(newest).values(), used.spec))):
            return None
        stored, files = used.at(newest), files_of(rewrites)
        added, actions = prepare_compaction(rewrites, stored, self.compaction.target_bytes)
        if added and all(each.whole for each in rewrites):
            used.is_patient = used.spec.adds_up and keeps_most(files, added)
        for _ in range(TRIES):
            # Rows may have been added in the meantime; files that have gone are chosen again by the next compaction.
            upon = used.log.state(used.log.newest())
            if any(file.path not in upon.files for file in files):
                break
            try:
                return Version(str(used.log.append(upon, actions)))
            except CommitConflict:
                continue
        stored.data.delete(added)
        return None

    def sibling(self) -> LocalDeltaStore:
        """A store that follows the logs by itself; only the rows of recent files are shared."""
        return evolve(self)

    def _commit_marked(self, table: str, mark: Mark, prepare: Callable[[LocalVersion], Writing]) -> Version:
        used = self._tables[table]
        for tried in range(TRIES):
            newest = used.log.newest() if tried else _to_build_on(used, mark)
            used.check_follows(mark, newest)
            stored = used.at(newest)
            writing = prepare(stored)
            try:
                used.log.state(newest).check_writable(used.log.path, removes=bool(writing.removed))
                made = _append(used.log, newest, writing, mark)
            except (CommitConflict, NotSupported) as error:
                stored.data.delete(writing.written)
                if isinstance(error, NotSupported) and used.log.newest() == newest:
                    raise
                continue
            used.newest_mark = (made, mark.sequence)
            self.lookups.follow(used.at(made))
            return Version(str(made))
        raise other_commits(table)

    def _held(self, rows: pl.LazyFrame) -> nw.LazyFrame[Any]:
        return lazy(rows.collect())

    def _log(self, table: str) -> LocalLog:
        """The log of a table that need not have been ensured; always the same, as opening one takes time."""
        if (log := self._logs.get(table)) is None:
            log = self._logs.setdefault(table, LocalLog(folder_of(self.root, table), self.storage))
        return log


def _to_build_on(used: _Table, mark: Mark) -> int:
    """The version to build on: the newest known one if the mark follows it; if it is out of date, `_append` fails."""
    known = used.log.known()
    try:
        used.check_follows(mark, known)
    except (EpochConflict, TableDamaged):
        return used.log.newest()
    return known


def _append(log: LocalLog, newest: int, writing: Writing, mark: Mark) -> int:
    """Commit upon a version, or upon later ones if only upkeep has come in between and the commit only adds rows.

    Raises:
        CommitConflict: another commit has come in between.
    """
    while True:
        try:
            return log.append(
                log.state(newest), writing.actions, table=writing.table, mark=mark.to_json(), sequence=mark.sequence
            )
        except CommitConflict:
            later = log.newest()
            if not writing.only_adds or not all(log.commit(each).is_upkeep for each in range(newest + 1, later + 1)):
                raise
            newest = later
