"""Where tables are kept: their rows, versions, files and leases."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NewType, Protocol, runtime_checkable

import narwhals as nw
from attrs import frozen

from ..epoch.epoch import Mark
from ..table.apply import add_columns
from ..table.change import Change, Matching
from ..table.lease import Lease
from ..table.schema import Schema
from ..table.spec import TableSpec

Version = NewType("Version", str)
"""One committed state of one table, as the backend names it."""


@frozen
class Commit:
    """One version of a table.

    Args:
        version: its name.
        committed_at: the time of the commit (UTC).
        mark: the mark of its epoch, or what reads it when it is asked for; None for upkeep, which changes no rows.
        written: the number of rows it wrote, if the backend counts them.
    """

    version: Version
    committed_at: datetime
    _mark: Mark | Callable[[], Mark | None] | None
    written: int | None = None

    @property
    def mark(self) -> Mark | None:
        """The mark of its epoch; None for upkeep."""
        return self._mark() if callable(self._mark) else self._mark


@frozen
class Expiry:
    """The versions and files of one table that an expiry removed, or would remove in a dry run.

    Args:
        table: its name.
        versions: the versions that can no longer be read, oldest first.
        files: the number of data files that no remaining version needs.
        size: the size of these files, in bytes.
    """

    table: str
    versions: tuple[Version, ...] = ()
    files: int = 0
    size: int = 0


class TableReader(Protocol):
    """Reads of versioned tables, each of which has been ensured through the same object; see `TableStore`."""

    @abstractmethod
    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows of one version, in the spec's columns; no rows if `at` is None.

        The frame stays valid and unchanged while later commits are made.

        Raises:
            VersionNotFound: the version never existed.
            VersionExpired: the version has expired; raised before any row is read.
        """

    def look_up(
        self, table: str, at: Version | None, asked: nw.LazyFrame[Any], matching: Matching, columns: Mapping[str, str]
    ) -> nw.LazyFrame[Any]:
        """Rows that ask for their keys, with columns of the table's rows; null for a key that has no row.

        A store overrides this if it finds rows by their keys.

        Args:
            table: the table.
            at: the version.
            asked: the rows, which have the columns of `matching.keys`.
            matching: their keys, as `read` takes it. No key has more than one row.
            columns: the columns of the table to add, by their new names.
        """
        return add_columns(asked, self.read(table, at, matching), matching, columns)

    @abstractmethod
    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        """Net changes of a keyed table between two versions, in the spec's columns and ``_row_kind``.

        A new key is ``+I`` and a removed key ``-D``. A key whose row differs has two rows: ``-U`` with the old and
        ``+U`` with the new row. Unchanged keys are left out. Paimon calls this the audit log.
        """

    def changed_keys(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        """At least the keys of all rows that `changes` returns, in the key's columns among others.

        A key may occur several times, and need not have changed. A store overrides this if it knows them sooner than
        the changes.
        """
        return self.changes(table, after, until)


class TableStore(TableReader, Protocol):
    """Versioned tables."""

    @abstractmethod
    def ensure(self, spec: TableSpec, published: Mapping[str, Version] | None = None) -> Schema:
        """Check that a table can be used as declared. Call it once before any method except `versions` and `version`.

        It writes nothing. The first commit creates the table, and a later commit adds new columns. So an epoch that
        fails leaves the table as it was.

        Args:
            spec: the declared table.
            published: the version of each table in the latest publication; a missing table has no version there.
                Columns added after that version are ignored, because their commits will be rolled back. None: all
                columns count.

        Returns:
            The columns that the stored table lacks and a commit will add; none if there is no such table yet.

        Raises:
            SchemaConflict: the stored table differs by more than new columns.
            StoreUnavailable: the store cannot be reached.
        """

    @abstractmethod
    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        """Commit one new version atomically, with the mark in its metadata. An empty change makes a version too.

        Raises:
            EpochConflict: `mark.sequence` does not follow that of the table's newest marked commit, because another
                writer has committed. Nothing is changed.
            StoreUnavailable: a temporary fault; nothing is changed.
        """

    @abstractmethod
    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        """Restore the rows of an earlier version (None: no rows) by a new version with the mark in its metadata.

        The versions in between stay readable. Raises the same errors as `commit`.
        """


class TableHistory(Protocol):
    """The versions of tables, from metadata."""

    @abstractmethod
    def versions(self, table: str) -> Iterator[Commit]:
        """The table's commits, newest first, read as the iterator advances; no commits if there is no such table.

        It works without `ensure`.
        """

    @abstractmethod
    def version(self, table: str, version: Version) -> Commit:
        """One commit of a table. It works without `ensure`.

        A version is found while its commit is in the log, even if its rows have expired.

        Raises:
            VersionNotFound: the version never existed.
            VersionExpired: its commit is no longer in the log.
        """

    def check_current(self, pipeline: str, *, writes: bool = False) -> None:  # noqa: ARG002 - one generation by default
        """Check that the tables of a pipeline are still those of its current generation.

        Args:
            pipeline: its name.
            writes: whether an epoch is about to be made or published.

        Raises:
            PipelineRebuilt: the pipeline has been rebuilt since this object first used its tables.
            EpochConflict: an epoch is to be made, and a rebuild is about to switch to other tables.
        """
        return

    def first_epoch(self, pipeline: str) -> int:  # noqa: ARG002 - one generation by default
        """The number of the first epoch of a pipeline that readers may ask for: a rebuild has made those before it."""
        return 0

    def check_copied(self, pipeline: str) -> None:  # noqa: ARG002 - no store but the deployment's knows of moves
        """Check that no unfinished move copies a pipeline to these tables.

        Raises:
            UnfinishedMove: one does, so rows of the pipeline may be missing.
        """
        return

    @abstractmethod
    def size(self, table: str, at: Version) -> int:
        """The size of the files of one version, in bytes, from metadata; no file is opened.

        Rows deleted since a file was written still count until compaction. Raises the errors of `TableReader.read`.
        """


class TableKeeper(Protocol):
    """Compaction and expiry. Each table must have been ensured through the same object's store."""

    @abstractmethod
    def compact(self, table: str) -> Version | None:
        """Merge the log into the base files and small files into large ones, if that is worth its cost.

        Rows do not change, and concurrent commits are not disturbed.

        Returns:
            The new version; None if nothing was compacted.

        Raises:
            HeadwaterError: rows cannot be read or written at present; nothing is changed, and the next call may work.
        """

    @abstractmethod
    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        """Expire versions and delete their files: those older than the newest of `keep`, and not in `keep` or leased.

        The store first records which versions expire. It then reads the leases again and spares the leased versions.
        Only then does it delete files. A recorded expiry is final. Concurrent commits are not disturbed.

        Args:
            table: its name.
            keep: versions that stay readable; if empty, nothing is expired.
            now: the present time (UTC); leases that ended before it are ignored.
            dry_run: change nothing; only report what would expire.
        """

    @abstractmethod
    def expired(self, table: str) -> Collection[Version]:
        """The versions whose commit is still listed but whose rows can no longer be read."""

    def sibling(self) -> KeptStore | None:
        """A new store of the same tables with the same settings, which another thread may use beside this one.

        None if there can be none: then a run does upkeep and publishes between its epochs.
        """
        return None


class Leases(Protocol):
    """Leases keep versions readable. Each table must have been ensured through the same object's store."""

    @abstractmethod
    def pin(self, lease: Lease) -> None:
        """Keep a version readable until the lease ends or is released.

        The store writes the lease first, and then checks that no expiry of the version has been recorded.

        Raises:
            VersionNotFound: the version never existed.
            VersionExpired: it has expired or is about to; no lease is left behind.
        """

    @abstractmethod
    def unpin(self, table: str, lease_id: str) -> None:
        """Release a lease. It does nothing if there is no lease of that name."""

    @abstractmethod
    def leases(self, table: str) -> Sequence[Lease]:
        """All leases on a table; ended leases may be included until the next expiry."""


class VersionedStore(TableStore, TableHistory, Protocol):
    """A table store that also lists its versions. The ledger uses it."""


class LeasingKeeper(TableKeeper, Leases, Protocol):
    """A keeper whose expiry spares leased versions. Upkeep uses it."""


class KeptStore(VersionedStore, LeasingKeeper, Protocol):
    """A table store that also does its own upkeep. A backend provides it."""


@runtime_checkable
class BaseReading(Protocol):
    """Reads of a table's base files only, for stores that merge a log with the base files on read."""

    @abstractmethod
    def read_optimized(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows of the base files, in the spec's columns: the cheapest read.

        The result is not one version. Each file shows its rows as of its own last compaction; later changes, deletes
        included, are missing. For a table without a log it is the newest version.

        Raises:
            ConfigError: there is no such table.
            StoreUnavailable: the store cannot be reached.
        """


class SmallFiles(Protocol):
    """A folder of small text files, each written atomically. The folder need not exist yet."""

    @abstractmethod
    def write(self, name: str, text: str) -> None:
        """Write a file; it replaces an existing file of that name."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    @abstractmethod
    def read(self) -> Mapping[str, str] | None:
        """The text of each file by name; None if a file was deleted during the read."""
