"""Frames that a program hands over, one an epoch: their numbers, and the rows of those that are in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from attrs import define, evolve, field, frozen

from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.errors import EpochConflict, NotSupported, SourceChanged
from ...domain.ports import Now, PushedFrame, Source, StreamSource, other_kind
from ...domain.source.record_spec import RecordSpec
from ...domain.table.schema import Schema
from .arrow_table import arrow_table
from .column_types import check_columns
from .decoder import ROWS_A_BATCH
from .program_frames import WHAT, QueryBatch, is_lazy, query_batch, whole_number
from .typed_rows import decode_rows

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)

BY_HAND = "by hand"
"""The query of batches whose query is not known: their function was not called in the thread of a query."""
_PUSHED = "push"
"""The query of frames that are pushed, which belong to no query of Spark."""
_KIND = "a source of kind stream"


@frozen(eq=False)
class ProgramFrame:
    """A frame that a program has handed over.

    Args:
        query: the streaming query that it belongs to; "push" if the program has pushed it.
        number: of the frame within the query; None for the next one.
        rows: the frame.
        attempt: tells one try to read it from another; None before it is planned. Its rows may differ if it is handed
            over or computed again: it may have random values or the present time.
        batch: the batch of a streaming query whose function hands it over; None if there is none, or it is unknown.
        id: see `PushedFrame`; None if it is not pushed.
        claimed: see `PushedFrame`.
    """

    query: str
    number: int | None
    rows: Any
    attempt: str | None = None
    batch: QueryBatch | None = None
    id: str | None = None
    claimed: bool = True

    @property
    def offsets(self) -> Mapping[str, Any]:
        more: dict[str, Any] = {"attempt": self.attempt, "within": self.within, "frame": self.id}
        if self.batch:
            more |= {"spark_batch": self.batch.number, "planned": self.batch.planned}
        known = {name: each for name, each in more.items() if each is not None}
        return {"query": self.query, "batch": self.number} | known

    @property
    def within(self) -> str | None:
        """The query whose function pushes it; empty if a program pushes it outside of one, None if it is not pushed."""
        if self.query != _PUSHED:
            return None
        return self.batch.query if self.batch else ""

    @property
    def what(self) -> str:
        """Names the frame, for messages."""
        return WHAT if self.query == _PUSHED else "the frame of the query"

    @property
    def origin(self) -> str:
        """Where its rows come from, as dead letters tell it."""
        return f"{self.query}/{self.number}"


@frozen(eq=False)
class LentRows:
    """The rows of a frame that another engine holds.

    Args:
        collect: returns the rows of a frame whose rows these are, as batches of `batch_schema`.
    """

    collect: Callable[[ProgramFrame], Iterator[pa.RecordBatch]]


@define(eq=False)
class ProgramSource(StreamSource):
    """The source of a pipeline that a program feeds. A frame whose number is in the tables already is skipped."""

    spec: RecordSpec
    schema: Schema = field(init=False)
    format: str = field(init=False)
    reread_formats: Collection[str] = field(init=False)
    _frame: ProgramFrame | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.schema, self.format, self.reread_formats = self.spec.rows, self.spec.format, self.spec.reread_formats

    @contextmanager
    def push(self, frame: PushedFrame) -> Iterator[None]:
        number = None if frame.number is None else whole_number(frame.number)
        batch = query_batch(frame.rows)
        self._frame = ProgramFrame(_PUSHED, number, frame.rows, batch=batch, id=frame.id, claimed=frame.claimed)
        with self.holding():
            yield

    @contextmanager
    def holding(self) -> Iterator[None]:
        """A block at whose end the frame that the program has handed over is dropped."""
        try:
            yield
        finally:
            self.forget()

    def borrow(self, lender: Source) -> AbstractContextManager[None]:
        """See `Source.borrow`."""
        assert isinstance(lender, ProgramSource)
        self._frame = lender.lend()
        return self.holding()

    def lend(self) -> ProgramFrame:
        """The frame that the program has handed over, for the source of another engine; see `Source.borrow`."""
        assert self._frame is not None
        return self._frame

    def forget(self) -> None:
        """Drop the frame that the program has handed over; its epoch is done, or has failed."""
        self._frame = None

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:  # noqa: ARG002 - the port's
        """The frame that the program has handed over; None if there is none, or its epoch is published.

        Raises:
            EpochConflict: the number is not claimed, and another program has published it, or a later one.
            SourceChanged: the frame before belongs to another query: the query's checkpoint is new, or a program has
                changed from pushing to a query. Or a query pushes a number that was pushed, and not by this query. Or a
                query has gone back to an older checkpoint.
        """
        last, id_ = self.last_frame(after)
        if (frame := self._frame) is None:
            return None
        if after and after["query"] != frame.query:
            raise _changed(frame, after["query"])
        number = last + 1 if frame.number is None else frame.number
        if after and number <= last:
            if frame.within:
                _check_pusher(number, frame.within, after)
            if frame.batch:
                _check_newest(frame.batch, after)
            if not frame.claimed and (last, id_) != (number, frame.id):
                raise _of_another(number, last)
            return None
        self._frame = evolve(frame, number=number, attempt=uuid4().hex)
        return OffsetRange(after, self._frame.offsets)

    def last_frame(self, after: Offsets | None) -> tuple[int, str | None]:
        if not after:
            return -1, None
        self.check_after(after)
        return int(after["batch"]), after.get("frame")

    def check_after(self, after: Offsets) -> None:
        if not isinstance(after.get("query"), str):
            raise other_kind("stream")

    def readable(self, offsets: OffsetRange) -> bool:
        """Whether the frame of an unfinished epoch is here, with the same rows: it was planned so, and is in memory.

        Raises:
            SourceChanged: the query has gone on without repeating the batch of the unfinished epoch.
        """
        frame = self._frame
        if frame is None:
            return False
        _check_repeats(frame, offsets.until)
        is_here = not is_lazy(frame.rows) and not isinstance(frame.rows, LentRows)
        return bool(frame.attempt) and frame.offsets == offsets.until and is_here

    def check_complete(self, beginning: Offsets | None, until: Offsets) -> None:  # noqa: ARG002 - the port's
        """Its program has handed over the frames, so they cannot be read again.

        Raises:
            NotSupported: always.
        """
        remedy = "declare the edited pipeline under another name, and let its program hand over the rows again"
        raise NotSupported("reading from the beginning again", _KIND, remedy)

    def end(self) -> Offsets | None:
        """Unknown: only the program knows what comes next.

        Raises:
            NotSupported: always.
        """
        raise NotSupported("reporting its end", _KIND, "let its program say where it starts")

    def lag(self, after: Offsets | None) -> str:  # noqa: ARG002 - the port's
        """Empty: only the program knows what comes next."""
        return ""

    def frame_of(self, offsets: OffsetRange) -> ProgramFrame:
        """The frame of a range, which `plan` has returned."""
        frame = self._frame
        assert frame is not None
        assert frame.offsets == offsets.until
        return frame

    def decode(self, frame: ProgramFrame) -> Iterator[pa.RecordBatch]:
        """The rows of a frame in memory, as batches of `batch_schema`.

        Raises:
            BadInput: a declared column is missing, or its type could lose values.
        """
        table, first = arrow_table(frame.rows, self.spec.schema), 0
        check_columns(table.schema, WHAT, self.spec)
        for batch in table.select(self.spec.schema.names).combine_chunks().to_batches(ROWS_A_BATCH):
            yield decode_rows(batch, self.spec, first, what=WHAT, origin=frame.origin).batch
            first += batch.num_rows


def _check_repeats(frame: ProgramFrame, begun: Offsets) -> None:
    """Check that a query repeats the batch that it has begun; pushes may leave out numbers."""
    if frame.query == begun.get("query") != _PUSHED and int(begun["batch"]) < (frame.number or 0):
        raise SourceChanged(
            f"query {frame.query} hands over batch {frame.number}, but batch {begun['batch']} has failed, and was not"
            " repeated: let your function pass the error on, and start the query again, which repeats that batch"
        )


def _check_newest(batch: QueryBatch, after: Offsets) -> None:
    """Check that a query hands over a number again only from its newest batch: Spark repeats no other one.

    A batch that was planned at another time has other rows. Versions that did not record the batch have left that open.
    """
    newest, times = after.get("spark_batch", -1), {after.get("planned"), batch.planned} - {None}
    planned_again = batch.number == newest and len(times) > 1
    if batch.number < newest or planned_again:
        again = f"has planned batch {newest} a second time" if planned_again else f"goes back to batch {batch.number}"
        raise SourceChanged(
            f"query {batch.query} {again}, but the tables have its batches up to {newest}: it continues from an"
            " older checkpoint, and its batches have other rows under the same numbers. Give the query its newest"
            " checkpoint back. If that is lost, declare the pipeline under another name, and start a query with a new"
            " checkpoint"
        )


def _of_another(number: int, last: int) -> EpochConflict:
    return EpochConflict(
        f"the tables have frame {last}, which another program or another object has pushed since the push of frame"
        f" {number} began; nothing was changed. Let one program at a time push to a source"
    )


def _changed(frame: ProgramFrame, before: str) -> SourceChanged:
    if _PUSHED in {frame.query, before}:
        pushes = frame.query == _PUSHED
        now, then = ("pushed", f"a batch of query {before}") if pushes else ("a batch of a query", "pushed")
        return SourceChanged(
            f"this frame is {now}, and the one before it was {then}: their numbers cannot be compared, so it is"
            " unknown which rows the tables have already. Go on as before, or start another pipeline"
        )
    if BY_HAND in {frame.query, before}:
        now, then = ("no known query" if each == BY_HAND else f"query {each}" for each in (frame.query, before))
        return SourceChanged(
            f"batch {frame.number} comes from {now}, the batch before it from {then}: it is unknown which rows the"
            " tables have already. The query is known only in the thread in which Spark calls its function: call the"
            " function of `foreach_batch` in that thread, not in one of your own"
        )
    return SourceChanged(
        f"batch {frame.number} comes from query {frame.query}, the batch before it from {before}: it is unknown"
        " which rows the tables have already. Give the query its old checkpoint back, or read the source"
        " through Headwater, which needs no checkpoint"
    )


def _check_pusher(number: int, query: str, after: Offsets) -> None:
    """Check that a query repeats its own number; versions that did not record who pushes have left that open."""
    if "within" not in after:
        _log.warning(
            "query %s pushes number %s, which is skipped as a repeat: numbers up to %s were pushed with an earlier"
            " version of Headwater, which did not record by whom. If this query has not pushed it before, its rows are"
            " missing: give it its old checkpoint back, or let it push with number=batch + %s",
            query,
            number,
            after["batch"],
            int(after["batch"]) + 1,
        )
    elif query != after["within"]:
        raise _begun_again(number, query, after)


def _begun_again(number: int, query: str, after: Offsets) -> SourceChanged:
    last = int(after["batch"])
    if before := after.get("within"):
        return SourceChanged(
            f"query {query} pushes number {number}, which query {before} has pushed: the numbers of a query with a new"
            " checkpoint begin again, so it is unknown which rows the tables have already. Give the query its old"
            " checkpoint back, or read the source through Headwater, which needs no checkpoint"
        )
    return SourceChanged(
        f"query {query} pushes number {number}, but frames up to {last} were pushed, and not by this query: it is"
        f" unknown whether the tables have its rows. If they do not, let it push with number=batch + {last + 1}"
    )
