"""Versioned tables on Delta Lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, evolve, field

from ...domain.epoch.epoch import Mark
from ...domain.ports import Version
from ...domain.table.apply import add_columns
from ...domain.table.change import Change, Matching
from ...domain.table.schema import Schema
from ...domain.table.spec import Ensured, TableSpec
from ..shared.leases import LeaseFiles
from ..shared.path import absolute, folder_of
from ..spark.hadoop_files import HadoopFiles
from ..spark.own_session import work_in_own_session
from ..spark.schema import empty_frame, lazy
from ..spark.size import fits_one_task
from . import spec as definition
from .base_store import TRIES, BaseDeltaStore, other_commits
from .compact import compact_files
from .compaction_policy import CompactionPolicy, files_of, with_operations
from .errors import CommitConflict, translate_errors
from .expire import SweepPolicy
from .followed_log import FollowedLog, UsedTable
from .log import TableLog
from .read import TableVersion
from .transaction import Transaction
from .write import apply, restore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@define(eq=False)
class _Table(UsedTable[TableLog, TableVersion]):
    """A table in use.

    Args:
        columns: the stored columns that last had all of the spec's, as JSON from Delta's metadata.
    """

    columns: str = ""

    def at(self, version: int) -> TableVersion:
        return TableVersion(self.spec_at(version), self.log, version)


@work_in_own_session
@define(eq=False)
class DeltaStore(BaseDeltaStore[_Table]):
    """Tables in Delta Lake, ``pipeline.table`` at ``<root>/<pipeline>/<table>``.

    In a keyed table with `Layout.LOG` each epoch appends its changes, which are merged on read. So an epoch costs only
    its own rows. The mark is stored in the commit's user metadata.

    Args:
        session: a session with Delta's extension (`package.EXTENSIONS`).
        root: a folder, or a URI that Hadoop can reach.
        compaction: which partitions `compact` rewrites.
        sweep: how long `expire` keeps unneeded files.
    """

    session: SparkSession
    root: str = field(converter=absolute)
    compaction: CompactionPolicy = field(factory=CompactionPolicy)
    sweep: SweepPolicy = field(factory=SweepPolicy)
    _tables: Ensured[_Table] = field(init=False, factory=Ensured)

    def ensure(self, spec: TableSpec, published: Mapping[str, Version] | None = None) -> Schema:
        log = TableLog(self.session, folder_of(self.root, spec.name))
        with self._faults(spec.name, log):
            added = log.added_columns(spec, published)
        self._tables[spec.name] = _Table(spec, log, LeaseFiles(log.path, partial(HadoopFiles, self.session)))
        return added

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        used = self._tables[table]
        if at is None:
            return lazy(empty_frame(self.session, used.spec.schema))
        with self._faults(table, used.log):
            return lazy(used.readable_version(at).content(matching or Matching()))

    def look_up(
        self, table: str, at: Version | None, asked: nw.LazyFrame[Any], matching: Matching, columns: Mapping[str, str]
    ) -> nw.LazyFrame[Any]:
        assert matching.keys is not None
        # Keys that cannot be broadcast would be joined twice: once to select the rows, and once to add their columns.
        many = not fits_one_task(matching.keys.to_native())
        found = self.read(table, at, evolve(matching, keys=None) if many else matching)
        return add_columns(asked, found, matching, columns)

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        used = self._tables[table]
        used.spec.check_takes(change)
        return self._commit_marked(table, mark, partial(apply, change, mark.sequence, self.compaction.target_bytes))

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        used = self._tables[table]
        with self._faults(table, used.log):
            wanted = None if to is None else used.readable_version(to)
        return self._commit_marked(table, mark, partial(restore, wanted))

    def compact(self, table: str) -> Version | None:
        used = self._tables[table]
        if used.log.newest() < 0:
            return None
        # A concurrent commit may have removed the same files; the next compaction can choose again.
        with suppress(CommitConflict), self._faults(table, used.log):
            transaction = used.log.begin()
            number = transaction.read_version
            if rewrites := self.compaction.choose(with_operations(used.log.files(number).values(), used.spec)):
                transaction.rewrite(
                    files_of(rewrites), compact_files(used.at(number), rewrites, self.compaction.target_bytes)
                )
                return Version(str(transaction.commit_upkeep()))
        return None

    def _commit_marked(self, table: str, mark: Mark, prepare: Callable[[TableVersion, Transaction], None]) -> Version:
        used = self._tables[table]
        for _ in range(TRIES):
            with suppress(CommitConflict), self._faults(table, used.log):
                transaction = used.log.begin()
                used.check_follows(mark, transaction.read_version)
                stored = used.at(transaction.read_version)
                self._prepare_table(used, stored, transaction)
                prepare(stored, transaction)
                return Version(str(transaction.commit_marked(mark.to_json(), mark.sequence)))
        raise other_commits(table)

    def _prepare_table(self, used: _Table, stored: TableVersion, transaction: Transaction) -> None:
        """Create the table or widen its schema, as part of the commit that needs it."""
        if stored.version < 0:
            new_table = definition.describe(used.spec)
            transaction.redefine(new_table.schema_text)
            transaction.define(new_table.partition_by, new_table.properties)
        elif not used.spec.whole and (there := transaction.columns) != used.columns:
            if new := definition.widen_schema(used.spec, there, empty=not stored.files):
                transaction.redefine(new)
            else:
                used.columns = there

    def _faults(self, table: str, log: FollowedLog) -> AbstractContextManager[None]:
        return translate_errors(table, log.path)

    def _held(self, rows: DataFrame) -> nw.LazyFrame[Any]:
        return lazy(rows)

    def _log(self, table: str) -> TableLog:
        """The log of a table that need not have been ensured."""
        return self._tables[table].log if table in self._tables else TableLog(self.session, folder_of(self.root, table))
