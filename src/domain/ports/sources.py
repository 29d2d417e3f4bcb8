"""Where rows come from: streams, bulk loads, batches of a program, and views of other pipelines."""

from __future__ import annotations

from abc import abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..epoch.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    import narwhals as nw

    from ..epoch.batch import Input
    from ..epoch.epoch import Epoch, OffsetRange, Offsets
    from ..epoch.key_range import KeyRange
    from ..table.schema import Schema


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
