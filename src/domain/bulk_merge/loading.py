"""How far a bulk load has come: which chunks wait, and for what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
from attrs import define, evolve, field, frozen

from ..bulk import CHUNK, SEARCH_TS, KeyRange, merged, reach_of
from ..change import Change
from ..collect import collect_small
from ..natural_order import natural_value
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
"""A position, column by column, texts as `natural_value` gives them: so positions compare as tuples do."""
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


@frozen(eq=False)
class Brought:
    """What an epoch has to go by.

    Args:
        snapshot: the newest publication.
        changes: rows of the changelog that can be used; None if there are none.
        bulk: rows read in bulk that can be used; None if there are none.
        read: their chunks.
        standing: how far the load has come with this batch, what it settles aside.
        remaining: ranges that chunks yet to be read may hold; None where that is not told.
        watermark: after the epoch (UTC).
        idle: nothing came for so long that the watermark follows the clock.
    """

    snapshot: Snapshot
    changes: nw.LazyFrame[Any] | None
    bulk: nw.LazyFrame[Any] | None
    read: tuple[Chunk, ...]
    standing: Standing
    remaining: tuple[KeyRange, ...] | None
    watermark: datetime | None
    idle: bool = False


@frozen
class Settling:
    """What settles in an epoch.

    Args:
        shown: chunks that show now.
        standing: how far the load has come then.
        held: ranges in which chunks that have not settled then may hold keys.
        frees: whether these have become fewer.
    """

    shown: tuple[Chunk, ...]
    standing: Standing
    held: tuple[KeyRange, ...]
    frees: bool


def reach_from(values: Iterable[Any]) -> Reach | None:
    """The position of some values, column by column; None where one is null, or there are none."""
    reach = tuple(map(natural_value, values))
    return reach if reach and None not in reach else None


def numbers(chunks: Iterable[Chunk]) -> set[int]:
    """The numbers of chunks."""
    return {chunk.number for chunk in chunks}


def row_count(chunks: Iterable[Chunk]) -> int:
    """How many rows chunks have, all together."""
    return sum(chunk.rows for chunk in chunks)


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

    def met(self, snapshot: Snapshot, newest: datetime | None, reached: Reach | None) -> Standing:
        """How far the load has come with what a batch of the changelog brought.

        Args:
            snapshot: the newest publication before it.
            newest: the newest event time of the batch (UTC).
            reached: its highest position.
        """
        before = self.standing(snapshot)
        if before.done or not self._follows:
            return before
        times = [each for each in (before.newest, newest) if each is not None]
        places = [each for each in (before.reached, reached) if each is not None]
        return evolve(before, newest=max(times, default=None), reached=max(places, default=None))

    def settling(self, brought: Brought) -> Settling:
        """What settles in an epoch."""
        standing, remaining = brought.standing, brought.remaining
        if remaining is None:
            remaining = () if standing.read_all else EVERYWHERE
        at_once = brought.read if self.settings.repeatable or not self.settings.waits else ()
        shown = tuple(chunk for chunk in (*standing.waiting, *at_once) if self._due(chunk, brought))
        waiting = tuple(chunk for chunk in (*standing.waiting, *brought.read) if chunk not in shown)
        from_when = [standing.exact_from, *(self._exact_from(chunk, standing) for chunk in shown)]
        read_all = not remaining
        then = evolve(
            standing,
            waiting=waiting,
            read_all=read_all,
            done=read_all and not waiting,
            exact_from=max((each for each in from_when if each is not None), default=None),
        )
        held = merged((*remaining, *(chunk.held for chunk in waiting)))
        return Settling(shown, then, held, frees=bool(shown or brought.read or then.done > standing.done))

    def unsettled(
        self, snapshot: Snapshot, remaining: tuple[KeyRange, ...], as_of: datetime | None
    ) -> tuple[KeyRange, ...]:
        """Ranges of the first key column that are not exact at a publication, as of an event time where one is given.

        Args:
            snapshot: the publication.
            remaining: what chunks that had not been read by then may hold.
            as_of: the event time (UTC).
        """
        chunks = snapshot.read(self.tables.chunks.name)
        wrong = ~nw.col(SETTLED)
        if as_of is not None:
            wrong = wrong | (nw.col(EXACT_FROM) > as_of).fill_null(value=False)
        lines = collect_small(chunks.filter(wrong).select(LOW, HIGH))
        return merged((*remaining, *(KeyRange(line[LOW], line[HIGH]) for line in lines)))

    def changes(self, brought: Brought, settling: Settling) -> dict[str, Change]:
        """What becomes of the books of the load."""
        one = brought.snapshot.store.read(self.tables.chunks.name, None).select(nw.len())
        changes: dict[str, Change] = {}
        if told := tuple(dict.fromkeys((*settling.shown, *brought.read))):
            changes[self.tables.chunks.name] = Change(merge=self._chunk_rows(one, told, settling))
        if settling.standing != self.standing(brought.snapshot):
            changes[self.tables.load.name] = Change(merge=self._load_row(one, settling.standing))
        return changes

    def chunk_of(self, line: dict[str, Any]) -> Chunk:
        """A chunk from a row of columns named as in the table."""
        search_ts = line[SEARCH_TS]
        return Chunk(
            line[CHUNK],
            KeyRange(line[LOW], line[HIGH]),
            line[ROWS],
            None if search_ts is None else instant(search_ts),
            self._reach_of(line),
        )

    def _reach_of(self, line: dict[str, Any]) -> Reach | None:
        return reach_from(line[reach_of(at)] for at, _ in enumerate(self.settings.position))

    def _due(self, chunk: Chunk, brought: Brought) -> bool:
        """Whether a chunk's rows may show."""
        standing, watermark = brought.standing, brought.watermark
        # Of a table that rests, the changelog never brings the position that a chunk was read at.
        if not self.settings.waits or (brought.idle and chunk.search_ts is None):
            return True
        if chunk.reach is not None and standing.reached is not None and standing.reached >= chunk.reach:
            return True
        if chunk.search_ts is None or watermark is None:
            return False
        return watermark >= chunk.search_ts + self.settings.delay

    def _exact_from(self, chunk: Chunk, standing: Standing) -> datetime | None:
        """From when on what a chunk holds can be told as of an event time.

        Args:
            chunk: that shows now.
            standing: how far the changelog has come.
        """
        if self._follows:
            return standing.newest
        return None if chunk.search_ts is None else chunk.search_ts + self.settings.delay

    @property
    def _follows(self) -> bool:
        """Whether chunks are exact from where the changelog stands when they show, not from when they were read.

        By position, only the log tells that moment. Where changes do not bring the images that they replace, those of
        before cannot be told.
        """
        return bool(self.settings.position) or not self.settings.tells_before

    def _chunk_rows(self, one: nw.LazyFrame[Any], chunks: Iterable[Chunk], settling: Settling) -> nw.LazyFrame[Any]:
        """Rows of the table of chunks, made of any frame of one row, since a frame comes from nowhere else."""
        lines = []
        for chunk in chunks:
            settled = chunk in settling.shown
            line = {
                CHUNK: chunk.number,
                LOW: chunk.held.low,
                HIGH: chunk.held.high,
                ROWS: chunk.rows,
                SEARCH_TS: chunk.search_ts,
                **self._places(chunk.reach),
                SETTLED: settled,
                EXACT_FROM: self._exact_from(chunk, settling.standing) if settled else None,
            }
            lines.append(line)
        return _rows(one, lines, self.tables.chunks.schema)

    def _load_row(self, one: nw.LazyFrame[Any], standing: Standing) -> nw.LazyFrame[Any]:
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
        newest, exact_from = line[NEWEST], line[EXACT_FROM]
        return Standing(
            waiting,
            None if newest is None else instant(newest),
            self._reach_of(line),
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
