"""Which chunks of a table are done, which are next, and which failed and wait for another try.

Offsets stay small for any number of chunks. They hold the start of the next chunk, the few chunks that could not be
read yet, and the chunks that the epoch reads. A chunk is cut only when it is due. An epoch that is repeated finds its
chunks in its offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import starmap
from typing import Any, TypeAlias

import narwhals as nw
from attrs import define, field, frozen

from ...domain.epoch.batch import BATCH_COLUMNS
from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.epoch.key_range import KeyRange
from ...domain.source.bulk import CHUNK, SEARCH_TS, BulkSpec, reach_of
from ...domain.table.change import POSITION

Piece: TypeAlias = Any
"""The place of a chunk in its source, as JSON values; each source has its own form."""

Frontier: TypeAlias = Any
"""The start of the next chunk, as JSON values; None at the beginning."""

Cut: TypeAlias = Callable[[Frontier], "tuple[Piece, Frontier] | None"]
"""Returns the chunk that begins at a frontier and the frontier after it; None if nothing is left."""

Try: TypeAlias = Callable[[Piece], "tuple[Piece, str | None]"]
"""Returns a chunk as it is now, and the reason why it cannot be read (None if it can)."""

MOST_LEFT = 16
"""The largest number of failed chunks. No new chunk is cut after that, because the table itself cannot be read."""
CHUNK_POSITIONS = 2**52
"""The distance between the first positions of an epoch's chunks."""
EVERYWHERE = (KeyRange(),)
_LONGEST_PAUSE = 64
_MOMENT = nw.Datetime("us", "UTC")


@frozen
class Chunk:
    """A chunk: its number, counted from 0, and its place."""

    number: int
    piece: Piece


@frozen
class Progress:
    """The progress of a load, as offsets store it.

    Args:
        next: the number of the chunk that begins at the frontier.
        frontier: where that chunk begins.
        left: earlier chunks that are not done.
        reads: the chunks that the epoch ending at these offsets reads.
    """

    next: int = 0
    frontier: Frontier = None
    left: tuple[Chunk, ...] = ()
    reads: tuple[Chunk, ...] = ()

    @classmethod
    def of(cls, offsets: Offsets | None) -> Progress:
        """The progress in offsets; None: nothing is done."""
        if offsets is None:
            return cls()
        left, reads = (tuple(starmap(Chunk, offsets[name])) for name in ("left", "reads"))
        return cls(offsets["next"], offsets["frontier"], left, reads)

    @property
    def offsets(self) -> Offsets:
        """The same as offsets; ``chunks`` is the number of chunks that are done."""
        lists = {name: [[each.number, each.piece] for each in getattr(self, name)] for name in ("left", "reads")}
        return {"chunks": self.next - len(self.left), "next": self.next, "frontier": self.frontier, **lists}

    def lag(self, behind: str) -> str:
        """What waits behind the frontier, and the number of earlier chunks that are not done; see `BulkSource.lag`."""
        return ", ".join(filter(None, (behind, f"{len(self.left)} failed" if self.left else "")))


@define
class Failure:
    """Why something could not be read.

    Args:
        reason: the reason.
        pause: the number of plans until the next try; doubled at each failure.
    """

    reason: str
    pause: int = 1
    _waited: int = field(init=False, default=0)

    @classmethod
    def after(cls, former: Failure | None, reason: str) -> Failure:
        """The failure of another try, after a former one if there was one."""
        return cls(reason, min(former.pause * 2, _LONGEST_PAUSE) if former else 1)

    def pausing(self) -> bool:
        """Whether the next try is not due yet. Each plan asks once."""
        self._waited += 1
        return self._waited < self.pause


@define(eq=False)
class Chunks:
    """Plans the chunks of one table.

    Args:
        cut: cuts the next chunk.
        attempt: checks whether a chunk can be read.
        at_once: the largest number of chunks in an epoch.
        read_through: as `attempt`, but finds all damage, because it reads the chunk to its end. It is used for chunks
            that have failed before, and for all chunks after damage that `attempt` had not found. None: `attempt` finds
            all damage.
    """

    cut: Cut
    attempt: Try
    at_once: int
    read_through: Try | None = None
    _failures: dict[int, Failure] = field(init=False, factory=dict)
    _doubtful: bool = field(init=False, default=False)

    @property
    def trouble(self) -> tuple[str, ...]:
        """The chunks that could not be read when they were last tried, each with the reason."""
        return self._trouble_of(self._failures)

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """The next chunks that can be read; None if there are none."""
        so_far = Progress.of(after)
        reads: list[Chunk] = []
        left: list[Chunk] = []
        frontier, number = so_far.frontier, so_far.next
        for chunk in so_far.left:
            self._sort(chunk, reads, left, doubtful=True)
        while len(reads) < self.at_once and len(left) < MOST_LEFT:
            if (found := self.cut(frontier)) is None:
                break
            piece, frontier = found
            self._sort(Chunk(number, piece), reads, left, doubtful=self._doubtful)
            number += 1
        if not reads:
            return None
        return OffsetRange(after, Progress(number, frontier, tuple(left), tuple(reads)).offsets)

    def set_aside(self, offsets: OffsetRange) -> tuple[str, ...]:
        """Set those chunks of a range aside that cannot be read to their end; return each with the reason."""
        chunks = Progress.of(offsets.until).reads if self.read_through else ()
        failed = [chunk.number for chunk in chunks if self._try(chunk, doubtful=True) is None]
        self._doubtful = self._doubtful or bool(failed)
        return self._trouble_of(failed)

    def has_failed(self, offsets: OffsetRange) -> bool:
        """Whether a chunk of a range could not be read when it was last tried."""
        return any(chunk.number in self._failures for chunk in Progress.of(offsets.until).reads)

    def _trouble_of(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(f"chunk {number}: {self._failures[number].reason}" for number in sorted(numbers))

    def _sort(self, chunk: Chunk, reads: list[Chunk], left: list[Chunk], *, doubtful: bool) -> None:
        """Add a chunk to those that are read, or to those that wait."""
        failure = self._failures.get(chunk.number)
        waits = len(reads) >= self.at_once or (failure is not None and failure.pausing())
        found = None if waits else self._try(chunk, doubtful=doubtful)
        if found is None:
            left.append(chunk)
        else:
            reads.append(found)

    def _try(self, chunk: Chunk, *, doubtful: bool) -> Chunk | None:
        """The chunk as it is now; None if it cannot be read."""
        piece, reason = ((doubtful and self.read_through) or self.attempt)(chunk.piece)
        if reason is None:
            self._failures.pop(chunk.number, None)
            return Chunk(chunk.number, piece)
        self._failures[chunk.number] = Failure.after(self._failures.get(chunk.number), reason)
        return None


def is_due(spec: BulkSpec, watermark: datetime | None) -> bool:
    """Whether rows with one common read time could be shown now. Before that they need not be read."""
    at = spec.search_ts
    return not spec.waits or isinstance(at, str | None) or (watermark is not None and watermark >= at + spec.delay)


def of_chunk(rows: nw.LazyFrame[Any], spec: BulkSpec, number: int, at: int) -> nw.LazyFrame[Any]:
    """Rows as `BulkSource.read` returns them; their read time and positions come from their own columns.

    Args:
        rows: the rows of one chunk, with the columns of `Batch.rows`; positions are below `CHUNK_POSITIONS`.
        spec: the rows' spec.
        number: the number of the chunk.
        at: its index among the epoch's chunks.
    """
    read_at = nw.col(spec.search_ts) if isinstance(spec.search_ts, str) else nw.lit(spec.search_ts)
    positions = {POSITION: nw.col(POSITION) + at * CHUNK_POSITIONS}
    return rows.select(
        *spec.records.rows.names,
        nw.lit(number).cast(nw.Int64).alias(CHUNK),
        read_at.cast(_MOMENT).alias(SEARCH_TS),
        *(nw.col(name).alias(reach_of(place)) for place, name in enumerate(spec.position)),
        *(positions.get(name, nw.col(name)).alias(name) for name in BATCH_COLUMNS),
    )
