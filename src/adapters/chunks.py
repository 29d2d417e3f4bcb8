"""Which chunks of a table are done, which are next, and which failed and wait for another try.

Offsets stay small however many chunks there are: they tell where the next chunk begins, the few that were passed over
because they could not be read, and what the epoch itself reads. Chunks are cut one after the other when their turn
comes, and an epoch that is done again finds them in its offsets as they were cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
from attrs import define, field, frozen

from ..domain.bulk import CHUNK, SEARCH_TS, KeyRange, reach_of
from ..domain.epoch import BATCH_COLUMNS, POSITION, OffsetRange

if TYPE_CHECKING:
    from datetime import datetime

    from ..domain.bulk import BulkSpec
    from ..domain.epoch import Offsets

Piece: TypeAlias = Any
"""Where a chunk lies, in JSON values: the source's own."""

Frontier: TypeAlias = Any
"""Where the next chunk begins, in JSON values; None at the beginning."""

Cut: TypeAlias = Callable[[Frontier], "tuple[Piece, Frontier] | None"]
"""The chunk that begins at a frontier and the frontier behind it; None if there is nothing there."""

Try: TypeAlias = Callable[[Piece], "tuple[Piece, str | None]"]
"""The chunk as it is now, and why it cannot be read; None if it can."""

MOST_LEFT = 16
"""So many chunks may wait for another try; then no new ones are cut: it is the table that cannot be read."""
CHUNK_POSITIONS = 2**52
"""How far apart the positions of an epoch's chunks begin."""
EVERYWHERE = (KeyRange(),)
_LONGEST_PAUSE = 64
_MOMENT = nw.Datetime("us", "UTC")


@frozen
class Chunk:
    """A chunk by its number, counted from 0, and where it lies."""

    number: int
    piece: Piece

    @classmethod
    def all_of(cls, pairs: Any) -> tuple[Chunk, ...]:
        """Chunks as offsets have them."""
        return tuple(cls(number, piece) for number, piece in pairs)


@frozen
class Progress:
    """What offsets say.

    Args:
        next: the number of the chunk that begins at the frontier.
        frontier: where it begins.
        left: chunks before it that are not done.
        reads: those that the epoch reads which the offsets end.
    """

    next: int = 0
    frontier: Frontier = None
    left: tuple[Chunk, ...] = ()
    reads: tuple[Chunk, ...] = ()

    @classmethod
    def of(cls, offsets: Offsets | None) -> Progress:
        """What some offsets say; None: nothing is done."""
        if offsets is None:
            return cls()
        left, reads = Chunk.all_of(offsets["left"]), Chunk.all_of(offsets["reads"])
        return cls(offsets["next"], offsets["frontier"], left, reads)

    @property
    def offsets(self) -> Offsets:
        """The same as offsets; ``chunks`` is how many are done."""
        told = {name: [[each.number, each.piece] for each in getattr(self, name)] for name in ("left", "reads")}
        return {"chunks": self.next - len(self.left), "next": self.next, "frontier": self.frontier, **told}


@define
class _Failure:
    reason: str
    pause: int = 1
    """Plans until the next try; doubled at each failure."""
    waited: int = 0


@define(eq=False)
class Chunks:
    """Plans the chunks of one table.

    Args:
        cut: cuts the next one.
        attempt: looks whether one can be read.
        at_once: at most so many make an epoch.
    """

    cut: Cut
    attempt: Try
    at_once: int
    _failures: dict[int, _Failure] = field(init=False, factory=dict)

    @property
    def trouble(self) -> tuple[str, ...]:
        """The chunks that could not be read when they were last tried, each with the reason."""
        return tuple(f"chunk {number}: {each.reason}" for number, each in sorted(self._failures.items()))

    def plan(self, after: Offsets | None) -> OffsetRange | None:
        """The next chunks that can be read; None if there are none."""
        so_far = Progress.of(after)
        reads: list[Chunk] = []
        left: list[Chunk] = []
        frontier, number = so_far.frontier, so_far.next
        for chunk in so_far.left:
            self._sort(chunk, reads, left)
        while len(reads) < self.at_once and len(left) < MOST_LEFT:
            if (found := self.cut(frontier)) is None:
                break
            piece, frontier = found
            self._sort(Chunk(number, piece), reads, left)
            number += 1
        if not reads:
            return None
        return OffsetRange(after, Progress(number, frontier, tuple(left), tuple(reads)).offsets)

    def _sort(self, chunk: Chunk, reads: list[Chunk], left: list[Chunk]) -> None:
        """Put a chunk among those that are read, or those that wait."""
        if len(reads) >= self.at_once or self._pausing(chunk.number):
            left.append(chunk)
            return
        piece, reason = self.attempt(chunk.piece)
        if reason is None:
            self._failures.pop(chunk.number, None)
            reads.append(Chunk(chunk.number, piece))
            return
        known = self._failures.get(chunk.number)
        self._failures[chunk.number] = _Failure(reason, min(known.pause * 2, _LONGEST_PAUSE) if known else 1)
        left.append(chunk)

    def _pausing(self, number: int) -> bool:
        failure = self._failures.get(number)
        if failure is None:
            return False
        failure.waited += 1
        return failure.waited < failure.pause


def is_due(spec: BulkSpec, watermark: datetime | None) -> bool:
    """Whether rows that were all read at one moment could be shown: until then they may stay where they are."""
    at = spec.search_ts
    return not spec.waits or isinstance(at, str | None) or (watermark is not None and watermark >= at + spec.delay)


def of_chunk(rows: nw.LazyFrame[Any], spec: BulkSpec, number: int, at: int) -> nw.LazyFrame[Any]:
    """Rows as `BulkSource.read` gives them, when they were read and their positions being what their columns say.

    Args:
        rows: of one chunk, with the columns of `Batch.rows`; positions are below `CHUNK_POSITIONS`.
        spec: what they hold.
        number: of the chunk.
        at: its place among those of the epoch.
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
