"""Versioned tables on Delta Lake."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ...domain.change import Matching
from ...domain.epoch import Mark
from ...domain.errors import ConfigError, EpochConflict, SchemaConflict, StoreUnavailable, VersionExpired
from ...domain.ports import Commit, TableKeeper, TableStore, Version
from ..spark.place import absolute, folder_of
from ..spark.schema import empty_frame, lazy
from . import definition
from .changing import apply, restore
from .compaction import CompactionPolicy, compacted
from .differing import differences
from .faults import Overtaken, translated
from .log import TableLog
from .reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import narwhals as nw
    from pyspark.sql import SparkSession

    from ...domain.change import Change
    from ...domain.table import TableSpec
    from .transaction import Transaction

_TRIES = 5


@define(eq=False)
class _Table:
    """A table in use. `newest_mark` is the version and the sequence of the newest marked commit met so far."""

    spec: TableSpec
    log: TableLog
    newest_mark: tuple[int, int] = (-1, 0)

    def at(self, version: int) -> Reading:
        return Reading(self.spec, self.log, version)

    def sequence_at(self, version: int) -> int:
        """The sequence of the newest marked commit at or before a version."""
        for each in range(version, self.newest_mark[0], -1):
            if (mark := self.log.commit(each).user_metadata) is not None:
                self.newest_mark = (each, Mark.from_json(mark).sequence)
                break
        return self.newest_mark[1]


@define(eq=False)
class DeltaStore(TableStore, TableKeeper):
    """Tables in Delta Lake, ``pipeline.table`` at ``<root>/<pipeline>/<table>``.

    A keyed table in `Layout.LOG` takes each epoch as one append of what changes, and is folded when it is read, which
    makes an epoch cost its own rows only. The mark rides in the commit's user metadata.

    Args:
        session: with Delta's extension (`package.EXTENSIONS`).
        root: a folder, or a URI that Hadoop knows how to reach.
        compaction: which partitions `compact` takes up.
    """

    session: SparkSession
    root: str = field(converter=absolute)
    compaction: CompactionPolicy = field(factory=CompactionPolicy)
    _tables: dict[str, _Table] = field(init=False, factory=dict)

    def ensure(self, spec: TableSpec) -> None:
        log = TableLog(self.session, folder_of(self.root, spec.name))
        _check_names(spec)
        with translated(spec.name, log.path):
            if not log.exists:
                definition.create(self.session, log.path, spec)
            there = definition.kept(log.metadata(), spec.name)
            if there.layout is not spec.layout:
                raise SchemaConflict(
                    f"table {spec.name} is laid out as {there.layout.value}, not {spec.layout.value}: give the pipeline"
                    " another name, or remove the old table"
                )
            if (new := there.widened_by(spec)).columns:
                definition.widen(self.session, log.path, new)
        self._tables[spec.name] = _Table(spec, log)

    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        used = self._table(table)
        if at is None:
            return lazy(empty_frame(self.session, used.spec.schema))
        with translated(table, used.log.path):
            return lazy(used.at(used.log.number(at)).content(matching or Matching()))

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        used = self._table(table)
        if not used.spec.key and not (change.merge is change.delete is None):
            raise ConfigError(f"table {table} has no key, so it can only be appended to or overwritten")
        return self._marked(table, mark, partial(apply, change, mark.sequence))

    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        number = None if to is None else self._table(table).log.number(to)
        return self._marked(table, mark, partial(restore, number))

    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        used = self._table(table)
        if not used.spec.key:
            raise ConfigError(f"table {table} has no key, so its rows cannot be told apart in two versions")
        with translated(table, used.log.path):
            before = None if after is None else used.at(used.log.number(after))
            return differences(before, used.at(used.log.number(until)))

    def versions(self, table: str) -> Iterator[Commit]:
        log = self._tables[table].log if table in self._tables else TableLog(self.session, folder_of(self.root, table))
        with translated(table, log.path):
            newest = log.newest() if log.exists else -1
        for number in range(newest, -1, -1):
            try:
                yield _commit(log, number)
            except VersionExpired:
                return

    def version(self, table: str, version: Version) -> Commit:
        log = self._table(table).log
        with translated(table, log.path):
            return _commit(log, log.number(version))

    def compact(self, table: str) -> Version | None:
        used = self._table(table)
        # Overtaken by work on the same files: they are as good a choice the next time.
        with suppress(Overtaken), translated(table, used.log.path):
            transaction = used.log.begin()
            number = transaction.read_version
            if files := self.compaction.choose(used.log.files(number).values()):
                transaction.rewrite(files, compacted(used.at(number), files, self.compaction))
                return Version(str(transaction.commit_upkeep()))
        return None

    def _marked(self, table: str, mark: Mark, prepare: Callable[[Reading, Transaction], None]) -> Version:
        used = self._table(table)
        for _ in range(_TRIES):
            with suppress(Overtaken), translated(table, used.log.path):
                transaction = used.log.begin()
                _fence(used, transaction.read_version, mark)
                prepare(used.at(transaction.read_version), transaction)
                return Version(str(transaction.commit_marked(mark.to_json(), mark.sequence)))
        raise StoreUnavailable(f"table {table}: other commits came in between {_TRIES} times in a row; try again later")

    def _table(self, name: str) -> _Table:
        if name not in self._tables:
            raise ConfigError(f"table {name} is not open; call ensure() with its spec first")
        return self._tables[name]


def _commit(log: TableLog, number: int) -> Commit:
    found = log.commit(number)
    mark = None if found.user_metadata is None else Mark.from_json(found.user_metadata)
    return Commit(Version(str(number)), found.committed_at, mark, found.written)


def _check_names(spec: TableSpec) -> None:
    if unusable := [name for name in spec.schema.names if "." in name or "`" in name]:
        raise ConfigError(
            f"table {spec.name}: on Spark no column may be named {unusable[0]!r}: leave out dots and backticks"
        )


def _fence(table: _Table, version: int, mark: Mark) -> None:
    if mark.sequence != (newest := table.sequence_at(version)) + 1:
        raise EpochConflict(
            f"table {table.spec.name}: commit {mark.sequence} was to be made, but the newest is {newest}: another run"
            " has been here, and nothing was changed. Let one run at a time write a pipeline"
        )
