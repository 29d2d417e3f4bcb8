"""What an epoch does to the tables of a bulk merge."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import evolve, frozen

from .. import dead_letter
from ..bulk import CHUNK, KeyRange, reach_of, SEARCH_TS
from ..change import Change, Matching
from ..collect import collect_small
from ..epoch import ERROR, POSITION
from ..service import Step
from ..watermark import advance, newest_of
from .loading import EVERYWHERE, Chunk, Standing, within
from .tables import AT, DELETED, HIGH, LOW, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from .events import Events
    from .history import History
    from .loading import Loading, Reach
    from .settings import BulkMergeSettings
    from .tables import BulkMergeTables

BULK_FORMAT = "bulk"
"""What dead letters name as the format of bulk rows, which cannot be read again from them."""
_DEAD, _COUNT = "_dead", "_count"
_IDLE = timedelta(seconds=10)
"""How far the watermark of an idle changelog moves at least, once nothing but the answer as of a time depends on it."""


@frozen
class _Profile:
    """The little of a batch that planning needs to know."""

    rows: int = 0
    dead_letters: int = 0
    newest: datetime | None = None
    reached: Reach | None = None
    chunks: tuple[Chunk, ...] = ()


@frozen(eq=False)
class _Epoch:
    """What an epoch has to go by.

    Args:
        snapshot: the newest publication.
        changes: rows of the changelog that can be used; None if there are none.
        bulk: rows read in bulk that can be used; None if there are none.
        read: their chunks.
        standing: how far the load has come with this batch, what it settles aside.
        remaining: ranges that chunks yet to be read may hold.
        watermark: after the epoch (UTC).
        idle: nothing came for so long that the watermark follows the clock.
    """

    snapshot: Snapshot
    changes: nw.LazyFrame[Any] | None
    bulk: nw.LazyFrame[Any] | None
    read: tuple[Chunk, ...]
    standing: Standing
    remaining: tuple[KeyRange, ...]
    watermark: datetime | None
    idle: bool = False


@frozen(eq=False)
class BulkMergeStep:
    """The step of one bulk merge: changes and bulk rows meet in the newest image of each key.

    Args:
        settings, tables: of the pipeline.
        events: reads its batches.
        loading: how far its load has come.
        history: keeps what changes took and brought; None where rows cannot be told as of an event time.
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    events: Events
    loading: Loading
    history: History | None
    engine: FrameEngine

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """See `Service.step`."""
        changes, bulk = self._persisted(self.events.changes(batch)), self._persisted(self.events.bulk(batch))
        profile = self._profile(changes, bulk)
        self.engine.expect(profile.rows)
        done: dict[str, Change] = {}
        if profile.dead_letters:
            done[self.tables.letters.name] = Change(append=self._letters(batch, changes, bulk))
        so_far = snapshot.publication.watermark if snapshot.publication else None
        watermark = advance(so_far, profile.newest, self.settings.watermark_delay)
        before = self.loading.standing(snapshot)
        remaining = _remaining(before) if batch.remaining is None else batch.remaining
        epoch = _Epoch(
            snapshot,
            _usable(changes),
            _usable(bulk),
            profile.chunks,
            before if before.done or not self.loading.follows else before.after(profile.newest, profile.reached),
            remaining,
            watermark,
        )
        return Step(done | self._work(epoch), profile.rows, profile.dead_letters, None, watermark=watermark)

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:
        """See `Service.idle`: chunks settle, and those that wait unread for the watermark become due."""
        so_far = snapshot.publication.watermark if snapshot.publication else None
        if not self.settings.waits or (so_far is not None and until <= so_far):
            return None
        standing = self.loading.standing(snapshot)
        if standing.done and so_far is not None and until < so_far + _IDLE:
            return None
        epoch = _Epoch(snapshot, None, None, (), standing, _remaining(standing), until, idle=True)
        return Step(self._work(epoch), 0, 0, None, watermark=until)

    def _persisted(self, rows: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any] | None:
        return None if rows is None else self.engine.persist(rows)

    def _profile(self, changes: nw.LazyFrame[Any] | None, bulk: nw.LazyFrame[Any] | None) -> _Profile:
        profile = _Profile()
        if changes is not None:
            profile = self._profile_of_changes(changes)
        if bulk is None:
            return profile
        reaches = [reach_of(at) for at, _ in enumerate(self.settings.position)]
        counted = (
            _flagged(bulk)
            .group_by(_DEAD, CHUNK)
            .agg(
                nw.len().alias(ROWS),
                nw.col(self.settings.key[0]).min().alias(LOW),
                nw.col(self.settings.key[0]).max().alias(HIGH),
                nw.col(SEARCH_TS).max(),
                *(nw.col(name).max() for name in reaches),
            )
        )
        lines = collect_small(counted)
        return evolve(
            profile,
            rows=profile.rows + sum(line[ROWS] for line in lines),
            dead_letters=profile.dead_letters + sum(line[ROWS] for line in lines if line[_DEAD]),
            chunks=tuple(self.loading.chunk_of(line) for line in lines if not line[_DEAD]),
        )

    def _profile_of_changes(self, changes: nw.LazyFrame[Any]) -> _Profile:
        lines = collect_small(_flagged(changes).group_by(_DEAD).agg(nw.len().alias(_COUNT), nw.col(AT).max()))
        good = [line for line in lines if not line[_DEAD]]
        return _Profile(
            sum(line[_COUNT] for line in lines),
            sum(line[_COUNT] for line in lines if line[_DEAD]),
            newest_of(line[AT] for line in good),
            self._reached(changes) if good and self.settings.position else None,
        )

    def _reached(self, changes: nw.LazyFrame[Any]) -> Reach:
        """The highest position among changes that can be used; there are some."""
        order = list(self.tables.order)
        placed = changes.filter(nw.col(ERROR).is_null()).select(*order)
        (line,) = collect_small(placed.sort(*order, descending=True).head(1))
        return tuple(line[name] for name in order)

    def _letters(
        self, batch: Batch, changes: nw.LazyFrame[Any] | None, bulk: nw.LazyFrame[Any] | None
    ) -> nw.LazyFrame[Any]:
        letters = [] if changes is None else [dead_letter.letters(changes, batch)]
        if bulk is not None:
            letters.append(dead_letter.letters(bulk, batch, nw.lit(BULK_FORMAT)))
        return nw.concat(letters)

    def _work(self, epoch: _Epoch) -> dict[str, Change]:
        """What an epoch does beside dead letters."""
        shown, standing = self._settling(epoch)
        held = standing.held(epoch.remaining)
        newest = None if epoch.changes is None else self.engine.persist(self.events.newest(epoch.changes))
        changes = self._chunks_changed(epoch, shown, standing)
        freed = self._freed(epoch, shown, held)
        changes[self.tables.tombstones.name] = Change(merge=self._buried(newest, held), delete=freed)
        merged, deleted = self._shown(epoch, shown, newest, held, freed, changes)
        if self.history:
            told, purged = self._told(epoch, newest, standing)
            changes[self.tables.recent.name] = told
            deleted += purged
        changes[self.tables.current.name] = Change(
            merge=nw.concat(merged) if merged else None, delete=nw.concat(deleted).unique() if deleted else None
        )
        return {table: change for table, change in changes.items() if not change.empty}

    def _settling(self, epoch: _Epoch) -> tuple[list[Chunk], Standing]:
        """The chunks that show now, and how far the load has come then."""
        standing = epoch.standing
        at_once = epoch.read if self.settings.repeatable or not self.settings.waits else ()
        shown = [
            chunk
            for chunk in (*standing.waiting, *at_once)
            if self.loading.due(chunk, standing, epoch.watermark, idle=epoch.idle)
        ]
        waiting = tuple(chunk for chunk in (*standing.waiting, *epoch.read) if chunk not in shown)
        from_when = [standing.exact_from, *(self.loading.exact_from(chunk, standing) for chunk in shown)]
        read_all = not epoch.remaining
        return shown, evolve(
            standing,
            waiting=waiting,
            read_all=read_all,
            done=read_all and not waiting,
            exact_from=max((each for each in from_when if each is not None), default=None),
        )

    def _chunks_changed(self, epoch: _Epoch, shown: Sequence[Chunk], standing: Standing) -> dict[str, Change]:
        """What becomes of the books of the load, and of the rows that wait."""
        changes: dict[str, Change] = {}
        one = epoch.snapshot.store.read(self.tables.chunks.name, None).select(nw.len())
        told = [
            (chunk, chunk in shown, self.loading.exact_from(chunk, epoch.standing) if chunk in shown else None)
            for chunk in dict.fromkeys((*shown, *epoch.read))
        ]
        if told:
            rows = self.loading.chunk_rows(one, told)
            changes[self.tables.chunks.name] = Change(merge=rows)
        before = self.loading.standing(epoch.snapshot)
        if standing != before:
            changes[self.tables.load.name] = Change(merge=self.loading.load_row(one, standing))
        kept = _numbers(set(epoch.read) - set(shown))
        if kept and epoch.bulk is not None:
            rows = epoch.bulk.filter(nw.col(CHUNK).is_in(list(kept)))
            waits = rows.select(*self.tables.waiting.schema.names, POSITION)
            changes[self.tables.waiting.name] = Change(merge=waits)
        return changes

    def _shown(
        self,
        epoch: _Epoch,
        shown: Sequence[Chunk],
        newest: nw.LazyFrame[Any] | None,
        held: tuple[KeyRange, ...],
        freed: nw.LazyFrame[Any] | None,
        changes: dict[str, Change],
    ) -> tuple[list[nw.LazyFrame[Any]], list[nw.LazyFrame[Any]]]:
        """Images that come to `current`, and keys that leave it."""
        key = list(self.settings.key)
        read = self._read(epoch, shown, changes)
        if self.lingers:
            return [*([] if newest is None else [newest]), *read], []
        merged, deleted = [], []
        if newest is not None:
            goes = nw.col(DELETED) & ~within(key[0], held)
            gone = newest.filter(goes).select(*key)
            merged.append(newest.filter(~goes))
            deleted.append(gone)
            read = [rows.join(gone, on=key, how="anti") for rows in read]
        if freed is not None:
            read = [rows.join(freed, on=key, how="anti") for rows in read]
            purged = epoch.snapshot.read(self.tables.current.name, Matching(freed)).filter(nw.col(DELETED)).select(*key)
            deleted.append(purged if newest is None else purged.join(newest.select(*key), on=key, how="anti"))
        return [*merged, *read], deleted

    def _read(self, epoch: _Epoch, shown: Sequence[Chunk], changes: dict[str, Change]) -> list[nw.LazyFrame[Any]]:
        """The rows of chunks that show; those that had to wait do so no longer."""
        read, numbers = [], _numbers(shown)
        waited = numbers & _numbers(epoch.standing.waiting)
        if waited:
            rows = epoch.snapshot.read(self.tables.waiting.name, Matching(within={CHUNK: tuple(sorted(waited))}))
            rows = self.engine.persist(rows)
            table = self.tables.waiting
            changes[table.name] = evolve(changes.get(table.name, Change()), delete=rows.select(*table.key))
            read.append(self.events.read(rows))
        if epoch.bulk is not None and (at_once := numbers & _numbers(epoch.read)):
            read.append(self.events.read(epoch.bulk.filter(nw.col(CHUNK).is_in(sorted(at_once)))))
        return read

    def _buried(self, newest: nw.LazyFrame[Any] | None, held: tuple[KeyRange, ...]) -> nw.LazyFrame[Any] | None:
        """Keys that are deleted while a chunk may still bring them."""
        if newest is None or not held:
            return None
        return newest.filter(nw.col(DELETED), within(self.settings.key[0], held)).select(*self.settings.key)

    def _freed(self, epoch: _Epoch, shown: Sequence[Chunk], held: tuple[KeyRange, ...]) -> nw.LazyFrame[Any] | None:
        """Keys that no chunk can bring any more; persisted. None where nothing has settled."""
        table = self.tables.tombstones.name
        if (
            epoch.snapshot.version(table) is None
            or self.loading.standing(epoch.snapshot).done
            or not (shown or epoch.read)
        ):
            return None
        buried = epoch.snapshot.read(table)
        return self.engine.persist(buried.filter(~within(self.settings.key[0], held)) if held else buried)

    def _told(
        self, epoch: _Epoch, newest: nw.LazyFrame[Any] | None, standing: Standing
    ) -> tuple[Change, list[nw.LazyFrame[Any]]]:
        """What becomes of the undo log, and keys that are forgotten with what it loses."""
        assert self.history is not None
        key = list(self.settings.key)
        filed = None
        if epoch.changes is not None:
            stored = None
            if not self.settings.tells_before:
                stored = epoch.snapshot.read(self.tables.current.name, Matching(epoch.changes.select(*key).unique()))
            filed = self.history.filed(self.events.told(epoch.changes, stored), epoch.watermark)
        forgotten = self.history.forgotten(epoch.snapshot, epoch.watermark) if standing.done else None
        if forgotten is None:
            return Change(append=filed), []
        told = Change(append=filed, delete=forgotten.select(*self.tables.recent.key))
        if not self.lingers:
            return told, []
        purged = self.history.purged(forgotten, epoch.snapshot)
        return told, [purged if newest is None else purged.join(newest.select(*key), on=key, how="anti")]

    @property
    def lingers(self) -> bool:
        """Whether deleted rows are remembered for as long as history is: an older image may come late by position."""
        return bool(self.settings.position) and self.history is not None


def _remaining(standing: Standing) -> tuple[KeyRange, ...]:
    """What may be left to read, where only the last epoch tells."""
    return () if standing.read_all else EVERYWHERE


def _usable(rows: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any] | None:
    return None if rows is None else rows.filter(nw.col(ERROR).is_null())


def _flagged(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return rows.with_columns((~nw.col(ERROR).is_null()).alias(_DEAD))


def _numbers(chunks: Iterable[Chunk]) -> set[int]:
    return {chunk.number for chunk in chunks}
