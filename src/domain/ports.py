"""The interfaces that the domain needs. Adapters subclass them; a missing method fails when the object is created.

Ports use only domain types and narwhals frames. A method that a backend cannot support raises `NotSupported`.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, NewType, Protocol, runtime_checkable

import narwhals as nw
from attrs import frozen

from .epoch.batch import Batch
from .table.fingerprint import digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from .epoch.batch import Input
    from .epoch.epoch import Epoch, Mark, OffsetRange, Offsets, Publication
    from .epoch.key_range import KeyRange
    from .table.change import Change, Matching
    from .table.lease import Lease
    from .table.schema import Schema
    from .table.spec import TableSpec

Version = NewType("Version", str)
"""One committed state of one table, as the backend names it (Delta version, Hudi instant)."""


@frozen
class Commit:
    """One version of a table.

    Args:
        version: its name.
        committed_at: the time of the commit (UTC).
        mark: the mark of its epoch; None for upkeep, which changes no rows.
        written: the number of rows it wrote, if the backend counts them.
    """

    version: Version
    committed_at: datetime
    mark: Mark | None
    written: int | None = None


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


class TableStore(Protocol):
    """Versioned tables."""

    @abstractmethod
    def ensure(self, spec: TableSpec, published: Mapping[str, Version] | None = None) -> None:
        """Check that a table can be used as declared. Call it once before any method except `versions` and `version`.

        It writes nothing. The first commit creates the table, and a later commit adds new columns. So an epoch that
        fails leaves the table as it was.

        Args:
            spec: the declared table.
            published: the version of each table in the latest publication; a missing table has no version there.
                Columns added after that version are ignored, because their commits will be rolled back. None: all
                columns count.

        Raises:
            SchemaConflict: the stored table differs by more than new columns.
            StoreUnavailable: the store cannot be reached.
        """

    @abstractmethod
    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows of one version, in the spec's columns; no rows if `at` is None.

        The frame stays valid and unchanged while later commits are made.

        Raises:
            VersionNotFound: there never was such a version.
            VersionExpired: the version has expired; raised before any row is read.
        """

    @abstractmethod
    def size(self, table: str, at: Version) -> int:
        """The size of the files of one version, in bytes, from metadata; no file is opened.

        Rows deleted since a file was written still count until compaction. Raises the same errors as `read`.
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

    @abstractmethod
    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        """Net changes of a keyed table between two versions, in the spec's columns and ``_row_kind``.

        A new key is ``+I`` and a removed key ``-D``. A key whose row differs has two rows: ``-U`` with the old and
        ``+U`` with the new row. Unchanged keys are left out. Paimon calls this the audit log.
        """

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
            VersionNotFound: there never was such a version.
            VersionExpired: its commit is no longer in the log.
        """


class TableKeeper(Protocol):
    """Compaction, expiry and leases. Each table must have been ensured through the same object's store."""

    @abstractmethod
    def compact(self, table: str) -> Version | None:
        """Merge the log into the base files and small files into large ones, if that is worth its cost.

        Rows do not change, and concurrent commits are not disturbed.

        Returns:
            The new version; None if nothing was compacted.
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

    @abstractmethod
    def pin(self, lease: Lease) -> None:
        """Keep a version readable until the lease ends or is released.

        The store writes the lease first, and then checks that no expiry of the version has been recorded.

        Raises:
            VersionNotFound: there never was such a version.
            VersionExpired: it has expired or is about to; no lease is left behind.
        """

    @abstractmethod
    def unpin(self, table: str, lease_id: str) -> None:
        """Release a lease. It does nothing if there is no lease of that name."""

    @abstractmethod
    def leases(self, table: str) -> Sequence[Lease]:
        """All leases on a table; ended leases may be included until the next expiry."""


class KeptStore(TableStore, TableKeeper, Protocol):
    """A table store that also does its own upkeep."""


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


class StreamSource(Protocol):
    """A stream that is read in batches, each from one offset to another."""

    schema: Schema
    """Columns of the rows (`RecordSpec.rows`), without `BATCH_COLUMNS`, which are added."""

    format: str
    """Format of the records, as it is stored with dead letters."""

    reread_formats: Collection[str]
    """Formats of the dead letters that `reread` accepts; empty if rows cannot be restored from them."""

    lanes: bool = False
    """Whether several logs (Kafka partitions) are read in parallel; see `Batch`."""

    @abstractmethod
    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """The offsets that the next epoch reads, at most the configured size; None if there is nothing new.

        Raises:
            SourceUnavailable: a temporary fault (the broker is down).
            SourceChanged: records read before are gone or have been rewritten.
        """

    @abstractmethod
    def end(self) -> Offsets | None:
        """The present end of the source; later records are planned after it. None if the source is empty.

        Raises the same errors as `plan`.
        """

    @abstractmethod
    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of a range, with the columns of `Batch.rows`. Each read of a range returns the same rows."""

    def batch(self, epoch: Epoch, offsets: OffsetRange) -> Batch:
        """The rows of a range as the batch of an epoch; see `read`."""
        return Batch(epoch, self.read(offsets), offsets, self.format, lanes=self.lanes)

    def passed_over(self) -> Mapping[str, int]:
        """The number of messages skipped since the last call because `tables` excludes their table, by table.

        Messages are counted while rows are read, so call it after an epoch's rows have been computed.
        """
        return {}

    @abstractmethod
    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Decode the records of dead letters again, with the columns of `Batch.rows`.

        Origins are those of the dead letters. Positions are unique and keep the order in which the dead letters came.

        Args:
            letters: dead letters with the columns of `dead_letter.SCHEMA`, each of a format in `reread_formats`. A
                dead letter with a row kind gives only its record's row of that kind; the record's other rows have
                been used already.

        Raises:
            NotSupported: the source cannot read such dead letters.
        """

    @abstractmethod
    def lag(self, after: Offsets | None) -> str:
        """The amount of unread input after these offsets, for display, with its unit (``3 files``, ``12 records``)."""


class BulkSource(Protocol):
    """A table that is read once, in chunks, each with the time or the log position of its read.

    The offsets say which chunks are done. They stay small for any number of chunks.
    """

    schema: Schema
    """The columns of its rows, without those that `read` adds."""

    repeatable: bool
    """Whether a second read of a chunk returns the same rows: true for files, false for a database."""

    @abstractmethod
    def plan(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:
        """The next chunks to read, few enough that changes need not wait; None if all are read or no chunk is due.

        A chunk that cannot be read is skipped for now, so that the others continue; `trouble` reports it.

        Args:
            after: the offsets so far.
            watermark: the changelog's watermark (UTC). Rows that cannot be shown before the watermark reaches a known
                time may be read only then.

        Raises:
            SourceUnavailable: a temporary fault.
            SourceChanged: rows read before are gone or have been rewritten.
        """

    @abstractmethod
    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the chunks of a range: columns of `schema`, `bulk.CHUNK`, `bulk.SEARCH_TS` and `BATCH_COLUMNS`.

        If rows have a position, it is the changelog's position before the read: every change after it is newer than
        the row or already in it. The columns `bulk.reach_of` then hold the changelog's position after the read: the
        rows may be shown once the changelog has been read up to there.
        """

    def readable(self, offsets: OffsetRange) -> bool:  # noqa: ARG002 - for those that still have what they read
        """Whether a range that was planned before can still be read with the same rows.

        If not, its epoch is planned again, so that two reads are never mixed. A source whose chunks may have other
        rows by then must plan different offsets, so that the commits of the first try are rolled back.
        """
        return self.repeatable

    @abstractmethod
    def remaining(self, after: Offsets | None) -> tuple[KeyRange, ...]:
        """Ranges of the first key column that unfinished chunks may contain: a few, and none once all are done."""

    def ranges(self, offsets: OffsetRange) -> Mapping[int, KeyRange]:  # noqa: ARG002 - for those that it matters to
        """The range of the first key column of each chunk in an offset range, by chunk number.

        A source whose chunks are not `repeatable` returns them: no read of a chunk has keys outside of its range.
        """
        return {}

    @abstractmethod
    def lag(self, after: Offsets | None) -> str:
        """The amount of unread input after these offsets, for display, with its unit; empty if all is read."""

    @abstractmethod
    def trouble(self) -> tuple[str, ...]:
        """Messages about the chunks whose last read failed, each with the reason."""


@runtime_checkable
class ForeachBatchSource(StreamSource, Protocol):
    """A source that receives its batches from a user's Spark program (``foreachBatch``)."""

    @abstractmethod
    def submit(self, query: str, batch: int, rows: Any) -> None:
        """Submit a batch for the next epoch.

        Args:
            query: the streaming query that the batch belongs to.
            batch: its number, which increases within a query; a batch that is published already is skipped.
            rows: the engine's own frame.
        """


class Pace(Enum):
    """When the next epoch of a pipeline that reads other pipelines is due."""

    SCHEDULE = "schedule"
    """By its own schedule: by the clock or by the watermark."""
    DRAIN = "drain"
    """In a run that ends when its sources are drained: by the watermark only; the clock is ignored."""
    CLOSE = "close"
    """At the end of such a run: an epoch is due if any input has changed."""


@runtime_checkable
class InputSource(Protocol):
    """Views of other pipelines and plain tables, all read in each epoch. The offsets have the version of each input."""

    format: str
    """The `format` of its batches."""

    @abstractmethod
    def plan(self, after: Offsets | None, pace: Pace, now: datetime) -> OffsetRange | None:
        """The versions of the inputs that the next epoch reads, the newest there are; None if it is not due yet.

        Args:
            after: the offsets of the latest epoch; None before the first.
            pace: decides when the next epoch is due.
            now: the present time (UTC).

        Raises:
            ConfigError: an input does not exist.
        """

    @abstractmethod
    def readable(self, offsets: OffsetRange) -> bool:
        """Whether an unfinished epoch can be repeated: the inputs are the same, and all their versions can be read."""

    @abstractmethod
    def hold(self, offsets: OffsetRange) -> AbstractContextManager[Mapping[str, Input]]:
        """Each input by its name. Inside the block the inputs stay readable, and each read returns the same rows.

        Raises:
            SourceUnavailable: a version has expired since it was planned; plan again.
        """

    @abstractmethod
    def lag(self, after: Offsets | None) -> str:
        """The amount of unread input after these offsets, for display, with its unit."""


@frozen
class Receipt:
    """A sink's record of the latest epoch that was published to it.

    Args:
        epoch: its number.
        state: a digest of the service's settings and the offsets. Rows depend on nothing else, so tables that were
            moved, or rebuilt from the same epochs, continue to publish to the same sink.
    """

    epoch: int
    state: str

    @classmethod
    def of(cls, publication: Publication) -> Receipt:
        """The receipt for a publication."""
        state = json.dumps([digest(publication.fingerprint), publication.offsets], sort_keys=True)
        return cls(publication.epoch.number, hashlib.sha256(state.encode()).hexdigest()[:32])


class StreamSink(Protocol):
    """A feed of one view's changes. Each epoch is published atomically, in order, exactly once."""

    @abstractmethod
    def published(self) -> Receipt | None:
        """The receipt of the latest epoch in the sink; None if the sink has no epoch of this view.

        Raises:
            ConfigError: there is no such sink.
            SinkUnavailable: a temporary fault.
        """

    @abstractmethod
    def claim(self) -> Receipt | None:
        """Become the only writer: abort unfinished writes of other runs and fence them off. Returns `published`.

        Raises the same errors as `published`.
        """

    @abstractmethod
    def publish(self, changes: nw.LazyFrame[Any], publication: Publication) -> None:
        """Publish the net changes of an epoch together with its receipt. Call `claim` before the first call.

        Args:
            changes: the view's columns and ``_row_kind``, in no particular order.
            publication: the epoch's publication.

        Raises:
            EpochConflict: another run has claimed the sink.
            SinkUnavailable: a temporary fault; the next `claim` returns whether the epoch was published.
        """


class FrameEngine(Protocol):
    """Operations that narwhals does not offer, or not with the same result on every engine."""

    @abstractmethod
    def expect(self, rows: int) -> None:
        """Tell the engine how many rows the work until `release` is about, so that it can plan for that many."""

    @abstractmethod
    def persist(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The same rows, computed at most once and cached until `release`."""

    @abstractmethod
    def release(self) -> None:
        """Drop all persisted frames, and the number of rows set by `expect`."""

    @abstractmethod
    def explaining(self) -> AbstractContextManager[None]:
        """Compute frames inside this block: the engine's errors about stored rows are raised as Headwater's errors.

        Raises:
            VersionExpired: a file is gone; the version had no lease and expired after the frame was requested.
            TableDamaged: a file is truncated or changed.
            StoreUnavailable: the rows cannot be reached at present.
        """

    def working(self) -> AbstractContextManager[None]:
        """As `explaining`. In addition no setting of the calling program (its session) changes a result."""
        return self.explaining()

    def take_in(self, frame: Any) -> nw.LazyFrame[Any]:
        """Convert a user's frame into a lazy narwhals frame of this engine."""
        taken: nw.LazyFrame[Any] = nw.from_native(frame).lazy()
        return taken

    def hand_out(self, frame: nw.LazyFrame[Any]) -> Any:
        """Convert a frame for the user: to a Polars DataFrame, or else to the engine's own lazy frame."""
        return frame.collect().to_native() if frame.implementation.is_polars() else frame.to_native()

    @abstractmethod
    def wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        """Add bigint `into`: a timestamp or date `column` as microseconds from 1970 on a zone's wall clock."""

    @abstractmethod
    def from_wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        """Add timestamp `into`: the instant at which a zone's wall clock shows `column` microseconds from 1970.

        If there are two such instants (clocks set back), the earlier one. If there is none (clocks set forward), the
        time that the offset before the gap gives.
        """

    @abstractmethod
    def each_between(self, frame: nw.LazyFrame[Any], low: str, high: str, *, into: str) -> nw.LazyFrame[Any]:
        """Repeat each row for every whole number from column `low` to column `high`, inclusive, in bigint `into`.

        A row whose `low` is above its `high`, or in which either is null, is dropped.
        """

    @abstractmethod
    def digest(self, frame: nw.LazyFrame[Any], column: str, *, into: str) -> nw.LazyFrame[Any]:
        """Add string `into`: the MD5 of a string column's UTF-8 bytes as 32 hexadecimal digits; null for null."""

    @abstractmethod
    def add_up(
        self, frame: nw.LazyFrame[Any], by: Sequence[str], sums: Sequence[str], most: Sequence[str] = ()
    ) -> nw.LazyFrame[Any]:
        """One row for each group, with exact sums in the types of their columns.

        Args:
            frame: the rows; nulls are ignored.
            by: the columns to group by.
            sums: columns of whole numbers and decimals. A sum that overflows and comes back into range is exact.
            most: columns whose maximum is taken.

        Returns:
            The columns `by`, `sums` and `most`.

        Raises:
            SumOverflow: when computed: a sum does not fit into its column. An engine may assume that columns which
                are not the sum of a measure (see `sums.SUM`) fit, because they count rows.
        """

    @abstractmethod
    def running(
        self, frame: nw.LazyFrame[Any], sums: Sequence[str], over: Sequence[str], order_by: str
    ) -> nw.LazyFrame[Any]:
        """The same rows, with each of `sums` replaced by its running total within the group; see `add_up`.

        Args:
            frame: the rows.
            sums: columns of whole numbers and decimals.
            over: the columns to group by.
            order_by: orders the rows of a group; unique within the group.

        Raises:
            SumOverflow: see `add_up`.
        """


class QueryEngine(Protocol):
    """User-supplied SQL, in Spark's dialect, over frames and over plain tables."""

    @abstractmethod
    def query(self, sql: str, tables: Mapping[str, nw.LazyFrame[Any]]) -> nw.LazyFrame[Any]:
        """The rows of one query, computed lazily if the engine can, else immediately.

        Args:
            sql: see `sql.parse_statement`.
            tables: the tables it may read, by name; names are case-insensitive.

        Raises:
            ConfigError: it cannot be parsed; a column, table or function is unknown; two of its columns have the same
                name; or this engine's result would differ from Spark's.
            BadInput: a value does not fit its type, if the engine computes immediately.
            SumOverflow: a sum or an average does not fit its type; at the latest when the rows are computed.
        """

    @abstractmethod
    def scan(self, path: str, format: str) -> nw.LazyFrame[Any]:  # noqa: A002 - as configurations call it
        """The rows of a plain table: a file, or a folder of files.

        Args:
            path: its path.
            format: ``parquet``; ``csv`` (the first line has the column names; all columns are text); ``json`` (one
                object per line; columns sorted by name); ``delta`` and ``hudi`` if the engine reads them.

        Raises:
            ConfigError: there is no such format, or nothing at the path.
            NotSupported: the engine does not read that format.
        """

    @abstractmethod
    def state(self, path: str, format: str) -> str:  # noqa: A002 - as configurations call it
        """A digest of a plain table's present content, from the names, sizes and times of its files.

        Args:
            path: its path.
            format: as in `scan`.

        Raises:
            ConfigError: there is nothing at the path.
        """


class Clock(Protocol):
    """The time, as a port so that tests need not wait."""

    @abstractmethod
    def now(self) -> datetime:
        """The present time, in UTC."""

    @abstractmethod
    def sleep(self, duration: timedelta) -> None:
        """Wait, or return early when the process has been asked to stop."""
