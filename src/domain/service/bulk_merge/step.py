"""The step of a bulk merge: from a batch to the changes of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import narwhals as nw
from attrs import evolve, field, frozen

from ...epoch.batch import ERROR, Batch
from ...epoch.watermark import add, advance, instant, newest_of
from ...ledger.ledger import Snapshot
from ...ports import FrameCache
from ...source import dead_letter
from ...source.bulk import CHUNK, SEARCH_TS, reach_of
from ...source.transactions import AT, COMMIT_TIME, is_mark
from ...table.change import Change
from ...table.collect import collect_small
from ...table.natural_order import with_natural
from ..base import Step
from .complete_transactions import CompleteRows, TransactionFilter
from .events import Events
from .late_chunks import LateChunks
from .load_progress import BulkLoadProgress, Chunk, EpochInput, LoadState, Reach, highest_position
from .merge import ImageMerger
from .previous_images import PreviousImages
from .replay_order import ReplayOrder
from .settings import BulkMergeSettings
from .tables import HIGH, LOW, ROWS, BulkMergeTables
from .undo_log import UndoLog

BULK_FORMAT = "bulk"
"""The format that dead letters of bulk rows have. Such dead letters cannot be replayed."""
_DEAD, _MARK, _COUNT, _EARLIEST = "_dead", "_mark", "_count", "_earliest"
_INSTANT = timedelta(microseconds=1)
_IDLE = timedelta(seconds=10)
"""The smallest advance of an idle changelog's watermark that lets nothing of the bulk be shown or read."""


@frozen
class _Profile:
    """The numbers of a batch that planning needs.

    Args:
        rows: the number of rows without marks.
        dead_letters: the number of rows that cannot be used.
        newest: the newest event or commit time (UTC) of the valid changes.
        chunks: the chunks of the valid bulk rows.
        earliest: of each chunk the earliest time at which one of its rows was read (UTC).
    """

    rows: int = 0
    dead_letters: int = 0
    newest: datetime | None = None
    chunks: tuple[Chunk, ...] = ()
    earliest: Mapping[int, datetime | None] = field(factory=dict)


@frozen(eq=False)
class BulkMergeStep:
    """Merges the changes and bulk rows of each batch into the newest image of each key.

    Args:
        settings, tables: of the pipeline.
        events: reads its batches.
        transactions: holds rows back until their transactions are complete.
        replay_order: finds out which replayed rows are older than others.
        progress: the progress of its load.
        late_chunks: refuses chunks that come too late.
        previous_images: finds the image before each change.
        merger: merges the newest images.
        undo_log: the undo log; None if rows cannot be read as of an event time.
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    events: Events
    transactions: TransactionFilter
    replay_order: ReplayOrder
    progress: BulkLoadProgress
    late_chunks: LateChunks
    previous_images: PreviousImages
    merger: ImageMerger
    undo_log: UndoLog | None
    engine: FrameCache

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        changes, bulk = self.events.changes(batch), self.events.bulk(batch)
        # The bulk is not persisted: a chunk is large, and cheap to read twice.
        changes = None if changes is None else self.engine.persist(changes)
        if changes is not None and batch.replay:
            changes = self.engine.persist(self.transactions.check_replayed(changes, snapshot))
            changes = self.engine.persist(self.replay_order.place(changes, snapshot))
        complete = None if changes is None else self.transactions.filter_complete(changes, batch, snapshot)
        profile = self._profile(changes, bulk)
        before = self._check_late(profile, batch, snapshot)
        self.engine.expect(profile.rows)
        changes_by_table: dict[str, Change] = {}
        if profile.dead_letters:
            changes_by_table[self.tables.dead_letters.name] = Change(append=self._dead_letters(batch, changes, bulk))
        if complete is not None:
            changes_by_table[self.tables.pending.name] = complete.pending
        watermark = self._watermark(snapshot, profile.newest, complete.oldest if complete else None)
        epoch_input = EpochInput(
            snapshot,
            None if complete is None else complete.rows,
            self.transactions.waiting(snapshot) if complete is None else complete.waiting,
            None if bulk is None else bulk.filter(nw.col(ERROR).is_null()),
            tuple(evolve(chunk, key_range=batch.ranges.get(chunk.number, chunk.key_range)) for chunk in profile.chunks),
            self.progress.advance(before, profile.newest, self._log_position(changes, complete, before)),
            batch.remaining,
            watermark,
            epoch=batch.epoch.number,
            replay=batch.replay,
        )
        changes_by_table |= self._plan_changes(epoch_input, complete)
        counts = (profile.rows, profile.dead_letters, None)
        if complete is None:
            return Step(changes_by_table, *counts, watermark=watermark)
        warnings = self.transactions.find_warnings(complete, profile.newest)
        return Step(changes_by_table, *counts, watermark=watermark, repeats=complete.repeats, warnings=warnings)

    def _check_late(self, profile: _Profile, batch: Batch, snapshot: Snapshot) -> LoadState:
        """Check the chunks that were read now; return the state of the load before the batch."""
        before = self.progress.read_state(snapshot)
        if before.done and (profile.chunks or batch.remaining):
            before = self.late_chunks.resume(before, self.progress, snapshot)
        if before.deletes_from is not None:
            self.late_chunks.check(profile.earliest, before.deletes_from)
        return before

    def catch_up(self, snapshot: Snapshot) -> Step | None:
        """See `Service.catch_up`. A chunk that cannot be read again settles in a later epoch than its own."""
        state = self.progress.read_state(snapshot)
        waiting = self.transactions.waiting(snapshot)
        epoch_input = EpochInput(snapshot, None, waiting, None, (), state, None, snapshot.watermark)
        if not self.progress.find_settling(state.waiting, epoch_input):
            return None
        return Step(self._plan_changes(epoch_input), 0, 0, None, watermark=snapshot.watermark)

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:
        """See `Service.idle`. Waiting chunks settle, and unread chunks that depend on the watermark can be read."""
        so_far = snapshot.watermark
        if oldest := self.transactions.oldest(snapshot):
            until = min(until, oldest - _INSTANT)
        if not self.settings.waits or (so_far is not None and until <= so_far):
            return None
        state = self.progress.read_state(snapshot)
        waiting = self.transactions.waiting(snapshot)
        epoch_input = EpochInput(snapshot, None, waiting, None, (), state, None, until, idle=True)
        if so_far is not None and until < so_far + _IDLE and not self._lets_bulk_continue(epoch_input, so_far):
            return None
        return Step(self._plan_changes(epoch_input), 0, 0, None, watermark=until)

    def _lets_bulk_continue(self, idle: EpochInput, so_far: datetime) -> bool:
        """Whether chunks settle in an idle epoch, or unread ones can be read after it (see `is_due` of the chunks)."""
        at, until = self.settings.search_ts, idle.watermark
        due = add(at, self.settings.delay) if isinstance(at, datetime) else None
        if due is not None and until is not None and so_far < due <= until:
            return True
        return bool(self.progress.find_settling(idle.state.waiting, idle))

    def _watermark(self, snapshot: Snapshot, newest: datetime | None, oldest: datetime | None) -> datetime | None:
        """The watermark after an epoch. It stays before the commit of every transaction that has waiting rows.

        Args:
            snapshot: the newest publication.
            newest: the newest event time of the batch (UTC).
            oldest: the earliest commit time of the waiting rows (UTC).
        """
        so_far, delay = snapshot.watermark, self.settings.watermark_delay
        if newest is not None and oldest is not None:
            newest = min(newest, oldest - _INSTANT + delay)
        return advance(so_far, newest, delay)

    def _plan_changes(self, epoch_input: EpochInput, complete: CompleteRows | None = None) -> dict[str, Change]:
        """The changes of an epoch, except dead letters and pending rows."""
        settlement = self.progress.settle(epoch_input)
        changes, expired_keys = self.progress.changes(epoch_input, settlement), None
        if applied := self.transactions.applied:
            rows = complete.applied if complete else None
            changes[self.tables.applied.name] = applied.change(rows, epoch_input.watermark, epoch_input.snapshot)
        if self.undo_log:
            changes[self.tables.recent.name], expired_keys = self._change_undo_log(epoch_input, self.undo_log)
        changes |= self.merger.changes(epoch_input, settlement, expired_keys)
        return {table: change for table, change in changes.items() if not change.empty}

    def _change_undo_log(self, epoch_input: EpochInput, undo_log: UndoLog) -> tuple[Change, nw.LazyFrame[Any] | None]:
        """The change of the undo log, and the keys of deleted rows that it no longer covers."""
        snapshot, change = epoch_input.snapshot, Change()
        if epoch_input.changes is not None:
            since = undo_log.since_when(epoch_input.watermark, epoch_input.state)
            change = self.previous_images.change_log(epoch_input.changes, epoch_input.epoch, snapshot, since)
            if epoch_input.replay and self.settings.has_before_images and not self.settings.position:
                change = undo_log.insert_replayed(change, epoch_input.epoch, snapshot)
            change = undo_log.with_segments(change, epoch_input.watermark)
        is_done = epoch_input.state.done  # a chunk that comes now has been checked by the deletes that are there
        expired = undo_log.read_expired(snapshot, epoch_input.watermark) if is_done else None
        if expired is None:
            return change, None
        expired_keys = undo_log.find_expired_keys(expired, snapshot) if self.merger.keeps_deleted else None
        deletes = expired.select(*self.tables.recent.key)
        deletes = deletes if change.delete is None else nw.concat([deletes, change.delete]).unique()
        return evolve(change, delete=deletes), expired_keys

    def _profile(self, changes: nw.LazyFrame[Any] | None, bulk: nw.LazyFrame[Any] | None) -> _Profile:
        profile = _Profile() if changes is None else self._profile_of_changes(changes)
        if bulk is None:
            return profile
        reaches = [reach_of(at) for at, _ in enumerate(self.settings.position)]
        flagged, compared = with_natural(_with_flags(bulk), reaches)
        flagged = flagged.with_columns(nw.col(each).alias(name) for each, name in zip(compared, reaches, strict=True))
        groups = flagged.group_by(_DEAD, CHUNK, *reaches[:-1]).agg(
            nw.len().alias(ROWS),
            nw.col(self.settings.key[0]).min().alias(LOW),
            nw.col(self.settings.key[0]).max().alias(HIGH),
            nw.col(SEARCH_TS).min().alias(_EARLIEST),
            nw.col(SEARCH_TS, *reaches[-1:]).max(),
        )
        if reaches[1:]:
            groups = _with_highest(groups, reaches)
        lines = collect_small(groups)
        return evolve(
            profile,
            rows=profile.rows + sum(line[ROWS] for line in lines),
            dead_letters=profile.dead_letters + sum(line[ROWS] for line in lines if line[_DEAD]),
            chunks=tuple(self.progress.chunk_of(line) for line in lines if not line[_DEAD]),
            earliest={line[CHUNK]: line[_EARLIEST] and instant(line[_EARLIEST]) for line in lines if not line[_DEAD]},
        )

    def _profile_of_changes(self, changes: nw.LazyFrame[Any]) -> _Profile:
        time = COMMIT_TIME if self.settings.transactional else AT
        lines = collect_small(
            _with_flags(changes).group_by(_DEAD, _MARK).agg(nw.len().alias(_COUNT), nw.col(time).max().alias(AT))
        )
        return _Profile(
            sum(line[_COUNT] for line in lines if not line[_MARK]),
            sum(line[_COUNT] for line in lines if line[_DEAD]),
            newest_of(line[AT] for line in lines if not line[_DEAD]),
        )

    def _log_position(
        self, changes: nw.LazyFrame[Any] | None, complete: CompleteRows | None, before: LoadState
    ) -> Reach | None:
        """The highest position of a batch; None if it has no position, or the load is done and does not need it."""
        if changes is None or complete is None or not self.settings.position or before.done:
            return None
        order = self.tables.order
        # Marks show the position of the log even if only other tables change.
        rows = nw.concat([each.select(*order, ERROR) for each in (complete.rows, changes)])
        return highest_position(rows.filter(nw.col(ERROR).is_null()), order)

    def _dead_letters(
        self, batch: Batch, changes: nw.LazyFrame[Any] | None, bulk: nw.LazyFrame[Any] | None
    ) -> nw.LazyFrame[Any]:
        frames = [] if changes is None else [dead_letter.extract(changes, batch)]
        if bulk is not None:
            frames.append(dead_letter.extract(bulk, batch, nw.lit(BULK_FORMAT)))
        return nw.concat(frames)


def _with_flags(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return rows.with_columns((~nw.col(ERROR).is_null()).alias(_DEAD), is_mark().alias(_MARK))


def _with_highest(groups: nw.LazyFrame[Any], reaches: list[str]) -> nw.LazyFrame[Any]:
    """One row for each chunk, with its highest position, from one for each value of the columns before the last."""
    own = (_DEAD, CHUNK)
    whole = groups.with_columns(
        nw.col(ROWS).sum().over(*own),
        nw.col(LOW, _EARLIEST).min().over(*own),
        nw.col(HIGH, SEARCH_TS).max().over(*own),
    )
    return whole.unique(subset=[*own], keep="last", order_by=reaches)
