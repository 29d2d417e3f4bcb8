"""What the domain needs of the world. Adapters subclass these; a missing method fails when the object is made.

Ports speak only domain types and narwhals frames. A part that a backend cannot offer raises `NotSupported`.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, NewType, Protocol, runtime_checkable

import narwhals as nw
from attrs import frozen

from .epoch import Batch
from .fingerprint import digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from .bulk import KeyRange
    from .change import Change, Matching
    from .epoch import Epoch, Mark, OffsetRange, Offsets, Publication
    from .input import Input
    from .lease import Lease
    from .ledger import Snapshot
    from .schema import Schema
    from .table import TableSpec

Version = NewType("Version", str)
"""One committed state of one table, as the backend names it (Delta version, Hudi instant)."""


@frozen
class Commit:
    """One version of a table.

    Args:
        version: its name.
        committed_at: when it was made (UTC).
        mark: of the epoch it belongs to; None for upkeep, which changes no rows.
        written: how many rows it wrote, where the backend counts them.
    """

    version: Version
    committed_at: datetime
    mark: Mark | None
    written: int | None = None


@frozen
class Expiry:
    """What an expiry gave up of one table, or would give up.

    Args:
        table: its name.
        versions: those that can no longer be read, oldest first.
        files: how many data files no kept version needs.
        size: of these files, in bytes.
    """

    table: str
    versions: tuple[Version, ...] = ()
    files: int = 0
    size: int = 0


class TableStore(Protocol):
    """Versioned tables."""

    @abstractmethod
    def ensure(self, spec: TableSpec, published: Snapshot | None = None) -> None:
        """Make sure that a table can be used as declared. Call once before any use but of its history.

        Nothing is written: the first commit creates the table, and a commit adds the new columns, so that work which
        fails leaves the table as it was.

        Args:
            spec: of the table.
            published: the newest publication; columns that came after it do not count, since the work that brought
                them is taken back. None: all columns count.

        Raises:
            SchemaConflict: the stored table differs by more than new columns.
            StoreUnavailable: the place cannot be reached.
        """

    @abstractmethod
    def read(self, table: str, at: Version | None, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows of one version, in the spec's columns; no rows where `at` is None.

        The frame stays valid and unchanged while later commits are made.

        Raises:
            VersionNotFound: there never was such a version.
            VersionExpired: it has been cleaned away; told before any row is read.
        """

    @abstractmethod
    def size(self, table: str, at: Version) -> int:
        """How large the files are that one version is read from, in bytes, as what tells of them says: none is read.

        Rows that have gone since these were written still count, until compaction. Raises as `read` does.
        """

    @abstractmethod
    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        """Make one new version, atomically, that carries the mark. A change of no rows makes a version too.

        Raises:
            EpochConflict: `mark.sequence` is not the one after that of the table's newest marked commit: another
                writer has been here. Nothing is changed.
            StoreUnavailable: a passing fault; nothing is changed.
        """

    @abstractmethod
    def rollback(self, table: str, to: Version | None, mark: Mark) -> Version:
        """Bring the table back to an earlier content (None: no rows) by a new version that carries the mark.

        Later versions stay readable. Raises as `commit` does.
        """

    @abstractmethod
    def changes(self, table: str, after: Version | None, until: Version) -> nw.LazyFrame[Any]:
        """Net changes of a keyed table between two versions, in the spec's columns and ``_row_kind``.

        A key that came is ``+I``, one that went ``-D``, one whose row differs ``-U`` with the old and ``+U`` with the
        new row; others do not show. Also known as the audit log.
        """

    @abstractmethod
    def versions(self, table: str) -> Iterator[Commit]:
        """The table's commits, newest first, read as the iterator advances; none if there is no such table.

        It need not have been ensured.
        """

    @abstractmethod
    def version(self, table: str, version: Version) -> Commit:
        """One commit of a table, which need not have been ensured; one whose rows alone are gone is still told.

        Raises:
            VersionNotFound: there never was such a version.
            VersionExpired: it has been cleaned away altogether.
        """


class TableKeeper(Protocol):
    """Upkeep, and the readers' leases that it honours. Every table has been ensured by the same object's store."""

    @abstractmethod
    def compact(self, table: str) -> Version | None:
        """Fold the log into the base and small files into large ones, where that pays; None where it does not.

        Rows do not change, and a commit made meanwhile is not disturbed.
        """

    @abstractmethod
    def expire(self, table: str, keep: Collection[Version], *, now: datetime, dry_run: bool) -> Expiry:
        """Give up the versions older than the newest of `keep` that are neither in it nor leased, and free their files.

        First it is put on record which versions go; then the leases are read again, and what they hold is spared;
        only then are files deleted. What is on record is final. A commit made meanwhile is not disturbed.

        Args:
            table: its name.
            keep: versions that stay readable; where none is given, none goes.
            now: the present moment (UTC): leases that have ended by then hold nothing.
            dry_run: change nothing, and tell what would go.
        """

    @abstractmethod
    def expired(self, table: str) -> Collection[Version]:
        """The versions that are still told of and can no longer be read."""

    @abstractmethod
    def pin(self, lease: Lease) -> None:
        """Keep a version readable until the lease ends or is taken back.

        The lease is written first, then it is made sure that the version is not on record to go.

        Raises:
            VersionNotFound: there never was such a version.
            VersionExpired: it has gone, or is about to; no lease is left behind.
        """

    @abstractmethod
    def unpin(self, table: str, lease_id: str) -> None:
        """Take a lease back; nothing happens if there is none of that name."""

    @abstractmethod
    def leases(self, table: str) -> Sequence[Lease]:
        """All leases on a table; ended ones may be among them until the next expiry."""


class KeptStore(TableStore, TableKeeper, Protocol):
    """A table store that does its own upkeep."""


@runtime_checkable
class BaseReading(Protocol):
    """Reads of a table's base files alone, where a store keeps a log beside them that it merges when it reads."""

    @abstractmethod
    def read_optimized(self, table: str, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The rows that base files hold, in the spec's columns: the cheapest read.

        That is not one version: each file shows its rows as of its own last compaction, and what came since is missing,
        deletes too. Of a table without such a log it is the newest version.

        Raises:
            ConfigError: there is no such table.
            StoreUnavailable: the place cannot be reached.
        """


class SmallFiles(Protocol):
    """A folder of small text files, each of which appears whole or not at all. It need not be there yet."""

    @abstractmethod
    def write(self, name: str, text: str) -> None:
        """Write a file, in the place of any of that name."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def read(self) -> Mapping[str, str] | None:
        """The texts of all files by name; None if one of them went while they were read."""


class StreamSource(Protocol):
    """A topic group as batches, from given offsets."""

    schema: Schema
    """Columns of the rows (`RecordSpec.rows`); `epoch.BATCH_COLUMNS` come on top."""

    format: str
    """Of the records, as the dead letters name it."""

    rereads: Collection[str]
    """Formats of the dead letters that `again` takes; none where rows cannot be had back from them."""

    lanes: bool = False
    """Whether several logs are read side by side; see `Batch`."""

    @abstractmethod
    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """What the next epoch reads, at most the configured size; None if there is nothing new.

        Raises:
            SourceUnavailable: a passing fault (the broker is down).
            SourceChanged: what was read before is gone or rewritten.
        """

    @abstractmethod
    def end(self) -> Offsets | None:
        """Where the source ends now: what comes from now on is planned after it. None if it holds nothing.

        Raises as `plan` does.
        """

    @abstractmethod
    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of a range, the same ones each time, with the columns of `Batch.rows`."""

    def batch(self, epoch: Epoch, offsets: OffsetRange) -> Batch:
        """The rows of a range as the batch of an epoch; see `read`."""
        return Batch(epoch, self.read(offsets), offsets, self.format, lanes=self.lanes)

    def passed_over(self) -> Mapping[str, int]:
        """How many messages of which tables were not read since the last call, as their `tables` leaves them out.

        They are counted while rows are read: ask when an epoch's rows have been computed.
        """
        return {}

    @abstractmethod
    def again(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Read the records of dead letters once more, with the columns of `Batch.rows`.

        Origins are those of the letters. Positions are unique, and order the rows as the letters came.

        Args:
            letters: with the columns of `dead_letter.SCHEMA`, all of a format in `rereads`. One with a row kind stands
                for its record's row of that kind alone: its other rows have been used.

        Raises:
            NotSupported: there is no such format.
        """

    @abstractmethod
    def lag(self, after: Offsets | None) -> str:
        """How much is waiting behind these offsets, in words with its unit (``3 files``, ``12 records``)."""


class BulkSource(Protocol):
    """A table as chunks, read once, each with the moment or the position that it was read at.

    Its offsets say which chunks are done; they are small however many those are.
    """

    schema: Schema
    """The columns of its rows beside those that `read` adds."""

    repeatable: bool
    """Whether a chunk that is read again has the same rows: files have, a database has not."""

    @abstractmethod
    def plan(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:
        """The next chunks, so few that changes need not wait for them; None if all are read, or none is due.

        A chunk that cannot be read is left out for now, so that the others go on; `trouble` tells of it.

        Args:
            after: what is done so far.
            watermark: of the changelog (UTC): rows that could not be shown before it has passed a known moment may be
                left where they are until then.

        Raises:
            SourceUnavailable: a passing fault.
            SourceChanged: what was read before is gone or rewritten.
        """

    @abstractmethod
    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the chunks of a range: columns of `schema`, `bulk.CHUNK`, `bulk.SEARCH_TS` and `BATCH_COLUMNS`.

        Where rows have a position, it is that of the changelog before they were read: every change behind it is newer
        or the same. `bulk.reach_of` then says, column by column, how far the changelog must have come for them to show:
        where it stood when they had been read.
        """

    def readable(self, offsets: OffsetRange) -> bool:  # noqa: ARG002 - for those that still have what they read
        """Whether a range that was planned before can be read as it was then.

        If not, its epoch is planned anew: two reads are never mixed. Sources whose chunks have other rows by then must
        tell that in the offsets of the new plan, so that what the first one committed is taken back.
        """
        return self.repeatable

    @abstractmethod
    def remaining(self, after: Offsets | None) -> tuple[KeyRange, ...]:
        """Ranges of the first key column that chunks not done yet may hold; few, and none once all are done."""

    def ranges(self, offsets: OffsetRange) -> Mapping[int, KeyRange]:  # noqa: ARG002 - for those that it matters to
        """Ranges of the first key column that the chunks of a range are cut by, by their numbers.

        A source whose chunks are not `repeatable` tells them: no other read of a chunk has keys outside.
        """
        return {}

    @abstractmethod
    def lag(self, after: Offsets | None) -> str:
        """How much is waiting behind these offsets, in words with its unit; an empty text if nothing is."""

    @abstractmethod
    def trouble(self) -> tuple[str, ...]:
        """Chunks that could not be read when they were last tried, each with the reason."""


@runtime_checkable
class HandedOver(StreamSource, Protocol):
    """A source that a program of the user's own hands its batches to."""

    @abstractmethod
    def offer(self, query: str, batch: int, rows: Any) -> None:
        """Hold a batch ready for the next epoch.

        Args:
            query: whose batch it is.
            batch: its number, growing from batch to batch of a query; one that is published is passed over.
            rows: the engine's own frame.
        """


class Pace(Enum):
    """What paces a pipeline that reads others."""

    SCHEDULE = "schedule"
    """Its own schedule: the clock's, or the watermark's."""
    DRAIN = "drain"
    """A run that ends when its sources are drained: the clock says nothing then, the watermark does."""
    CLOSE = "close"
    """The sources of such a run are drained: what has moved is due."""


@runtime_checkable
class InputSource(Protocol):
    """Views of other pipelines, and plain tables, of which each epoch reads all: its offsets say at which version."""

    format: str
    """What a batch's `format` says."""

    @abstractmethod
    def plan(self, after: Offsets | None, pace: Pace, now: datetime) -> OffsetRange | None:
        """The versions of the inputs that the next epoch reads, the newest there are; None if it is not due yet.

        Args:
            after: where the newest epoch stands; None before the first.
            pace: what the pipeline is paced by.
            now: the present moment (UTC).

        Raises:
            ConfigError: an input is not there.
        """

    @abstractmethod
    def readable(self, offsets: OffsetRange) -> bool:
        """Whether an epoch that was begun can be done again: its inputs are still those, and can all be read."""

    @abstractmethod
    def hold(self, offsets: OffsetRange) -> AbstractContextManager[Mapping[str, Input]]:
        """Each input by its name, whose rows are the same ones each time; they stay readable inside the block.

        Raises:
            SourceUnavailable: a version has been given up since it was planned; plan anew.
        """

    @abstractmethod
    def lag(self, after: Offsets | None) -> str:
        """How much is waiting behind these offsets, in words with its unit."""


@frozen
class Receipt:
    """What a sink keeps of the newest epoch that was published to it.

    Args:
        epoch: its number.
        state: stands for the service's settings and the offsets read by then. Rows depend on nothing else, so tables
            that were moved, or built anew from the same epochs, go on with the sink as if they were the old ones.
    """

    epoch: int
    state: str

    @classmethod
    def of(cls, publication: Publication) -> Receipt:
        """The receipt for a publication."""
        state = json.dumps([digest(publication.fingerprint), publication.offsets], sort_keys=True)
        return cls(publication.epoch.number, hashlib.sha256(state.encode()).hexdigest()[:32])


class StreamSink(Protocol):
    """A feed of one view's changes: each epoch whole or not at all, in order, and once."""

    @abstractmethod
    def published(self) -> Receipt | None:
        """The newest epoch that the sink holds; None if it holds none of this view.

        Raises:
            ConfigError: there is no such sink.
            SinkUnavailable: a passing fault.
        """

    @abstractmethod
    def claim(self) -> Receipt | None:
        """Become the only one who publishes: undo what others left half done, turn them away, then say `published`.

        Raises as `published` does.
        """

    @abstractmethod
    def publish(self, changes: nw.LazyFrame[Any], publication: Publication) -> None:
        """Publish the net changes of an epoch together with its receipt. Call `claim` before the first time.

        Args:
            changes: the view's columns and ``_row_kind``, in no order.
            publication: of the epoch.

        Raises:
            EpochConflict: another run has claimed the sink.
            SinkUnavailable: a passing fault; whether the epoch is there, the next `claim` tells.
        """


class FrameEngine(Protocol):
    """What narwhals does not offer alike on every engine."""

    @abstractmethod
    def expect(self, rows: int) -> None:
        """Hint at how many rows the work until `release` is about, so that the engine can plan for that many."""

    @abstractmethod
    def persist(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The same rows, computed at most once; kept until `release`."""

    @abstractmethod
    def release(self) -> None:
        """Forget everything persisted so far, and what was to be expected."""

    @abstractmethod
    def explaining(self) -> AbstractContextManager[None]:
        """Compute frames inside: stored rows that the engine cannot read are told as one of these errors.

        Raises:
            VersionExpired: a file is gone: the version was given up after the frame was asked for, without a lease.
            TableDamaged: a file is cut off or changed.
            StoreUnavailable: the rows cannot be reached just now.
        """

    def working(self) -> AbstractContextManager[None]:
        """Work on frames inside, as `explaining`, so that no setting of the program around changes an answer."""
        return self.explaining()

    def take_in(self, frame: Any) -> nw.LazyFrame[Any]:
        """A frame of the program's, in the engine's own kind."""
        taken: nw.LazyFrame[Any] = nw.from_native(frame).lazy()
        return taken

    def hand_out(self, frame: nw.LazyFrame[Any]) -> Any:
        """A frame for the program: a DataFrame of Polars, or what the engine computes when it is asked for rows."""
        return frame.collect().to_native() if frame.implementation.is_polars() else frame.to_native()

    @abstractmethod
    def wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        """Add bigint `into`: a timestamp or date `column` as microseconds from 1970 on a zone's wall clock."""

    @abstractmethod
    def from_wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        """Add timestamp `into`: the instant at which a zone's wall clock shows `column` microseconds from 1970.

        Of two such instants (clocks set back) the earlier; where there is none (clocks set forward), the time that the
        offset before the gap would give.
        """

    @abstractmethod
    def each_between(self, frame: nw.LazyFrame[Any], low: str, high: str, *, into: str) -> nw.LazyFrame[Any]:
        """Each row once for every whole number from column `low` to column `high`, both included, in bigint `into`.

        A row whose `low` is above its `high`, or in which one is null, is gone.
        """

    @abstractmethod
    def digest(self, frame: nw.LazyFrame[Any], column: str, *, into: str) -> nw.LazyFrame[Any]:
        """Add string `into`: the MD5 of a string column's UTF-8 as 32 hexadecimal digits, null where it is null."""

    @abstractmethod
    def add_up(
        self, frame: nw.LazyFrame[Any], by: Sequence[str], sums: Sequence[str], most: Sequence[str] = ()
    ) -> nw.LazyFrame[Any]:
        """One row for each group, with exact sums in the types of their columns.

        Args:
            frame: the rows; nulls add nothing.
            by: columns that name a group.
            sums: columns of whole numbers and decimals. What overflows on the way and cancels is added up exactly.
            most: columns of which the greatest value is taken.

        Returns:
            The columns `by`, `sums` and `most`.

        Raises:
            SumOverflow: when it is computed: a sum does not fit into its column. Of columns that are no measure's sum
                (see `sums.SUM`) an engine may take for granted that they fit, as they count rows.
        """

    @abstractmethod
    def running(
        self, frame: nw.LazyFrame[Any], sums: Sequence[str], over: Sequence[str], order_by: str
    ) -> nw.LazyFrame[Any]:
        """The same rows, with each of `sums` as the sum of this row and those before it in its group; see `add_up`.

        Args:
            frame: the rows.
            sums: columns of whole numbers and decimals.
            over: columns that name a group.
            order_by: orders the rows of a group; unique within it.

        Raises:
            SumOverflow: see `add_up`.
        """


class QueryEngine(Protocol):
    """SQL of the user's own, in Spark's dialect, over frames and over plain tables of theirs."""

    @abstractmethod
    def query(self, sql: str, tables: Mapping[str, nw.LazyFrame[Any]]) -> nw.LazyFrame[Any]:
        """The rows of one query; computed when they are asked for where the engine can, else at once.

        Args:
            sql: see `sql.parse_statement`.
            tables: what it may read from, by name; letters' case does not count.

        Raises:
            ConfigError: it cannot be parsed, or knows no such column, table or function, or two of its columns have
                one name, or this engine would answer it otherwise than Spark.
            BadInput: a value is beyond its type, where the engine works at once.
            SumOverflow: a sum or an average is; at the latest when the rows are computed.
        """

    @abstractmethod
    def scan(self, path: str, format: str) -> nw.LazyFrame[Any]:  # noqa: A002 - as configurations call it
        """The rows of a plain table of the user's: a file, or a folder of files.

        Args:
            path: where it is.
            format: ``parquet``; ``csv`` (the first line names the columns, all of them text); ``json`` (an object a
                line; columns in the order of their names); ``delta`` and ``hudi`` where the engine reads them.

        Raises:
            ConfigError: there is no such format, or nothing at the path.
            NotSupported: the engine does not read that format.
        """

    @abstractmethod
    def state(self, path: str, format: str) -> str:  # noqa: A002 - as configurations call it
        """What tells the present state of a plain table from others, by names, sizes and times of its files.

        Args:
            path: where it is.
            format: as in `scan`.

        Raises:
            ConfigError: nothing is at the path.
        """


class Clock(Protocol):
    """The time, so that nothing has to wait for it in tests."""

    @abstractmethod
    def now(self) -> datetime:
        """The present moment, in UTC."""

    @abstractmethod
    def sleep(self, duration: timedelta) -> None:
        """Wait, or return early when the process was asked to stop."""
