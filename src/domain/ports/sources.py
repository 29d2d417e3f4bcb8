"""Where rows come from: streams, batches of a program, and views of other pipelines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol
from uuid import uuid4

import narwhals as nw
from attrs import Factory, field, frozen

from ..epoch.batch import Batch
from ..epoch.epoch import Epoch, OffsetRange, Offsets
from ..errors import NotSupported, SourceChanged
from ..table.schema import Schema
from .bulk_source import BulkSource


class Pace(Enum):
    """When the next epoch of a pipeline that reads other pipelines is due."""

    SCHEDULE = "schedule"
    """By its own schedule: by the clock or by the watermark."""
    DRAIN = "drain"
    """In a run that ends when its sources are drained: by the watermark only; the clock is ignored."""
    CLOSE = "close"
    """At the end of such a run: an epoch is due if any input has changed."""


@frozen
class Alarm:
    """A problem that needs an operator.

    Args:
        text: the problem and its reason, for display.
        about: identifies the problem while it lasts; set it if the text has numbers that change.
    """

    text: str
    about: str = field(default=Factory(lambda self: self.text, takes_self=True))


@frozen
class Now:
    """The moment at which an epoch is planned.

    Args:
        time: the present time (UTC).
        pace: decides when a pipeline that reads other pipelines is due.
        watermark: the pipeline's watermark after its latest epoch (UTC); None if it has none.
    """

    time: datetime
    pace: Pace = Pace.SCHEDULE
    watermark: datetime | None = None


@frozen(eq=False)
class PushedFrame:
    """A frame that a program pushes.

    Args:
        rows: the frame, in memory or of Spark.
        number: of the frame; None for the next one.
        id: tells the frame from those of other programs; each try to push it, to any pipeline, has the same.
        claimed: whether the program says that a published frame of this number is this one, whatever its id.
    """

    rows: Any
    number: int | None
    id: str = field(factory=lambda: uuid4().hex)
    claimed: bool = True


class DeadLetterReader(Protocol):
    """Decodes dead letters again, for a replay."""

    format: str
    """Format of the records, as it is stored with dead letters."""

    reread_formats: Collection[str] = ()
    """Formats of the dead letters that `reread` accepts; empty if rows cannot be restored from them."""

    def rereadable(self) -> nw.Expr:
        """Whether `reread` accepts a dead letter, by its `format` and `origin`; false for an old one without format."""
        known: nw.Expr = nw.col("format").is_in(list(self.reread_formats)) & ~nw.col("format").is_null()
        return known

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:  # noqa: ARG002 - overriding methods use it
        """Decode the records of dead letters again, with the columns of `Batch.rows`.

        Origins are those of the dead letters. Positions are unique and keep the order in which the dead letters came.

        Args:
            letters: dead letters with the columns of `dead_letter.SCHEMA`, of which `rereadable` is true. A dead
                letter with a row kind gives only its record's row of that kind; the record's other rows have been
                used already.

        Raises:
            NotSupported: the source cannot read such dead letters.
        """
        raise NotSupported("reading dead letters again", f"a source of {self.format}", "send the records again")


class RebuildCheck(Protocol):
    """Whether what a pipeline has read can be read again from the beginning, as a rebuild does."""

    format: str
    """Format of the records, for display."""

    def check_complete(self, beginning: Offsets | None, until: Offsets) -> None:  # noqa: ARG002 - overriding methods use it
        """Check that everything up to some offsets can be read again from the beginning.

        Args:
            beginning: the offsets after which the first epoch began to read, if its range had any; else None.
            until: the offsets of the latest epoch.

        Raises:
            SourceChanged: records that were read are gone.
            NotSupported: it is not known.
        """
        raise NotSupported(
            "reading from the beginning again",
            f"a source of {self.format}",
            "declare the edited pipeline under another name, and feed it what it needs",
        )

    def check_rebuilt(self, former: OffsetRange, rebuilt: OffsetRange) -> None:  # noqa: ARG002 - overriding methods use it
        """Check that a rebuild has read all that was read before: nothing was removed before the rebuild came to it.

        By default nothing may have been removed until its end.

        Args:
            former: what the old tables have read; it begins after the `beginning` of `check_complete`.
            rebuilt: what the new tables have read, likewise.

        Raises:
            SourceChanged: records that were read are not in the new tables.
        """
        self.check_complete(former.after, former.until)


class SourceReports(Protocol):
    """The unread input of a source and its problems, for display."""

    @abstractmethod
    def lag(self, after: Offsets | None) -> str:
        """The amount of unread input after these offsets, for display, with its unit (``3 files``, ``12 records``).

        Empty if the source cannot know it.
        """

    def held_back(self, after: Offsets | None) -> str:  # noqa: ARG002 - overriding methods use it
        """The input after these offsets that is there and cannot be read yet, and why, for display; empty if none is.

        `lag` does not count it.
        """
        return ""

    @property
    def trouble(self) -> tuple[str, ...]:
        """What the last plan left out because it cannot be read, each with the reason; all else is read meanwhile."""
        return ()

    def alarms(self, after: Offsets | None, now: Now) -> Iterable[Alarm]:  # noqa: ARG002 - overriding methods use it
        """Problems that need an operator.

        Args:
            after: the offsets of the latest epoch; None before the first.
            now: the present moment.
        """
        return ()


class Source(DeadLetterReader, RebuildCheck, SourceReports, Protocol):
    """What a pipeline reads, in epochs. Each epoch reads from one offset to another."""

    submit: Callable[[str | None, int, Any], AbstractContextManager[None]] | None = None
    """Hands over a batch of a user's Spark program (``foreachBatch``) for the next epoch; None if it cannot.

    Its arguments are the streaming query that the batch belongs to, None if the batch itself tells; the batch's number,
    which increases within a query (a batch that is published already is skipped; of an older checkpoint of the query it
    is refused); and the engine's own frame. The source has it from the call on, until the end of a block on the result.
    """

    borrow: Callable[[Source], AbstractContextManager[None]] | None = None
    """Takes a frame from the source of another engine, to which it was handed over, for an epoch inside the block.

    None if it cannot. If its rows are too many for this one, reading them is an `EngineLimit`.
    """

    push: Callable[[PushedFrame], AbstractContextManager[None]] | None = None
    """Hands over a frame of the program, for an epoch inside the block; None if the source reads itself.

    A frame whose number is published already is skipped, unless a streaming query pushes it and another one has pushed
    the frame before. If its number is not claimed, and the published frame has another id, it is an `EpochConflict`. A
    number that is not a whole one from 0 on is a `ConfigError`.
    """

    eager: bool = False
    """Whether `open` has read all rows when it returns, so that it can be called while the epoch before is computed.

    What it reads then depends on nothing but the range.
    """

    members: Mapping[str, StreamSource] = MappingProxyType({})
    """The streams that a topic group reads, by topic; else empty."""

    bulk: BulkSource | None = None
    """The table that is loaded in bulk, beside its changelog; else None."""

    def last_frame(self, after: Offsets | None) -> tuple[int, str | None]:  # noqa: ARG002 - of sources that take frames
        """The number and the id of the last frame that was handed over, at these offsets.

        The number is -1 if there is none. The id is None if it is unknown.
        """
        return -1, None

    @abstractmethod
    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:
        """The offsets that the next epoch reads, at most the configured size; None if nothing is new, or none is due.

        Args:
            after: the offsets of the latest epoch; None before the first.
            now: the moment of the plan.

        Raises:
            ConfigError: what is read does not exist.
            SourceUnavailable: a temporary fault (the broker is down).
            SourceChanged: records read before are gone or have been rewritten.
        """

    def readable(self, offsets: OffsetRange) -> bool:  # noqa: ARG002 - overriding methods use it
        """Whether an unfinished epoch can be repeated: its range can still be read, with the same rows.

        If not, the epoch is planned again, so that two reads are never mixed.
        """
        return True

    def has_uncommitted(self, after: Offsets | None) -> bool:  # noqa: ARG002 - overriding methods use it
        """Whether rows after these offsets are in transactions that are still open, so that `plan` cannot give them.

        Raises:
            SourceUnavailable: a temporary fault.
        """
        return False

    @abstractmethod
    def open(self, epoch: Epoch, offsets: OffsetRange) -> AbstractContextManager[Batch]:
        """The batch of an epoch. Inside the block each read of it returns the same rows.

        Raises:
            SourceUnavailable: a temporary fault, or what was planned has expired since: plan again.
        """


def other_kind(kind: str) -> SourceChanged:
    """The error for offsets that a source of this kind has not made."""
    return SourceChanged(
        f"the pipeline has read a source of another kind until now, and cannot continue with one of kind {kind}: name"
        " the former source, or give the pipeline another name"
    )


class StreamBounds(Protocol):
    """Where a stream begins and ends."""

    format: str
    """Format of the records, for display."""

    def beginning(self) -> Offsets | None:
        """The offsets before the oldest record that the source has now. They are recorded if nothing is read yet.

        So it is noticed if records are removed before they are read. None if a removed record cannot be noticed.

        Raises:
            ConfigError: what is read does not exist.
            SourceUnavailable: a temporary fault.
        """
        return None

    def start_at(self, given: Offsets) -> Offsets:
        """The offsets of this source that a user has written: checked, and completed where they leave something out.

        Raises:
            ConfigError: they are not offsets of this source, or the source does not reach up to them.
            SourceUnavailable: a temporary fault.
        """
        return given

    def end(self) -> Offsets | None:
        """The present end of the source; later records are planned after it. None if the source is empty.

        Raises:
            NotSupported: the source does not know its end.
            SourceUnavailable: a temporary fault.
        """
        raise NotSupported("reporting its end", f"a source of {self.format}", "give the offsets to start from")


class StreamSource(Source, StreamBounds, Protocol):
    """A stream of records. A new one needs `plan`, `read` and `lag`."""

    schema: Schema
    """Columns of the rows (`RecordSpec.rows`), without `BATCH_COLUMNS`, which are added."""

    lanes: bool = False
    """Whether several logs (Kafka partitions) are read in parallel; see `Batch`, and `batch.lane` for their origins."""

    def check_after(self, after: Offsets) -> None:  # noqa: ARG002 - overriding methods use it
        """Check that the next epoch can be planned after these offsets, as far as no network is needed to know.

        Raises:
            SourceChanged: they are those of another kind of source, or what was read is gone or has been rewritten.
        """
        return  # by default a source finds out when it plans

    @abstractmethod
    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of a range, with the columns of `Batch.rows`. Each read of a range returns the same rows."""

    def read_lean(self, offsets: OffsetRange) -> nw.LazyFrame[Any] | None:  # noqa: ARG002 - overriding methods use it
        """As `read`, with null for the ``_raw`` of each row that could be decoded; None if that saves no work."""
        return None

    @contextmanager
    def open(self, epoch: Epoch, offsets: OffsetRange) -> Iterator[Batch]:
        """The rows of a range as the batch of an epoch; see `read`."""
        self.passed_over()  # discards the counts of a try that failed
        lean = self.read_lean(offsets)
        rows, whole = (self.read(offsets), None) if lean is None else (lean, partial(self.read, offsets))
        given = (epoch, rows, offsets, self.format)
        yield Batch(*given, lanes=self.lanes, passed_over=self.passed_over, whole=whole)

    def passed_over(self) -> Mapping[str, int]:
        """The number of messages skipped since the last call because `tables` excludes their table, by table.

        Messages are counted while rows are read, so call it after an epoch's rows have been computed.
        """
        return {}
