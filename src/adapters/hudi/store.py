"""Versioned tables on Apache Hudi."""

from __future__ import annotations

import json
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from ...domain.change import Matching
from ...domain.errors import ConfigError
from ...domain.holds import Holds
from ...domain.ports import BaseReading, Commit, Expiry, Version
from ...domain.table import Ensured, Layout
from ..spark.hadoop_files import HadoopFiles
from ..spark.kept_store import FolderStore
from ..spark.matching import only_matching
from ..spark.merging import one_a_key
from ..spark.own_session import work_in_own_session
from ..spark.place import absolute, folder_of
from ..spark.schema import lazy, named
from ..spark.size import measured
from .archiving import ArchivePolicy, Archiving
from .arriving import rearranged, refolded
from .changing import number, overwritten, replacing, restored, written
from .compaction import CompactionPolicy, compact
from .definition import Definition, TableType, kept
from .differing import differences
from .expiring import Sweep
from .faults import translated
from .groups import file_groups
from .lock import locked
from .names import stored_name
from .place import Folder
from .reading import Reading
from .rows import completed, stored
from .timeline import FOLDED, MARK, Timeline
from .writing import Operation, Written, by_key, write

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import datetime

    import narwhals as nw
    from pyspark.sql import DataFrame, SparkSession

    from ...domain.change import Change
    from ...domain.epoch import Mark
    from ...domain.ledger import Snapshot
    from ...domain.table import TableSpec


@define(eq=False)
class _Table:
    """A table in use."""

    definition: Definition
    spec: TableSpec
    folder: Folder
    timeline: Timeline
    holds: Holds
    is_kept: bool
    """Whether the definition is the one in the folder."""

    def keep(self) -> None:
        """Keep the definition in the table's folder; call it under the table's lock."""
        if not self.is_kept:
            self.definition.keep(self.folder)
            self.is_kept = True

    def write(self, made: Written, metadata: Mapping[str, str]) -> None:
        """Commit stored rows, with all columns that the table has; call it under the table's lock."""
        self.keep()
        schema = self.definition.spec.schema
        if len(schema.columns) > len(self.spec.schema.columns) and not self.spec.whole:
            made = evolve(made, rows=completed(made.rows, schema))
        write(made, self.folder.path, self.definition, metadata)
        if brought := [name for name in self.definition.unsure if name in self.spec.schema]:
            self.definition, self.is_kept = self.definition.committed(self.newest_version(), brought), False
            self.keep()

    def at(self, version: str | None) -> Reading:
        """A version that can be read."""
        if version is not None and not self.timeline.is_newest(version):  # which never expires
            self.holds.check_readable(version)
        return self.whole(version)

    def whole(self, version: str | None) -> Reading:
        """A version whose files lie there as its commit wrote them."""
        if version is not None:
            self.timeline.check_whole(version)
        spec = _as_of(version, self.spec, self.timeline)
        return Reading(spec, self.folder, version, by_key(self.definition), self.definition.folded)

    def newest_version(self) -> Version:
        """The newest version there is; call it when there is one."""
        newest = self.timeline.newest()
        assert newest is not None
        return Version(newest)


@work_in_own_session
@define(eq=False)
class HudiStore(FolderStore, BaseReading):
    """Tables in Apache Hudi, ``pipeline.table`` at ``<root>/<pipeline>/<table>``.

    An epoch is one upsert, with the mark in the commit's metadata; a version is the instant of its commit. Commits of
    one table are made one at a time, under a lock.

    Args:
        session: with Hudi's serializer (`package.SETTINGS`).
        root: a folder, or a URI that Hadoop knows how to reach.
        table_type: of tables that are kept as a log; others, and those without a key, are copied on write.
        buckets: of tables made from now on, merged on read and not partitioned: files that the rows are shared out to.
        compaction: which files `compact` takes up.
        archiving: when `expire` moves instants from the timeline into Hudi's archive.
    """

    session: SparkSession
    root: str = field(converter=absolute)
    table_type: TableType
    buckets: int = 4
    compaction: CompactionPolicy = field(factory=CompactionPolicy)
    archiving: ArchivePolicy = field(factory=ArchivePolicy)
    _tables: Ensured[_Table] = field(init=False, factory=Ensured)

    def ensure(self, spec: TableSpec, published: Snapshot | None = None) -> None:
        folder = Folder(self.session, folder_of(self.root, spec.name))
        timeline, definition = Timeline(folder), self._wanted(spec)
        with translated(spec.name, folder.path):
            there = kept(folder, spec.name)
            if there:
                stored = _as_stored(there, timeline)
                definition = stored.continued(definition, published, begun=timeline.newest() is not None)
        holds = Holds(folder.path, partial(HadoopFiles, self.session))
        self._tables[spec.name] = _Table(definition, spec, folder, timeline, holds, is_kept=definition == there)

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        used = self._table(table)
        with translated(table, used.folder.path):
            return lazy(used.at(at).content(matching))

    def size(self, table: str, at: Version) -> int:
        used = self._table(table)
        with translated(table, used.folder.path):
            used.at(at)
            groups = file_groups(used.folder, used.timeline, used.timeline.told())
            return sum(file.size for group in groups for file in group.read_from(at))

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        used = self._table(table)
        used.spec.check_takes(change)
        if change.load is None:
            return self._marked(used, mark, partial(written, change))
        rows: DataFrame = one_a_key(change.load, used.spec).to_native()
        with translated(table, used.folder.path), measured(rows) as size:
            return self._marked(used, mark, partial(self._loaded, used, rows, size))

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        used = self._table(table)
        return self._marked(used, mark, partial(_restored, used, to))

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        used = self._table(table)
        used.spec.check_compared()
        with translated(table, used.folder.path):
            return differences(used.at(after), used.at(until), used.timeline)

    def read_optimized(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """See `BaseReading.read_optimized`. The table need not have been ensured here."""
        timeline = self._timeline(table)
        with translated(table, timeline.folder.path):
            there = kept(timeline.folder, table)
            if there is None and table in self._tables:  # declared, and without a commit yet
                there = self._tables[table].definition
            if there is None:
                raise ConfigError(f"there is no table {table} in {self.root}; name one as pipeline.table")
            newest = timeline.newest()
            spec = _as_of(newest, there.spec, timeline)
            rows = Reading(spec, timeline.folder, newest).base()
            return lazy(only_matching(rows, matching or Matching(), spec.schema))

    def versions(self, table: str) -> Iterator[Commit]:
        timeline = self._timeline(table)
        with translated(table, timeline.folder.path):
            for instant in timeline.newest_first():
                yield instant.commit

    def version(self, table: str, version: Version) -> Commit:
        timeline = self._timeline(table)
        with translated(table, timeline.folder.path):
            return timeline.instant(version).commit

    def compact(self, table: str) -> Version | None:
        used = self._table(table)
        with translated(table, used.folder.path):
            if used.timeline.newest() is None:
                return None
            if not compact(used.folder, used.timeline, used.definition, self.compaction, partial(_refold, used)):
                return None
            # Not its own instant, which is that of its plan: commits made meanwhile are newer, and build on it.
            return used.newest_version()

    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        used = self._table(table)
        with translated(table, used.folder.path):
            if used.timeline.newest() is None:
                return Expiry(table)
            archiving = Archiving(used.folder, used.timeline, used.definition, self.archiving)
            sweep = Sweep(table, used.folder, used.timeline, used.holds, archiving, now)
            return sweep.expire(keep, dry_run=dry_run)

    def expired(self, table: str) -> Collection[Version]:
        with self._holding(table) as holds:
            return set(map(Version, holds.expired().union(self._table(table).timeline.cleaned())))

    @contextmanager
    def _holding(self, table: str) -> Iterator[Holds]:
        used = self._table(table)
        with translated(table, used.folder.path):
            yield used.holds

    def _check_told(self, table: str, version: str) -> None:
        self._table(table).timeline.check_told(version)

    def _marked(self, used: _Table, mark: Mark, prepare: Callable[[Reading, int], Written]) -> Version:
        with translated(used.spec.name, used.folder.path), locked(used.folder):
            used.timeline.clear_unmade()
            head = used.timeline.head()
            mark.check_follows(head.sequence, used.spec.name)
            used.timeline.wait_for_the_clock(head.newest)
            now = used.whole(head.newest)
            made = prepare(now, mark.sequence)
            if made.operation is Operation.OVERWRITE and used.definition.resized:
                made = Written(replacing(made.rows, now), Operation.UPSERT)
            used.write(made, {MARK: mark.to_json()})
            return used.newest_version()

    def _loaded(self, used: _Table, rows: DataFrame, size: int, now: Reading, sequence: int) -> Written:
        """Rows that are a table's whole new content, in bulk where it is the first."""
        if now.version is not None:
            return Written(stored(rows, used.spec, sequence=number(now, sequence)), Operation.OVERWRITE)
        files = max(1, -(-size // self.compaction.target_bytes))
        used.definition, used.is_kept = used.definition.for_load(files), False
        # Sorted, so that files have keys of their own; a bucket has them anyhow.
        order = [named(name) for name in (*used.spec.partition_by, *used.spec.key)]
        sized = rows.repartitionByRange(files, *order) if order else rows.coalesce(files)
        return Written(stored(sized, used.spec, sequence=number(now, sequence)), Operation.LOAD)

    def _wanted(self, spec: TableSpec) -> Definition:
        logged = spec.key and spec.layout is Layout.LOG
        table_type = self.table_type if logged else TableType.COPY_ON_WRITE
        # A commit reads touched partitions to fold what it brings into them; without any it would read all there is.
        folded = table_type is TableType.MERGE_ON_READ and bool(spec.groups) and not spec.partition_by
        return Definition(spec, table_type, 1 if spec.partition_by else self.buckets, folded=folded)

    def _timeline(self, table: str) -> Timeline:
        if table in self._tables:
            return self._tables[table].timeline
        return Timeline(Folder(self.session, folder_of(self.root, table)))

    def _table(self, name: str) -> _Table:
        return self._tables[name]


def _as_stored(there: Definition, timeline: Timeline) -> Definition:
    """The kept definition without columns whose first commit has failed."""
    if not there.unsure or timeline.newest() is None:
        return there
    stored = {each["name"] for each in json.loads(timeline.schema())["fields"]}
    return there.without([name for name in there.unsure if stored_name(name) not in stored])


def _restored(used: _Table, to: Version | None, now: Reading, sequence: int) -> Written:
    """What brings the content of an earlier version back: of a keyed table the rows that differ, else all."""
    wanted, before = used.at(to), used.definition
    used.definition = before.taken_back(to)
    used.is_kept = used.is_kept and used.definition == before
    if to is None or not used.spec.key:
        return overwritten(now.nothing() if to is None else wanted.content(), now, sequence)
    if now.folded:
        return rearranged(now, wanted)
    return restored(differences(now, wanted, used.timeline), used.spec)


def _as_of(version: str | None, spec: TableSpec, timeline: Timeline) -> TableSpec:
    """A table's spec at a version, whose columns are its own where the table is replaced as a whole."""
    return evolve(spec, schema=timeline.columns(version)) if spec.whole and version is not None else spec


def _refold(used: _Table) -> None:
    """Leave one row a key, by a commit that no reader sees anything of; call it under the table's lock."""
    newest = used.timeline.newest()
    used.timeline.wait_for_the_clock(newest)
    used.write(refolded(used.whole(newest)), {FOLDED: "true"})
