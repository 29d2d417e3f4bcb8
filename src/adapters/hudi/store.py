"""Versioned tables on Apache Hudi."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ...domain.errors import ConfigError, EpochConflict
from ...domain.holds import Holds
from ...domain.ports import Commit, Expiry, KeptStore, Version
from ...domain.table import Layout
from ..spark.hadoop_files import HadoopFiles
from ..spark.place import absolute, folder_of
from ..spark.schema import lazy
from .changing import restored, written
from .compaction import CompactionPolicy, compact
from .definition import Definition, TableType, ensured
from .differing import differences
from .expiring import Sweep
from .faults import translated
from .lock import locked
from .place import Folder
from .reading import Reading
from .rows import stored
from .timeline import Timeline
from .writing import Operation, write

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from datetime import datetime

    import narwhals as nw
    from pyspark.sql import DataFrame, SparkSession

    from ...domain.change import Change, Matching
    from ...domain.epoch import Mark
    from ...domain.lease import Lease
    from ...domain.table import TableSpec


@define(eq=False)
class _Table:
    """A table in use."""

    definition: Definition
    spec: TableSpec
    folder: Folder
    timeline: Timeline
    holds: Holds

    def at(self, version: str | None) -> Reading:
        """A version that can be read."""
        if version is not None:
            self.timeline.readable(version)
            self.holds.check_readable(version)
            self.timeline.check_whole(version)
        return Reading(self.spec, self.folder, version)

    def newest(self) -> Reading:
        """The newest version, to be read."""
        if (version := self.timeline.newest()) is not None:
            self.timeline.check_whole(version)
        return Reading(self.spec, self.folder, version)

    def newest_version(self) -> Version:
        """The newest version there is; call it when there is one."""
        newest = self.timeline.newest()
        assert newest is not None
        return Version(newest)


@define(eq=False)
class HudiStore(KeptStore):
    """Tables in Apache Hudi, ``pipeline.table`` at ``<root>/<pipeline>/<table>``.

    An epoch is one upsert, with the mark in the commit's metadata; a version is the instant of its commit. Commits of
    one table are made one at a time, under a lock.

    Args:
        session: with Hudi's serializer (`package.SETTINGS`).
        root: a folder, or a URI that Hadoop knows how to reach.
        table_type: of tables that are kept as a log; others, and those without a key, are copied on write.
        buckets: of tables made from now on, merged on read and not partitioned: files that the rows are shared out to.
        compaction: which files `compact` takes up.
    """

    session: SparkSession
    root: str = field(converter=absolute)
    table_type: TableType
    buckets: int = 4
    compaction: CompactionPolicy = field(factory=CompactionPolicy)
    _tables: dict[str, _Table] = field(init=False, factory=dict)

    def ensure(self, spec: TableSpec) -> None:
        folder = Folder(self.session, folder_of(self.root, spec.name))
        with translated(spec.name, folder.path):
            definition = ensured(folder, self._wanted(spec))
        self._tables[spec.name] = _Table(
            definition, spec, folder, Timeline(folder), Holds(folder.path, partial(HadoopFiles, self.session))
        )

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        used = self._table(table)
        with translated(table, used.folder.path):
            return lazy(used.at(at).content(matching))

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        used = self._table(table)
        if not used.spec.key and not (change.merge is change.delete is None):
            raise ConfigError(f"table {table} has no key, so it can only be appended to or overwritten")
        return self._marked(used, mark, partial(written, change))

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        used = self._table(table)
        return self._marked(used, mark, partial(_restored, used, to))

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        used = self._table(table)
        if not used.spec.key:
            raise ConfigError(f"table {table} has no key, so its rows cannot be told apart in two versions")
        with translated(table, used.folder.path):
            return differences(used.at(after), used.at(until), used.timeline)

    def versions(self, table: str) -> Iterator[Commit]:
        timeline = self._timeline(table)
        with translated(table, timeline.folder.path):
            for instant in timeline.newest_first():
                yield instant.commit

    def version(self, table: str, version: Version) -> Commit:
        used = self._table(table)
        with translated(table, used.folder.path):
            return used.timeline.instant(version).commit

    def compact(self, table: str) -> Version | None:
        used = self._table(table)
        with translated(table, used.folder.path):
            if used.timeline.newest() is None:
                return None
            if not compact(used.folder, used.timeline, used.definition, self.compaction):
                return None
            # Not its own instant, which is that of its plan: commits made meanwhile are newer, and build on it.
            return used.newest_version()

    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        used = self._table(table)
        with translated(table, used.folder.path):
            return Sweep(table, used.folder, used.timeline, used.holds, now).expire(keep, dry_run=dry_run)

    def expired(self, table: str) -> Collection[Version]:
        used = self._table(table)
        with translated(table, used.folder.path):
            return set(map(Version, used.holds.expired().union(used.timeline.cleaned())))

    def pin(self, lease: Lease) -> None:
        used = self._table(lease.table)
        with translated(lease.table, used.folder.path):
            used.timeline.readable(lease.version)
            used.holds.pin(lease)

    def unpin(self, table: str, lease_id: str) -> None:
        used = self._table(table)
        with translated(table, used.folder.path):
            used.holds.unpin(lease_id)

    def leases(self, table: str) -> Sequence[Lease]:
        used = self._table(table)
        with translated(table, used.folder.path):
            return used.holds.leases()

    def _marked(self, used: _Table, mark: Mark, prepare: Callable[[Reading], tuple[DataFrame, Operation]]) -> Version:
        with translated(used.spec.name, used.folder.path), locked(used.folder):
            _fence(used, mark)
            used.timeline.clear_unmade()
            used.timeline.wait_for_the_clock()
            rows, operation = prepare(used.newest())
            write(rows, used.folder.path, used.definition, operation, mark.to_json())
            return used.newest_version()

    def _wanted(self, spec: TableSpec) -> Definition:
        logged = spec.key and spec.layout is Layout.LOG
        return Definition(
            spec,
            self.table_type if logged else TableType.COPY_ON_WRITE,
            1 if spec.partition_by else self.buckets,
        )

    def _timeline(self, table: str) -> Timeline:
        if table in self._tables:
            return self._tables[table].timeline
        return Timeline(Folder(self.session, folder_of(self.root, table)))

    def _table(self, name: str) -> _Table:
        if name not in self._tables:
            raise ConfigError(f"table {name} is not open; call ensure() with its spec first")
        return self._tables[name]


def _restored(used: _Table, to: Version | None, now: Reading) -> tuple[DataFrame, Operation]:
    """What brings the content of an earlier version back: of a keyed table the rows that differ, else all."""
    wanted = used.at(to)
    if to is None or not used.spec.key:
        return stored(wanted.content(), used.spec), Operation.OVERWRITE
    return restored(differences(now, wanted, used.timeline), used.spec), Operation.UPSERT


def _fence(used: _Table, mark: Mark) -> None:
    if mark.sequence != (newest := used.timeline.sequence()) + 1:
        raise EpochConflict(
            f"table {used.spec.name}: commit {mark.sequence} was to be made, but the newest is {newest}: another run"
            " has been here, and nothing was changed. Let one run at a time write a pipeline"
        )
