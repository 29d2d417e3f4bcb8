"""A table read in bulk, chunk by chunk, together with the changelog of the same table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from typing import Any

import narwhals as nw
from attrs import define, field, frozen

from ..epoch.batch import Batch
from ..epoch.epoch import Epoch, OffsetRange, Offsets
from ..epoch.key_range import KeyRange
from ..errors import BadInput, HeadwaterError, SourceUnavailable, StoreUnavailable, TableDamaged
from ..ports import Alarm, BulkSource, Now, PushedFrame, Source, StreamSource
from .record_spec import RecordSpec
from .topic_group import TOPIC, join_ranges, member_range

CHUNK, SEARCH_TS = "_chunk", "_search_ts"
"""Columns of bulk rows: the number of the chunk, from 0 (bigint); the time of the read (timestamp; null: unknown)."""
CHANGELOG, BULK = "changelog", "bulk"
"""The two members: values of `TOPIC`, and keys of the offsets."""


def reach_of(at: int) -> str:
    """The column with the changelog position that must have been read before a bulk row may be shown.

    Args:
        at: the index of the position's column, from 0.
    """
    return f"_reach_{at}"


@frozen
class BulkSpec:
    """The columns of rows read in bulk, and the time of their read.

    Args:
        records: their columns: the key, the changelog columns that the table has, the position's columns, and
            `search_ts`, if the last two are columns.
        key: the columns that identify a row.
        position: the columns with a row's position in the changelog; empty if there is no common position.
        search_ts: the time when all rows were read (UTC), or the column with the time of each row; None if only the
            source knows it, or if it is unknown.
        delay: how long after its `search_ts` a row waits for earlier changes; also the age of a position of the log at
            which its changes are visible, if the source does not know that.
        waits: whether a row is shown only after the watermark has passed `search_ts` plus the delay.
    """

    records: RecordSpec
    key: tuple[str, ...]
    position: tuple[str, ...]
    search_ts: datetime | str | None
    delay: timedelta
    waits: bool = True


@define(eq=False)
class BulkGroup(Source):
    """A changelog and the bulk of its table. Each epoch reads from both.

    Rows have `TOPIC`, the columns of their member and `BATCH_COLUMNS`. `TOPIC` and `Batch.topics` distinguish the
    members. Offsets are those of each member, by its name. An epoch reads only a few chunks, so that changes never wait
    for the whole bulk.
    """

    changelog: StreamSource
    bulk: BulkSource
    format: str = field(init=False)
    reread_formats: Collection[str] = field(init=False)
    submit: Callable[[str | None, int, Any], AbstractContextManager[None]] | None = field(init=False)
    borrow: Callable[[Source], AbstractContextManager[None]] | None = field(init=False)
    push: Callable[[PushedFrame], AbstractContextManager[None]] | None = field(init=False)
    _handed_over: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        changes = self.changelog
        self.format, self.reread_formats = changes.format, changes.reread_formats
        submit, borrow, push = changes.submit, changes.borrow, changes.push
        self.submit = submit and (lambda query, batch, rows: self._holding(submit(query, batch, rows)))
        self.borrow = borrow and (lambda lender: self._holding(borrow(_changelog(lender))))
        self.push = push and (lambda frame: self._holding(push(frame)))

    @contextmanager
    def _holding(self, handed_over: AbstractContextManager[None]) -> Iterator[None]:
        """The block in which the changelog has a frame of the program."""
        with handed_over:
            self._handed_over = True
            try:
                yield
            finally:
                self._handed_over = False

    def last_frame(self, after: Offsets | None) -> tuple[int, str | None]:
        return self.changelog.last_frame((after or {}).get(CHANGELOG))

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:
        """The next range of each member; None if neither has anything to read.

        A chunk whose rows would have to wait for the watermark may be read later. A frame that is published already
        plans no chunk: its repeat changes nothing.
        """
        so_far = after or {}
        changes = self.changelog.plan(so_far.get(CHANGELOG), now)
        if changes is None and self._handed_over:
            return None
        planned = {CHANGELOG: changes, BULK: self.bulk.plan(so_far.get(BULK), now.watermark)}
        return join_ranges(after, planned, {CHANGELOG: self.changelog})

    def check_complete(self, beginning: Offsets | None, until: Offsets) -> None:
        """See `Source.check_complete`, for both members."""
        if CHANGELOG in until:
            self.changelog.check_complete((beginning or {}).get(CHANGELOG), until[CHANGELOG])
        self.bulk.check_complete(until.get(BULK))

    def check_rebuilt(self, former: OffsetRange, rebuilt: OffsetRange) -> None:
        """See `Source.check_rebuilt`, for both members; the rows of the bulk must be there until the end."""
        if CHANGELOG in former.until:
            self.changelog.check_rebuilt(member_range(former, CHANGELOG), member_range(rebuilt, CHANGELOG))
        self.bulk.check_complete(former.until.get(BULK))

    def readable(self, offsets: OffsetRange) -> bool:
        """See `Source.readable`. Chunks alone are planned again if a program may have handed over a frame since."""
        changes, chunks = _part(offsets, CHANGELOG), _part(offsets, BULK)
        again = self.push is None if changes is None else self.changelog.readable(changes)
        return again and (chunks is None or self.bulk.readable(chunks))

    def has_uncommitted(self, after: Offsets | None) -> bool:
        return self.changelog.has_uncommitted((after or {}).get(CHANGELOG))

    @contextmanager
    def open(self, epoch: Epoch, offsets: OffsetRange) -> Iterator[Batch]:
        """The rows of a range, of the members that have rows in it, and those of each member in `Batch.topics`.

        Raises:
            SourceUnavailable: a chunk cannot be read; the next plan skips it.
        """
        passed_over = self.changelog.passed_over
        passed_over()  # discards the counts of a try that failed
        found: dict[str, nw.LazyFrame[Any]] = {}
        ranges: Mapping[int, KeyRange] = {}
        if changes := _part(offsets, CHANGELOG):
            found[CHANGELOG] = self.changelog.read(changes)
        chunks = _part(offsets, BULK)
        with self._set_failing_aside(chunks):
            if chunks:
                read = self.bulk.read(chunks)
                found[BULK], ranges = read.rows, read.ranges
            members = {name: rows.with_columns(nw.lit(name).alias(TOPIC)) for name, rows in found.items()}
            yield Batch(
                epoch,
                nw.concat(list(members.values()), how="diagonal"),
                offsets,
                self.format,
                topics=members,
                remaining=self.bulk.remaining(offsets.until.get(BULK)),
                ranges=ranges,
                passed_over=passed_over,
            )

    @contextmanager
    def _set_failing_aside(self, chunks: OffsetRange | None) -> Iterator[None]:
        """Let the next plan skip chunks that cannot be read, however late in the epoch that is noticed."""
        try:
            yield
        except Exception as error:
            if chunks is None or not _may_be_damage(error) or not (found := self.bulk.set_aside(chunks)):
                raise
            problem = "; ".join(found)
            raise SourceUnavailable(f"{problem}; replace the file: meanwhile the other chunks are read") from error

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Read dead letters of the changelog again; the format of the bulk's is not in `reread_formats`."""
        return self.changelog.reread(letters).with_columns(nw.lit(CHANGELOG).alias(TOPIC))

    def lag(self, after: Offsets | None) -> str:
        so_far = after or {}
        chunks = self.bulk.lag(so_far.get(BULK))
        changes = self.changelog.lag(so_far.get(CHANGELOG))
        return ", ".join(filter(None, (changes, f"bulk: {chunks}" if chunks else "")))

    def held_back(self, after: Offsets | None) -> str:
        return self.changelog.held_back((after or {}).get(CHANGELOG))

    def alarms(self, after: Offsets | None, now: Now) -> Iterable[Alarm]:
        """The chunks that cannot be read."""
        return map(Alarm, self.bulk.find_trouble((after or {}).get(BULK), now.watermark))

    @property
    def trouble(self) -> tuple[str, ...]:
        return self.bulk.trouble


def _changelog(source: Source) -> StreamSource:
    """The changelog of a source that is such a group, too."""
    assert isinstance(source, BulkGroup)
    return source.changelog


def _may_be_damage(error: Exception) -> bool:
    """Whether an error may be about a damaged file.

    Spark's are translated further out, and its own reader does not tell files that are read from those of tables.
    """
    return not isinstance(error, HeadwaterError) or isinstance(error, (BadInput, StoreUnavailable, TableDamaged))


def _part(offsets: OffsetRange, member: str) -> OffsetRange | None:
    """The range of one member; None if nothing of it is read."""
    before, until = (offsets.after or {}).get(member), offsets.until.get(member)
    return None if until is None or until == before else OffsetRange(before, until)
