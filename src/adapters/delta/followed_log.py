"""What the logs of both engines share: a log that is followed commit by commit, and a table that is read by it."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from threading import RLock
from typing import Generic, TypeVar

from attrs import define, field, frozen

from ...domain.epoch.epoch import Mark
from ...domain.errors import TableDamaged, VersionExpired, VersionNotFound
from ...domain.ports import Commit, Version
from ...domain.table.schema import Schema
from ...domain.table.spec import TableSpec
from ..shared.in_turn import in_turn
from ..shared.leases import LeaseFiles
from . import spec as definition
from .actions import CommitFile, DataFile
from .stored_file import Folder

BEFORE_ALL = -1
"""The version of a table that does not exist yet."""

_FEW_COMMITS, _MOST_COMMITS = 256, 1000
_MOST_SUMMARIES = 50_000
"""Of about 1 KB each: the commits of a day with one in two seconds."""
_K = TypeVar("_K")
_T = TypeVar("_T")
LogT = TypeVar("LogT", bound="FollowedLog")
VersionT = TypeVar("VersionT")


@frozen(eq=False)
class CommitSummary:
    """What an expiry and a list of versions need of a commit: they walk through the whole log.

    Args:
        committed_at, written, is_foreign: as of `CommitFile`.
        added, removed: the paths of the files.
        mark: the user metadata, compressed; None if there is none.
    """

    committed_at: datetime
    written: int | None
    added: tuple[str, ...]
    removed: frozenset[str]
    is_foreign: bool
    _mark: bytes | None

    @classmethod
    def of(cls, commit: CommitFile) -> CommitSummary:
        mark = None if commit.user_metadata is None else zlib.compress(commit.user_metadata.encode())
        added = tuple(file.path for file in commit.added)
        return cls(commit.committed_at, commit.written, added, commit.removed, commit.is_foreign, mark)

    @property
    def user_metadata(self) -> str | None:
        return None if self._mark is None else zlib.decompress(self._mark).decode()


@define(eq=False)
class KeptCommits:
    """Parsed commits by version, and summaries of many more.

    A walk from the newest commit to the oldest leaves summaries only: else it would displace the commits that the
    epochs need, and in a log with more commits than are kept the next walk would find none of them.
    What an expiry has deleted is dropped from time to time.
    """

    _commits: OrderedDict[int, CommitFile] = field(init=False, factory=OrderedDict)
    _summaries: dict[int, CommitSummary] = field(init=False, factory=dict)
    _full: int = field(init=False, default=_FEW_COMMITS)

    def get(self, version: int) -> CommitFile | None:
        """A commit; None if it is not kept."""
        return self._commits.get(version)

    def put(self, version: int, commit: CommitFile) -> CommitFile:
        return keep(self._commits, version, commit, _MOST_COMMITS)

    def summary(self, version: int) -> CommitSummary | None:
        """The summary of a commit; None if it is not kept."""
        return self._summaries.get(version)

    def summarize(self, version: int, commit: CommitFile) -> CommitSummary:
        """Keep the summary of a commit; those of the oldest are dropped if there are too many."""
        found = self._summaries[version] = CommitSummary.of(commit)
        if len(self._summaries) > _MOST_SUMMARIES:
            for each in sorted(self._summaries)[: 1 + _MOST_SUMMARIES // 10]:
                del self._summaries[each]
        return found

    def drop_deleted(self, folder: Folder) -> None:
        """Drop what the log in a folder lacks, if there are twice as many commits as after the last time."""
        if self._most() < self._full:
            return
        oldest = min((file.version for file in folder.log_files()), default=0)
        for kept in (self._commits, self._summaries):
            for version in [each for each in kept if each < oldest]:
                del kept[version]
        self._full = max(_FEW_COMMITS, 2 * self._most())

    def _most(self) -> int:
        return max(len(self._commits), len(self._summaries))


class FollowedLog(ABC):
    """A table's Delta log, as one engine follows it."""

    path: str
    _lock: RLock
    _commits: KeptCommits

    @abstractmethod
    def newest(self) -> int:
        """The newest version now; -1 if the table does not exist."""

    @property
    @abstractmethod
    def newest_known(self) -> int:
        """The newest version when the log was last read."""

    def known(self) -> int:
        """As `newest`, but read only if the log has not been read yet."""
        return self.newest() if self.newest_known == BEFORE_ALL else self.newest_known

    @abstractmethod
    def read_commit(self, version: int) -> CommitFile:
        """Read one commit of the log.

        Raises:
            VersionExpired: its file has been cleaned away.
            TableDamaged: its file cannot be parsed.
        """

    @in_turn
    def commit(self, version: int) -> CommitFile:
        """One commit of the log; see `read_commit`."""
        if (known := self._commits.get(version)) is not None:
            return known
        return self._commits.put(version, self.read_commit(version))

    @in_turn
    def summary(self, version: int) -> CommitSummary:
        """The summary of one commit, for a walk through the log; see `read_commit`."""
        if (known := self._commits.summary(version)) is not None:
            return known
        return self._commits.summarize(version, self._commits.get(version) or self.read_commit(version))

    @abstractmethod
    def check_listed(self, version: int) -> None:
        """Check that the commit of a version is still in the log.

        Raises:
            VersionExpired: its file has been cleaned away.
        """

    @abstractmethod
    def files(self, version: int) -> Mapping[str, DataFile]:
        """The data files of a version, by path.

        Raises:
            VersionExpired: the log files that list them have been deleted.
        """

    @abstractmethod
    def columns(self, version: int) -> str:
        """The columns of a version, as JSON from Delta's metadata.

        Raises:
            VersionExpired: the log files that describe it have been deleted.
        """

    @abstractmethod
    def metadata(self) -> definition.TableMetadata:
        """What Delta's metadata says of the table, which exists, at its newest version."""

    @abstractmethod
    def has(self, files: Iterable[DataFile]) -> bool:
        """Whether these files still exist; files of the newest known version are not looked up."""

    def check_present(self, version: int, files: Iterable[DataFile]) -> None:
        """Check that the files of a version still exist.

        Raises:
            VersionExpired: one of them has been deleted.
        """
        if not self.has(files):
            raise VersionExpired(self.expired_message(version))

    @abstractmethod
    def folder(self) -> Folder:
        """The files in the table's folder."""

    def added_columns(self, spec: TableSpec, published: Mapping[str, Version] | None) -> Schema:
        """Check that the table can be used as declared, and return the columns that it lacks; see `TableStore.ensure`.

        Raises:
            ConfigError: a column has a name that Delta or Spark cannot have.
            SchemaConflict: the stored table differs by more than new columns.
        """
        definition.check_column_names(spec)
        if self.newest() == BEFORE_ALL:
            return Schema(())
        counted = None if published is None else partial(self._columns_at, published.get(spec.name), spec)
        return definition.check_continues(definition.read_spec(self.metadata(), spec.name), spec, counted)

    def _columns_at(self, version: Version | None, spec: TableSpec) -> Schema:
        """The columns of a version; those of the spec if there is none."""
        if version is None:
            return spec.schema
        return definition.shown_columns(spec, self.columns(self.number(version)))  # their key may be another one

    def number(self, version: str) -> int:
        """The number of a version in the log.

        Raises:
            VersionNotFound: the version never existed.
        """
        number = int(version) if version.isdecimal() else None
        if number is None or (number > self.newest_known and number > self.newest()):
            newest = self.newest()
            there = "the table is gone: put its folder back" if newest == BEFORE_ALL else f"the newest is {newest}"
            raise VersionNotFound(f"{self.path} has no version {version!r}; {there}")
        return number

    def mark(self, number: int) -> Mark | None:
        """The mark of a commit; None if it has none."""
        return self._mark_of(number, self.summary(number))

    def _mark_of(self, number: int, summary: CommitSummary) -> Mark | None:
        text = summary.user_metadata
        return None if text is None else Mark.from_json(text, f"version {number} of {self.path}")

    def described(self, number: int) -> Commit:
        """A commit as the table history has it."""
        found = self.summary(number)
        # Of most commits nobody asks for the mark.
        mark = partial(self._mark_of, number, found)
        return Commit(Version(str(number)), found.committed_at, mark, found.written)

    def expired_message(self, version: int) -> str:
        """The message for a version that is gone."""
        return f"version {version} of {self.path} has been cleaned away; read a newer one, or keep versions for longer"


@define(eq=False)
class UsedTable(ABC, Generic[LogT, VersionT]):
    """A table in use.

    Args:
        spec, log, lease_files: the table's spec, log and lease files.
        newest_mark: the version and the sequence of the newest marked commit found so far.
    """

    spec: TableSpec
    log: LogT
    lease_files: LeaseFiles
    newest_mark: tuple[int, int] = (BEFORE_ALL, 0)

    @abstractmethod
    def at(self, version: int) -> VersionT:
        """One version of the table."""

    def spec_at(self, version: int) -> TableSpec:
        """The spec with the columns of a version, if each has its own."""
        if not self.spec.whole or version == BEFORE_ALL:
            return self.spec
        return definition.with_stored_columns(self.spec, self.log.columns(version))

    def readable_version(self, version: str) -> VersionT:
        """The version that a caller names; raises `VersionExpired` if it has expired."""
        number = self.log.number(version)
        # The newest version never expires; that of the latest publication is mostly the newest known.
        if number != self.log.known() and number != self.log.newest():
            self.log.check_listed(number)
            self.lease_files.check_readable(version)
        return self.at(number)

    def sequence_at(self, version: int) -> int:
        """The sequence of the newest marked commit at or before a version."""
        for each in range(version, self.newest_mark[0], -1):
            if (mark := self.log.mark(each)) is not None:
                self.newest_mark = (each, mark.sequence)
                break
        return self.newest_mark[1]

    def check_follows(self, mark: Mark, version: int) -> None:
        """Check that a marked commit may follow a version.

        Raises:
            EpochConflict: another writer has committed.
            TableDamaged: another program has changed the rows. Only a rollback may follow: it takes them back.
        """
        mark.check_follows(self.sequence_at(version), self.spec.name)
        if not mark.rolls_back and (number := self._foreign_commit(version)) is not None:
            raise TableDamaged(
                f"table {self.spec.name}: {self.log.commit(number).written_by} has changed its rows in version"
                f" {number} of {self.log.path}, and only Headwater may. Restore version {number - 1} with Delta's"
                " RESTORE, or rebuild the pipeline"
            )

    def _foreign_commit(self, version: int) -> int | None:
        """The oldest commit of another program since the newest mark, unless it was undone up to a version."""
        found = None
        for each in range(self.newest_mark[0] + 1, version + 1):
            if found is None:
                found = each if self.log.summary(each).is_foreign else None
            elif _content(self.log, each) == _content(self.log, found - 1):
                found = None
        return found


def _content(log: FollowedLog, version: int) -> dict[str, object]:
    """The data files of a version, each with the rows that are deleted in it."""
    return {path: file.action.get("deletionVector") for path, file in log.files(version).items()}


def keep(kept: OrderedDict[_K, _T], name: _K, value: _T, at_most: int) -> _T:
    """Keep a value; the oldest one is dropped if there are more than `at_most`."""
    kept[name] = value
    if len(kept) > at_most:
        kept.popitem(last=False)
    return value
