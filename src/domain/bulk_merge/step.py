"""What an epoch does to the tables of a bulk merge."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import evolve, frozen

from .. import dead_letter
from ..bulk import CHUNK, SEARCH_TS, reach_of
from ..change import Change, Matching
from ..collect import collect_small
from ..epoch import ERROR
from ..natural_order import with_natural
from ..service import Step
from ..transactions import AT, COMMIT_TIME, is_mark
from ..watermark import advance, newest_of
from .loading import Brought, reach_from
from .tables import HIGH, LOW, ROWS

if TYPE_CHECKING:
    from datetime import datetime

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from .counting import Counted, Counting
    from .events import Events
    from .history import History
    from .loading import Chunk, Loading, Reach
    from .merging import Merging
    from .settings import BulkMergeSettings
    from .tables import BulkMergeTables

BULK_FORMAT = "bulk"
"""What dead letters name as the format of bulk rows, which cannot be read again from them."""
_DEAD, _MARK, _COUNT = "_dead", "_mark", "_count"
_INSTANT = timedelta(microseconds=1)
_IDLE = timedelta(seconds=10)
"""How far the watermark of an idle changelog moves at least, once nothing but the answer as of a time depends on it."""


@frozen
class _Profile:
    """The little of a batch that planning needs to know."""

    rows: int = 0
    dead_letters: int = 0
    newest: datetime | None = None
    chunks: tuple[Chunk, ...] = ()


@frozen(eq=False)
class BulkMergeStep:
    """The step of one bulk merge: changes and bulk rows meet in the newest image of each key.

    Args:
        settings, tables: of the pipeline.
        events: reads its batches.
        counting: keeps rows back until their transactions are whole.
        loading: how far its load has come.
        merging: makes the newest images.
        history: keeps what changes took and brought; None where rows cannot be told as of an event time.
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    events: Events
    counting: Counting
    loading: Loading
    merging: Merging
    history: History | None
    engine: FrameEngine

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """See `Service.step`."""
        changes, bulk = self.events.changes(batch), self.events.bulk(batch)  # a chunk is large, and cheap to read twice
        changes = None if changes is None else self.engine.persist(changes)
        counted = None if changes is None else self.counting.counted(changes, batch, snapshot)
        profile = self._profile(changes, bulk)
        self.engine.expect(profile.rows)
        done: dict[str, Change] = {}
        if profile.dead_letters:
            done[self.tables.letters.name] = Change(append=self._letters(batch, changes, bulk))
        if counted is not None:
            done[self.tables.pending.name] = counted.pending
        watermark = self._watermark(snapshot, profile.newest, counted.oldest if counted else None)
        brought = Brought(
            snapshot,
            None if counted is None else counted.rows,
            None if bulk is None else bulk.filter(nw.col(ERROR).is_null()),
            tuple(evolve(chunk, held=batch.ranges.get(chunk.number, chunk.held)) for chunk in profile.chunks),
            self.loading.met(snapshot, profile.newest, self._reached(changes, counted, snapshot)),
            batch.remaining,
            watermark,
        )
        return Step(done | self._work(brought), profile.rows, profile.dead_letters, None, watermark=watermark)

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:
        """See `Service.idle`: chunks settle, and those that wait unread for the watermark become due."""
        so_far = snapshot.publication.watermark if snapshot.publication else None
        if oldest := self.counting.oldest(snapshot):
            until = min(until, oldest - _INSTANT)
        if not self.settings.waits or (so_far is not None and until <= so_far):
            return None
        standing = self.loading.standing(snapshot)
        if standing.done and so_far is not None and until < so_far + _IDLE:
            return None
        brought = Brought(snapshot, None, None, (), standing, None, until, idle=True)
        return Step(self._work(brought), 0, 0, None, watermark=until)

    def _watermark(self, snapshot: Snapshot, newest: datetime | None, oldest: datetime | None) -> datetime | None:
        """The watermark after an epoch: before the commit of any transaction of which rows wait.

        Args:
            snapshot: the newest publication.
            newest: the newest event time of the batch (UTC).
            oldest: the earliest commit time of rows that wait (UTC).
        """
        so_far, delay = snapshot.publication.watermark if snapshot.publication else None, self.settings.watermark_delay
        if newest is not None and oldest is not None:
            newest = min(newest, oldest - _INSTANT + delay)
        return advance(so_far, newest, delay)

    def _work(self, brought: Brought) -> dict[str, Change]:
        """What an epoch does beside dead letters."""
        settling = self.loading.settling(brought)
        changes, forgotten = self.loading.changes(brought, settling), None
        if self.history:
            changes[self.tables.recent.name], forgotten = self._told(brought, self.history)
        changes |= self.merging.changes(brought, settling, forgotten)
        return {table: change for table, change in changes.items() if not change.empty}

    def _told(self, brought: Brought, history: History) -> tuple[Change, nw.LazyFrame[Any] | None]:
        """What becomes of the undo log, and keys of rows that are gone and that it has passed."""
        snapshot, filed = brought.snapshot, None
        if brought.changes is not None:
            stored = None
            if not self.settings.tells_before:
                keys = brought.changes.select(*self.settings.key).unique()
                stored = snapshot.read(self.tables.current.name, Matching(keys))
            filed = history.filed(self.events.told(brought.changes, stored), brought.watermark)
        passed = history.passed(snapshot, brought.watermark) if self.loading.standing(snapshot).done else None
        if passed is None:
            return Change(append=filed), None
        forgotten = history.forgotten(passed, snapshot) if self.merging.lingers else None
        return Change(append=filed, delete=passed.select(*self.tables.recent.key)), forgotten

    def _profile(self, changes: nw.LazyFrame[Any] | None, bulk: nw.LazyFrame[Any] | None) -> _Profile:
        profile = _Profile() if changes is None else self._profile_of_changes(changes)
        if bulk is None:
            return profile
        reaches = [reach_of(at) for at, _ in enumerate(self.settings.position)]
        flagged, compared = with_natural(_flagged(bulk), reaches)
        summed = flagged.group_by(_DEAD, CHUNK).agg(
            nw.len().alias(ROWS),
            nw.col(self.settings.key[0]).min().alias(LOW),
            nw.col(self.settings.key[0]).max().alias(HIGH),
            nw.col(SEARCH_TS).max(),
            *(nw.col(each).max().alias(name) for each, name in zip(compared, reaches, strict=True)),
        )
        lines = collect_small(summed)
        return evolve(
            profile,
            rows=profile.rows + sum(line[ROWS] for line in lines),
            dead_letters=profile.dead_letters + sum(line[ROWS] for line in lines if line[_DEAD]),
            chunks=tuple(self.loading.chunk_of(line) for line in lines if not line[_DEAD]),
        )

    def _profile_of_changes(self, changes: nw.LazyFrame[Any]) -> _Profile:
        time = COMMIT_TIME if self.settings.whole else AT
        lines = collect_small(
            _flagged(changes).group_by(_DEAD, _MARK).agg(nw.len().alias(_COUNT), nw.col(time).max().alias(AT))
        )
        return _Profile(
            sum(line[_COUNT] for line in lines if not line[_MARK]),
            sum(line[_COUNT] for line in lines if line[_DEAD]),
            newest_of(line[AT] for line in lines if not line[_DEAD]),
        )

    def _reached(self, changes: nw.LazyFrame[Any] | None, counted: Counted | None, snapshot: Snapshot) -> Reach | None:
        """The highest position of a batch; None if there is none, or no load has to know it any more."""
        if changes is None or counted is None or not self.settings.position or self.loading.standing(snapshot).done:
            return None
        order = list(self.tables.order)
        # Marks tell how far the log has come where its other tables move on alone; but not beyond what waits.
        told = (counted.rows,) if counted.waits else (counted.rows, changes)
        rows = nw.concat([each.select(*order, ERROR) for each in told])
        placed = rows.filter(nw.col(ERROR).is_null(), *(~nw.col(name).is_null() for name in order))
        placed, compared = with_natural(placed.select(*order), order)
        lines = collect_small(placed.sort(*compared, descending=True).head(1))
        return reach_from(lines[0][name] for name in order) if lines else None

    def _letters(
        self, batch: Batch, changes: nw.LazyFrame[Any] | None, bulk: nw.LazyFrame[Any] | None
    ) -> nw.LazyFrame[Any]:
        letters = [] if changes is None else [dead_letter.letters(changes, batch)]
        if bulk is not None:
            letters.append(dead_letter.letters(bulk, batch, nw.lit(BULK_FORMAT)))
        return nw.concat(letters)


def _flagged(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return rows.with_columns((~nw.col(ERROR).is_null()).alias(_DEAD), is_mark().alias(_MARK))
