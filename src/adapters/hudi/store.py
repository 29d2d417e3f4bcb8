"""Versioned tables on Apache Hudi."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, evolve, field

from ...domain.epoch.epoch import Mark
from ...domain.errors import ConfigError, SchemaConflict, TableDamaged
from ...domain.ports import BaseReading, Commit, Expiry, Version
from ...domain.table.change import Change, Matching
from ...domain.table.schema import Schema
from ...domain.table.spec import Ensured, Layout, TableSpec
from ..shared.kept_store import FolderStore
from ..shared.leases import LeaseFiles
from ..shared.path import absolute, folder_of
from ..spark.hadoop_files import HadoopFiles
from ..spark.match import only_matching
from ..spark.merge import one_row_per_key
from ..spark.own_session import work_in_own_session
from ..spark.schema import lazy, named, quoted
from ..spark.size import measure
from .append import refold, restore_arrivals
from .archive import ArchivePolicy, Archiver
from .client import rollback_unfinished
from .commit import CommitInput, Operation, by_key, write
from .compact import CompactionPolicy, compact
from .errors import translate_errors
from .expire import Sweep
from .file_groups import file_groups
from .lock import locked
from .names import check_column_names, stored_name
from .path import Folder
from .read import TableVersion, diff_versions
from .record_sizes import estimate_within_process
from .rows import to_stored, with_all_columns
from .spec import Definition, TableType, read_definition
from .timeline import FOLDED, MARK, Timeline
from .write import prepare_change, prepare_overwrite, prepare_restore, replace_all, sequence_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@define(eq=False)
class Table:
    """A table in use."""

    definition: Definition
    spec: TableSpec
    folder: Folder
    timeline: Timeline
    lease_files: LeaseFiles
    is_kept: bool
    """Whether the definition equals the one in the folder."""

    def keep(self) -> None:
        """Write the definition into the table's folder, if it has changed; call it under the table's lock."""
        if not self.is_kept:
            self.definition.keep(self.folder)
            self.is_kept = True

    def follow(self) -> None:
        """Take over the buckets of a first load, the columns and their first commits, that other stores have added.

        Rows are looked for, and sent, by buckets; and each commit has all columns.
        """
        if there := read_definition(self.folder, self.spec.name):
            known = {name: at for name, at in there.added.items() if name in self.definition.spec.schema}
            added = {**self.definition.added, **known}
            self.definition = evolve(self.definition, buckets=there.buckets, resized=there.resized, added=added)
            if there.spec.schema.without(self.definition.spec.schema.names).columns and self.timeline.newest():
                self.definition = self.definition.with_columns_of(_as_stored(there, self.timeline))

    def write(self, made: CommitInput, metadata: Mapping[str, str]) -> None:
        """Commit stored rows, with all columns of the table; call it under the table's lock."""
        self.keep()
        schema = self.definition.spec.schema
        if len(schema.columns) > len(self.spec.schema.columns) and not self.spec.whole:
            made = evolve(made, rows=with_all_columns(made.rows, schema))
        write(made, self.folder.path, self.definition, metadata)
        if confirmed := [name for name in self.definition.unconfirmed if name in self.spec.schema]:
            self.definition, self.is_kept = self.definition.after_commit(self.newest_version(), confirmed), False
            self.keep()

    def at(self, version: str | None) -> TableVersion:
        """A version that is readable; raises `VersionExpired` if it has expired."""
        if version is not None and not self.timeline.is_newest(version):  # the newest version never expires
            self.lease_files.check_readable(version)
        return self.checked(version)

    def checked(self, version: str | None) -> TableVersion:
        """As `whole`, for a version that may expire meanwhile: an expiry writes its record before it deletes files."""
        if version is None:
            return self.whole(None)
        check = partial(self.lease_files.check_readable, version)
        try:
            found = self.whole(version)
        except TableDamaged:
            check()
            raise
        return evolve(found, check=check)

    def whole(self, version: str | None) -> TableVersion:
        """A version whose files are complete; raises `TableDamaged` if not. No commit may come while it is read."""
        if version is not None:
            self.timeline.check_complete(version)
        spec = _as_of(version, self.spec, self.timeline)
        return TableVersion(spec, self.folder, version, by_key(self.definition), self.definition.folded)

    def newest_version(self) -> Version:
        """The newest version; the table must have one."""
        newest = self.timeline.newest()
        assert newest is not None
        return Version(newest)


@work_in_own_session
@define(eq=False)
class HudiStore(FolderStore, BaseReading):
    """Tables in Apache Hudi, ``pipeline.table`` at ``<root>/<pipeline>/<table>``.

    An epoch is one upsert, with the mark in the commit's metadata. A version is the instant of its commit. Commits to
    one table are made one at a time, under a lock.

    Args:
        session: a session with Hudi's serializer (`package.SETTINGS`).
        root: a folder, or a URI that Hadoop can reach.
        table_type: of tables with a log layout; other tables, and tables without a key, are copy-on-write.
        buckets: of new merge-on-read tables without partitions: the number of files for their rows.
        compaction: which files `compact` rewrites.
        archiving: when `expire` moves instants from the timeline into Hudi's archive.
    """

    session: SparkSession
    root: str = field(converter=absolute)
    table_type: TableType
    buckets: int = 4
    compaction: CompactionPolicy = field(factory=CompactionPolicy)
    archiving: ArchivePolicy = field(factory=ArchivePolicy)
    _tables: Ensured[Table] = field(init=False, factory=Ensured)

    def __attrs_post_init__(self) -> None:
        estimate_within_process(self.session)

    def ensure(self, spec: TableSpec, published: Mapping[str, Version] | None = None) -> Schema:
        added = Schema(())
        check_column_names(spec)
        folder = Folder(self.session, folder_of(self.root, spec.name))
        timeline, definition = Timeline(folder), self._wanted(spec)
        with translate_errors(spec.name, folder.path):
            there = read_definition(folder, spec.name)
            if there:
                stored = _as_stored(there, timeline)
                definition = stored.continue_as(definition, published, begun=timeline.newest() is not None)
                added = definition.spec.schema.without(stored.spec.schema.names)
        lease_files = LeaseFiles(folder.path, partial(HadoopFiles, self.session))
        self._tables[spec.name] = Table(definition, spec, folder, timeline, lease_files, is_kept=definition == there)
        return added

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        used = self._tables[table]
        with translate_errors(table, used.folder.path):
            return lazy(used.at(at).content(matching))

    def size(self, table: str, at: Version) -> int:
        used = self._tables[table]
        with translate_errors(table, used.folder.path):
            used.at(at)
            groups = file_groups(used.folder, used.timeline, used.timeline.completion_times())
            return sum(file.size for group in groups for file in group.read_from(at))

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        used = self._tables[table]
        used.spec.check_takes(change)
        if change.load is None:
            return self._commit_marked(used, mark, partial(prepare_change, change))
        rows: DataFrame = one_row_per_key(change.load, used.spec).to_native()
        with translate_errors(table, used.folder.path), measure(rows) as size:
            return self._commit_marked(used, mark, partial(self._loaded, used, rows, size))

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        used = self._tables[table]
        return self._commit_marked(used, mark, partial(_restored, used, to))

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        used = self._tables[table]
        used.spec.check_compared()
        with translate_errors(table, used.folder.path):
            return diff_versions(used.at(after), used.at(until), used.timeline)

    def read_optimized(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """See `BaseReading.read_optimized`. The table need not have been ensured here."""
        timeline = self._timeline(table)
        with translate_errors(table, timeline.folder.path):
            there = read_definition(timeline.folder, table)
            if there is None and table in self._tables:  # declared, but without a commit
                there = self._tables[table].definition
            if there is None:
                raise ConfigError(f"there is no table {table} in {self.root}; name one as pipeline.table")
            newest = timeline.newest()
            spec = _as_of(newest, there.spec, timeline)
            rows = TableVersion(spec, timeline.folder, newest).base()
            return lazy(only_matching(rows, matching or Matching(), spec.schema))

    def versions(self, table: str) -> Iterator[Commit]:
        timeline = self._timeline(table)
        with translate_errors(table, timeline.folder.path):
            for instant in timeline.newest_first():
                yield instant.commit

    def version(self, table: str, version: Version) -> Commit:
        timeline = self._timeline(table)
        with translate_errors(table, timeline.folder.path):
            return timeline.instant(version).commit

    def compact(self, table: str) -> Version | None:
        used = self._tables[table]
        with translate_errors(table, used.folder.path):
            if used.timeline.newest() is None:
                return None
            used.follow()
            if not compact(used.folder, used.timeline, used.definition, self.compaction, partial(_refold, used)):
                return None
            # Not the instant of the compaction, which is that of its plan: later commits are newer and build on it.
            return used.newest_version()

    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        used = self._tables[table]
        with translate_errors(table, used.folder.path):
            if used.timeline.newest() is None:
                return Expiry(table)
            archiving = Archiver(used.folder, used.timeline, used.definition, self.archiving)
            sweep = Sweep(table, used.folder, used.timeline, used.lease_files, archiving, now)
            return sweep.expire(keep, dry_run=dry_run)

    def expired(self, table: str) -> Collection[Version]:
        with self._lease_files(table) as lease_files:
            return set(map(Version, lease_files.expired().union(self._tables[table].timeline.cleaned_versions())))

    @contextmanager
    def _lease_files(self, table: str) -> Iterator[LeaseFiles]:
        used = self._tables[table]
        with translate_errors(table, used.folder.path):
            yield used.lease_files

    def _check_listed(self, table: str, version: str) -> None:
        self._tables[table].timeline.check_listed(version)

    def _commit_marked(self, used: Table, mark: Mark, prepare: Callable[[TableVersion, int], CommitInput]) -> Version:
        return self._commit_next(used, mark, lambda now: write_next(used, mark, now, prepare(now, mark.sequence)))

    def _commit_next(self, used: Table, mark: Mark, commit: Callable[[TableVersion], None]) -> Version:
        """Let a commit follow the newest version, if the mark does; `commit` makes it under the table's lock."""
        with translate_errors(used.spec.name, used.folder.path), locked(used.folder):
            used.timeline.delete_unfinished_table()
            used.follow()
            rollback_unfinished(used.folder, used.timeline, used.definition)
            head = used.timeline.head()
            mark.check_follows(head.sequence, used.spec.name)
            used.timeline.wait_for_clock()
            commit(used.whole(head.newest))
            return used.newest_version()

    def _loaded(self, used: Table, rows: DataFrame, size: int, now: TableVersion, sequence: int) -> CommitInput:
        """Rows that replace a table's whole content; the first load is a bulk insert."""
        if now.version is not None:
            return CommitInput(to_stored(rows, used.spec, sequence=sequence_value(now, sequence)), Operation.OVERWRITE)
        files = max(1, -(-size // self.compaction.target_bytes))
        used.definition, used.is_kept = used.definition.for_load(files), False
        # Sorted, so that files have separate key ranges; buckets have separate keys anyway.
        order = [named(name) for name in (*used.spec.partition_by, *used.spec.key)]
        sized = rows.repartitionByRange(files, *order) if order else rows.coalesce(files)
        return CommitInput(to_stored(sized, used.spec, sequence=sequence_value(now, sequence)), Operation.LOAD)

    def _wanted(self, spec: TableSpec) -> Definition:
        logged = spec.key and spec.layout is Layout.LOG
        table_type = self.table_type if logged else TableType.COPY_ON_WRITE
        # A commit folds its rows into the partitions that it touches; without partitions it would read all rows.
        folded = table_type is TableType.MERGE_ON_READ and bool(spec.groups) and not spec.partition_by
        return Definition(spec, table_type, 1 if spec.partition_by else self.buckets, folded=folded)

    def _timeline(self, table: str) -> Timeline:
        if table in self._tables:
            return self._tables[table].timeline
        return Timeline(Folder(self.session, folder_of(self.root, table)))


def write_next(used: Table, mark: Mark, now: TableVersion, made: CommitInput) -> None:
    """Write a commit that follows the newest version."""
    if made.operation is Operation.OVERWRITE and used.definition.resized:
        made = CommitInput(replace_all(made.rows, now), Operation.UPSERT)
    used.write(made, {MARK: mark.to_json()})


def _as_stored(there: Definition, timeline: Timeline) -> Definition:
    """The stored definition without columns whose first commit has failed."""
    if not there.unconfirmed or timeline.newest() is None:
        return there
    stored = {each["name"] for each in json.loads(timeline.schema())["fields"]}
    return there.without([name for name in there.unconfirmed if stored_name(name) not in stored])


def _restored(used: Table, to: Version | None, now: TableVersion, sequence: int) -> CommitInput:
    """The commit that restores an earlier version: of a keyed table the rows that differ, else all rows."""
    wanted, before = used.at(to), used.definition
    used.definition = before.for_rollback(to)
    used.is_kept = used.is_kept and used.definition == before
    if to is None or not used.spec.key:
        return prepare_overwrite(now.nothing() if to is None else wanted.content(), now, sequence)
    if now.folded:
        return restore_arrivals(now, wanted)
    return prepare_restore(diff_versions(now, wanted, used.timeline), used.spec)


def _as_of(version: str | None, spec: TableSpec, timeline: Timeline) -> TableSpec:
    """A table's spec at a version; in a table that is replaced as a whole, each version has its own columns."""
    return evolve(spec, schema=timeline.columns(version)) if spec.whole and version is not None else spec


def _refold(used: Table) -> None:
    """Leave one row per key, by a commit that changes neither columns nor any reader's result.

    Call it under the table's lock.

    Raises:
        SchemaConflict: another process has added columns, whose merge rules are not known here.
    """
    used.timeline.wait_for_clock()
    used.follow()
    # A column that no commit has yet is added by the first commit that needs it, not here.
    stored = _as_stored(used.definition, used.timeline)
    now = used.whole(used.timeline.newest())
    _check_known(stored, now)
    made = refold(now)
    missing = used.definition.spec.schema.without(stored.spec.schema.names).names
    rows = with_all_columns(made.rows.drop(*map(stored_name, missing)), stored.spec.schema)
    write(evolve(made, rows=rows), used.folder.path, stored, {FOLDED: "true"})


def _check_known(stored: Definition, now: TableVersion) -> None:
    """Raise `SchemaConflict` if stored columns have values that a fold would lose, as their rules are not known."""
    unknown = stored.spec.schema.without(now.spec.schema.names).names
    if unknown:
        there = evolve(now, spec=stored.spec).arrived()
        any_value = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in unknown)
        if there.filter(any_value).limit(1).count():
            raise SchemaConflict(
                f"table {now.spec.name} has rows with column {unknown[0]!r}, which another configuration has added:"
                " compact it with that one, in a process that was started after the edit"
            )
