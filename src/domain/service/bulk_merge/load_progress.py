"""The progress of a bulk load: which chunks wait, and for which position or watermark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import narwhals as nw
from attrs import define, evolve, field, frozen

from ...epoch.key_range import KeyRange, join_between, merge_ranges
from ...epoch.watermark import add, instant
from ...ledger.ledger import Snapshot
from ...ports import FrameExchange, Version
from ...source.bulk import CHUNK, SEARCH_TS, reach_of
from ...source.transactions import TRANSACTION
from ...table.change import Change
from ...table.collect import collect_small
from ...table.natural_order import natural_value, with_natural
from ..memo import Memo
from .settings import BulkMergeSettings
from .tables import DELETES_FROM, DONE, EXACT_FROM, HIGH, LOW, NAME, NEWEST, READ_ALL, ROWS, SETTLED, BulkMergeTables

Reach: TypeAlias = tuple[Any, ...]
"""A position, one value per column, with texts converted by `natural_value`. Positions compare as tuples."""
EVERYWHERE = (KeyRange(),)


@frozen
class Chunk:
    """A chunk that was read.

    Args:
        number: the chunk's number.
        key_range: the range of its first key column.
        rows: its number of rows.
        search_ts: the latest time at which its rows were read (UTC).
        reach: the position that the changelog must reach before the chunk settles; None if it has no position.
    """

    number: int
    key_range: KeyRange
    rows: int
    search_ts: datetime | None
    reach: Reach | None


@frozen
class LoadState:
    """The state of a load.

    Args:
        waiting: chunks that were read and have not settled.
        newest: the newest event time seen (UTC).
        log_position: the highest position that the changelog has reached.
        read_all: whether all chunks have been read.
        done: whether all chunks have settled.
        exact_from: the earliest event time (UTC) as of which all settled chunks are exact; None: any.
        deletes_from: the event time (UTC) after which deletes are known, if chunks came after the load was done; None:
            any.
    """

    waiting: tuple[Chunk, ...] = ()
    newest: datetime | None = None
    log_position: Reach | None = None
    read_all: bool = False
    done: bool = False
    exact_from: datetime | None = None
    deletes_from: datetime | None = None


@frozen(eq=False)
class EpochInput:
    """The input of an epoch.

    Args:
        snapshot: the newest publication.
        changes: the valid rows of the changelog; None if there are none.
        waiting: the rows that wait, after the epoch, for the rest of their transactions; None if no rows wait.
        bulk: the valid rows read in bulk; None if there are none.
        chunks: the chunks of the bulk rows.
        state: the state of the load after this batch was read, before any chunk settles.
        remaining: key ranges of the chunks that are still unread; None if unknown.
        watermark: the watermark after the epoch (UTC).
        idle: whether the source is idle, so that its watermark follows the clock.
        epoch: the number of the epoch; 0 if it has no batch.
        replay: whether the changes are replayed dead letters.
    """

    snapshot: Snapshot
    changes: nw.LazyFrame[Any] | None
    waiting: nw.LazyFrame[Any] | None
    bulk: nw.LazyFrame[Any] | None
    chunks: tuple[Chunk, ...]
    state: LoadState
    remaining: tuple[KeyRange, ...] | None
    watermark: datetime | None
    idle: bool = False
    epoch: int = 0
    replay: bool = False


@frozen
class Settlement:
    """The chunks that settle in an epoch, and the state of the load afterwards.

    Args:
        settled: chunks that become visible in this epoch.
        state: the state of the load after the epoch.
        open_ranges: key ranges of all chunks that have not settled after the epoch; all keys while a load may
            get chunks that were not known, and their images have no position.
        ranges_shrank: whether these ranges may have shrunk.
    """

    settled: tuple[Chunk, ...]
    state: LoadState
    open_ranges: tuple[KeyRange, ...]
    ranges_shrank: bool


def reach_from(values: Iterable[Any]) -> Reach | None:
    """The position made of these column values; None if one of them is null or there are no values."""
    reach = tuple(map(natural_value, values))
    return reach if reach and None not in reach else None


def highest_position(rows: nw.LazyFrame[Any], order: Sequence[str]) -> Reach | None:
    """The highest position of the rows; None if no row has one.

    Args:
        rows: the rows.
        order: the order columns, from the first to the last that is compared.
    """
    return _first_position(_placed(rows, order), order, descending=True)


def lowest_position(rows: nw.LazyFrame[Any], order: Sequence[str]) -> Reach | None:
    """The lowest position of the rows; None if it is unknown, as no row of some transaction has one.

    Args:
        rows: the rows, with their `TRANSACTION`.
        order: the order columns, from the first to the last that is compared.
    """
    placed = _placed(rows, order)
    # The mark of an end has no position, but the rows of its transaction have one.
    without = rows.filter(nw.any_horizontal(*(nw.col(name).is_null() for name in order), ignore_nulls=False))
    unknown = without.select(TRANSACTION).join(placed.select(TRANSACTION).unique(), on=TRANSACTION, how="anti")
    return None if collect_small(unknown.head(1)) else _first_position(placed, order, descending=False)


def _placed(rows: nw.LazyFrame[Any], order: Sequence[str]) -> nw.LazyFrame[Any]:
    return rows.filter(*(~nw.col(name).is_null() for name in order))


def _first_position(rows: nw.LazyFrame[Any], order: Sequence[str], *, descending: bool) -> Reach | None:
    rows, compared = with_natural(rows.select(*order), order)
    lines = collect_small(rows.sort(*compared, descending=descending).head(1))
    return reach_from(lines[0][name] for name in order) if lines else None


def numbers_of(chunks: Iterable[Chunk]) -> set[int]:
    """The numbers of the chunks."""
    return {chunk.number for chunk in chunks}


def row_count(chunks: Iterable[Chunk]) -> int:
    """The total number of rows of the chunks."""
    return sum(chunk.rows for chunk in chunks)


def within(name: str, ranges: Iterable[KeyRange]) -> nw.Expr:
    """Whether the value of a column is in one of the ranges. The column is never null."""
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
class BulkLoadProgress:
    """Reads and writes the progress of a load."""

    settings: BulkMergeSettings
    tables: BulkMergeTables
    engine: FrameExchange
    _known: Memo[tuple[Version | None, Version | None], LoadState] = field(init=False, factory=Memo)

    def read_state(self, snapshot: Snapshot) -> LoadState:
        """The state of the load at a publication."""
        load, chunks = self.tables.load.name, self.tables.chunks.name
        at = (snapshot.version(load), snapshot.version(chunks))
        if at == (None, None):
            return LoadState()
        return self._known.find(at, lambda: self._read(snapshot))  # it no longer changes once the load is done

    def advance(self, before: LoadState, newest: datetime | None, log_position: Reach | None) -> LoadState:
        """The state of the load after a batch of the changelog was read.

        Args:
            before: the state before the batch.
            newest: the newest event time of the batch (UTC).
            log_position: the highest position of the batch.
        """
        if before.done or not self.settings.follows:
            return before
        times = [each for each in (before.newest, newest) if each is not None]
        positions = [each for each in (before.log_position, log_position) if each is not None]
        return evolve(before, newest=max(times, default=None), log_position=max(positions, default=None))

    def settle(self, epoch_input: EpochInput) -> Settlement:
        """Decide which chunks settle in an epoch."""
        state, remaining = epoch_input.state, epoch_input.remaining
        if remaining is None:
            remaining = () if state.read_all else EVERYWHERE
        candidates = epoch_input.chunks if self.settings.repeatable or not self.settings.waits else ()
        settled = self.find_settling((*state.waiting, *candidates), epoch_input)
        waiting = tuple(chunk for chunk in (*state.waiting, *epoch_input.chunks) if chunk not in settled)
        exact_times = [state.exact_from, *(self._exact_from(chunk, state) for chunk in settled)]
        read_all = not remaining
        done = read_all and not waiting
        state_after = evolve(
            state,
            waiting=waiting,
            read_all=read_all,
            done=done,
            exact_from=max((each for each in exact_times if each is not None), default=None),
            deletes_from=None if done else state.deletes_from,
        )
        open_ranges = merge_ranges((*remaining, *(chunk.key_range for chunk in waiting)))
        if self.settings.grows and not self.settings.position and not done:
            open_ranges = EVERYWHERE  # by position, a deleted row stays in any case
        return Settlement(
            settled,
            state_after,
            open_ranges,
            ranges_shrank=bool(settled or epoch_input.chunks or state_after.done > state.done),
        )

    def is_exact(self, snapshot: Snapshot, remaining: tuple[KeyRange, ...], as_of: datetime | None) -> nw.Expr:
        """Whether `rows` is exact for a key, by the key's first column.

        A row that was deleted before the bulk was read is in no chunk, but was in the table at earlier times. So a key
        beside the chunks is exact only between chunks that are, or once all are.

        Args:
            snapshot: the publication at which rows are read.
            remaining: key ranges of the chunks that were not read yet at this publication.
            as_of: the event time (UTC) as of which rows are read; None for the publication itself.
        """
        exact = nw.col(SETTLED)
        if as_of is not None:
            exact = exact & (nw.col(EXACT_FROM) <= as_of).fill_null(value=True)
        chunks = snapshot.read(self.tables.chunks.name).select(LOW, HIGH, exact.alias(SETTLED))
        found: dict[bool, list[KeyRange]] = {True: [], False: list(remaining)}
        for line in collect_small(chunks):
            found[line[SETTLED]].append(KeyRange(line[LOW], line[HIGH]))
        name, inexact = self.settings.key[0], merge_ranges(found[False])
        if not inexact:
            return within(name, EVERYWHERE if snapshot.publication else ())
        return within(name, join_between(found[True], inexact)) & ~within(name, inexact)

    def changes(self, epoch_input: EpochInput, settlement: Settlement) -> dict[str, Change]:
        """The changes of the tables `chunks` and `load`."""
        changes: dict[str, Change] = {}
        if touched := tuple(dict.fromkeys((*settlement.settled, *epoch_input.chunks))):
            changes[self.tables.chunks.name] = Change(merge=self._chunk_rows(touched, settlement))
        if settlement.state != self.read_state(epoch_input.snapshot):
            changes[self.tables.load.name] = Change(merge=self._load_row(settlement.state))
        return changes

    def chunk_of(self, line: dict[str, Any]) -> Chunk:
        """Convert a row, with the columns of table `chunks`, to a chunk."""
        search_ts = line[SEARCH_TS]
        return Chunk(
            line[CHUNK], KeyRange(line[LOW], line[HIGH]), line[ROWS], _instant(search_ts), self._reach_of(line)
        )

    def _reach_of(self, line: dict[str, Any]) -> Reach | None:
        return reach_from(line[reach_of(at)] for at, _ in enumerate(self.settings.position))

    def find_settling(self, chunks: Iterable[Chunk], epoch_input: EpochInput) -> tuple[Chunk, ...]:
        """The chunks that can settle, so that their rows become visible.

        A chunk that was read after a transaction whose rows wait would show this transaction before other rows do. The
        watermark stays before all rows that wait, but the changelog's position may be beyond them.
        """
        chunks = tuple(chunks)
        reached = [chunk for chunk in chunks if self._is_reached(chunk, epoch_input)]
        if reached and epoch_input.waiting is not None:
            lowest = lowest_position(epoch_input.waiting, self.tables.order)
            reached = [chunk for chunk in reached if lowest and chunk.reach and lowest > chunk.reach]
        return tuple(chunk for chunk in chunks if chunk in reached or self._is_before(chunk, epoch_input.watermark))

    def _is_reached(self, chunk: Chunk, epoch_input: EpochInput) -> bool:
        """Whether the changelog has reached the position at which a chunk was read."""
        # If the table gets no changes, its changelog never reaches it.
        if not self.settings.waits or (epoch_input.idle and chunk.search_ts is None):
            return True
        position = epoch_input.state.log_position
        return chunk.reach is not None and position is not None and position >= chunk.reach

    def _is_before(self, chunk: Chunk, watermark: datetime | None) -> bool:
        """Whether the watermark has passed all changes from before the read of a chunk."""
        if chunk.search_ts is None or watermark is None:
            return False
        return watermark - chunk.search_ts >= self.settings.delay

    def _exact_from(self, chunk: Chunk, state: LoadState) -> datetime | None:
        """The earliest event time (UTC) as of which a chunk is exact; None: any."""
        if self.settings.follows:
            return state.newest
        return None if chunk.search_ts is None else add(chunk.search_ts, self.settings.delay)

    def _chunk_rows(self, chunks: Iterable[Chunk], settlement: Settlement) -> nw.LazyFrame[Any]:
        lines = []
        for chunk in chunks:
            settled = chunk in settlement.settled
            line = {
                CHUNK: chunk.number,
                LOW: chunk.key_range.low,
                HIGH: chunk.key_range.high,
                ROWS: chunk.rows,
                SEARCH_TS: chunk.search_ts,
                **self._reach_columns(chunk.reach),
                SETTLED: settled,
                EXACT_FROM: self._exact_from(chunk, settlement.state) if settled else None,
            }
            lines.append(line)
        return self.engine.frame(lines, self.tables.chunks.schema)

    def _load_row(self, state: LoadState) -> nw.LazyFrame[Any]:
        row = {
            NAME: "load",
            NEWEST: state.newest,
            **self._reach_columns(state.log_position),
            READ_ALL: state.read_all,
            DONE: state.done,
            EXACT_FROM: state.exact_from,
            DELETES_FROM: state.deletes_from,
        }
        return self.engine.frame([row], self.tables.load.schema)

    def _reach_columns(self, reach: Reach | None) -> dict[str, Any]:
        values = reach or (None,) * len(self.settings.position)
        return {reach_of(at): each for at, each in enumerate(values)}

    def _read(self, snapshot: Snapshot) -> LoadState:
        chunks = snapshot.read(self.tables.chunks.name).filter(~nw.col(SETTLED)).sort(CHUNK)
        waiting = tuple(self.chunk_of(line) for line in collect_small(chunks))
        lines = collect_small(snapshot.read(self.tables.load.name))
        if not lines:
            return LoadState(waiting)
        (line,) = lines
        return LoadState(
            waiting,
            _instant(line[NEWEST]),
            self._reach_of(line),
            line[READ_ALL],
            line[DONE],
            _instant(line[EXACT_FROM]),
            _instant(line[DELETES_FROM]),
        )


def _instant(moment: datetime | None) -> datetime | None:
    return None if moment is None else instant(moment)
