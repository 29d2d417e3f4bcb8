"""How far a bulk load has come: which chunks wait, and for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
from attrs import define, evolve, field, frozen

from ..bulk import CHUNK, SEARCH_TS, KeyRange, reach_of
from ..collect import collect_small
from ..watermark import instant
from .tables import DONE, EXACT_FROM, HIGH, LOW, NAME, NEWEST, READ_ALL, ROWS, SETTLED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from ..ledger import Snapshot
    from ..ports import Version
    from ..schema import Schema
    from .settings import BulkMergeSettings
    from .tables import BulkMergeTables

Reach: TypeAlias = tuple[Any, ...]
"""A position, column by column."""
EVERYWHERE = (KeyRange(),)


@frozen
class Chunk:
    """A chunk that was read.

    Args:
        number: which.
        held: the range of its first key column.
        rows: how many it has.
        search_ts: when it was read, at the latest (UTC).
        reach: the position that the changelog must have come up to; None where there is none.
    """

    number: int
    held: KeyRange
    rows: int
    search_ts: datetime | None
    reach: Reach | None


@frozen
class Standing:
    """How far a load has come.

    Args:
        waiting: chunks that were read and have not settled.
        newest: the newest event time seen (UTC).
        reached: the position that the changelog has come up to.
        read_all: whether no chunk is left to be read.
        done: whether all chunks have settled.
        exact_from: the earliest event time (UTC) as of which all that has settled can be told; None: any.
    """

    waiting: tuple[Chunk, ...] = ()
    newest: datetime | None = None
    reached: Reach | None = None
    read_all: bool = False
    done: bool = False
    exact_from: datetime | None = None

    def after(self, newest: datetime | None, reached: Reach | None) -> Standing:
        """The same with what a batch of the changelog brought."""
        times = [each for each in (self.newest, newest) if each is not None]
        places = [each for each in (self.reached, reached) if each is not None]
        return evolve(self, newest=max(times, default=None), reached=max(places, default=None))

    def held(self, remaining: tuple[KeyRange, ...]) -> tuple[KeyRange, ...]:
        """Ranges in which chunks that have not settled may hold keys."""
        return (*remaining, *(chunk.held for chunk in self.waiting))


def within(name: str, ranges: Iterable[KeyRange]) -> nw.Expr:
    """Whether a column that is never null lies in one of some ranges."""
    inside = nw.col(name).is_null()
    for each in ranges:
        here = ~nw.col(name).is_null()
        if each.low is not None:
            here = here & (nw.col(name) >= each.low)
        if each.high is not None:
            here = here & (nw.col(name) <= each.high)
        inside = inside | here
    return inside


@define(eq=False)
class Loading:
    """Reads and writes how far a load has come.

    Args:
        settings: of the pipeline.
        tables: of the pipeline.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    _known: dict[tuple[Version | None, Version | None], Standing] = field(init=False, factory=dict)

    def standing(self, snapshot: Snapshot) -> Standing:
        """How far the load had come at a publication."""
        load, chunks = self.tables.load.name, self.tables.chunks.name
        at = (snapshot.version(load), snapshot.version(chunks))
        if at == (None, None):
            return Standing()
        if at not in self._known:  # asked in every epoch, and the same in all once the load is done
            self._known.clear()
            self._known[at] = self._read(snapshot)
        return self._known[at]

    def due(self, chunk: Chunk, standing: Standing, watermark: datetime | None, *, idle: bool) -> bool:
        """Whether a chunk's rows may show.

        Args:
            chunk: which.
            standing: how far the changelog has come.
            watermark: of the changelog (UTC).
            idle: it has brought nothing for so long that it is taken to be complete up to the watermark: of a table
                that rests, it never brings the position that a chunk was read at.
        """
        if not self.settings.waits or (idle and chunk.search_ts is None):
            return True
        if chunk.reach is not None and standing.reached is not None and standing.reached >= chunk.reach:
            return True
        if chunk.search_ts is None or watermark is None:
            return False
        return watermark >= chunk.search_ts + self.settings.delay

    def exact_from(self, chunk: Chunk, standing: Standing) -> datetime | None:
        """From when on what a chunk holds can be told as of an event time.

        Args:
            chunk: that shows now.
            standing: how far the changelog has come.
        """
        if self.follows:
            return standing.newest
        return None if chunk.search_ts is None else chunk.search_ts + self.settings.delay

    @property
    def follows(self) -> bool:
        """Whether chunks are exact from where the changelog stands when they show, not from when they were read.

        By position, only the log tells that moment. Where changes do not bring the images that they replace, those of
        before cannot be told.
        """
        return bool(self.settings.position) or not self.settings.tells_before

    def chunk_of(self, line: dict[str, Any]) -> Chunk:
        """A chunk from a row of columns named as in the table."""
        reach = tuple(line[reach_of(at)] for at, _ in enumerate(self.settings.position))
        search_ts = line[SEARCH_TS]
        return Chunk(
            line[CHUNK],
            KeyRange(line[LOW], line[HIGH]),
            line[ROWS],
            None if search_ts is None else instant(search_ts),
            reach if reach and None not in reach else None,
        )

    def chunk_rows(
        self, one: nw.LazyFrame[Any], chunks: Iterable[tuple[Chunk, bool, datetime | None]]
    ) -> nw.LazyFrame[Any]:
        """Rows of the table of chunks: of each chunk whether it has settled, and from when on it is exact.

        Args:
            one: any frame of one row, since a frame comes from nowhere else.
            chunks: what is to be told.
        """
        return _rows(
            one,
            [
                {
                    CHUNK: chunk.number,
                    LOW: chunk.held.low,
                    HIGH: chunk.held.high,
                    ROWS: chunk.rows,
                    SEARCH_TS: chunk.search_ts,
                    **self._places(chunk.reach),
                    SETTLED: settled,
                    EXACT_FROM: exact_from,
                }
                for chunk, settled, exact_from in chunks
            ],
            self.tables.chunks.schema,
        )

    def load_row(self, one: nw.LazyFrame[Any], standing: Standing) -> nw.LazyFrame[Any]:
        """The row that says how far the load has come, made of any frame of one row."""
        row = {
            NAME: "load",
            NEWEST: standing.newest,
            **self._places(standing.reached),
            READ_ALL: standing.read_all,
            DONE: standing.done,
            EXACT_FROM: standing.exact_from,
        }
        return _rows(one, [row], self.tables.load.schema)

    def _places(self, reach: Reach | None) -> dict[str, Any]:
        places = reach or (None,) * len(self.settings.position)
        return {reach_of(at): each for at, each in enumerate(places)}

    def _read(self, snapshot: Snapshot) -> Standing:
        chunks = snapshot.read(self.tables.chunks.name).filter(~nw.col(SETTLED)).sort(CHUNK)
        waiting = tuple(self.chunk_of(line) for line in collect_small(chunks))
        lines = collect_small(snapshot.read(self.tables.load.name))
        if not lines:
            return Standing(waiting)
        (line,) = lines
        reached = tuple(line[reach_of(at)] for at, _ in enumerate(self.settings.position))
        newest, exact_from = line[NEWEST], line[EXACT_FROM]
        return Standing(
            waiting,
            None if newest is None else instant(newest),
            reached if reached and None not in reached else None,
            line[READ_ALL],
            line[DONE],
            None if exact_from is None else instant(exact_from),
        )


def _rows(one: nw.LazyFrame[Any], lines: list[dict[str, Any]], schema: Schema) -> nw.LazyFrame[Any]:
    return nw.concat(
        [
            one.select(nw.lit(line[each.name]).cast(each.type.narwhals).alias(each.name) for each in schema.columns)
            for line in lines
        ]
    )
