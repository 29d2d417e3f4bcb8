"""Merges changes and bulk rows into the tables of newest images, waiting rows and tombstones."""

from __future__ import annotations

from typing import Any

import narwhals as nw
from attrs import frozen

from ...ports import FrameEngine
from ...source.bulk import CHUNK
from ...table.change import POSITION, Change, Matching
from .events import Events
from .load_progress import EVERYWHERE, EpochInput, Settlement, numbers_of, row_count, within
from .settings import BulkMergeSettings
from .tables import DELETED, BulkMergeTables


@frozen(eq=False)
class ImageMerger:
    """Merges the input of an epoch into the table of the newest images.

    A deleted row stays in the table, marked as deleted, while an older image of its key may still arrive. Such an image
    may come from a chunk that has not settled. If images are ordered by position, it may also come from a change that
    is sent again, or from a chunk that comes after the load is done.

    Args:
        settings, tables: of the pipeline.
        events: converts rows to images.
        keeps_deleted: whether deleted rows stay in the table for as long as the undo log covers them, or for good if
            there is none.
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    events: Events
    keeps_deleted: bool
    engine: FrameEngine

    def changes(
        self, epoch_input: EpochInput, settlement: Settlement, expired_keys: nw.LazyFrame[Any] | None
    ) -> dict[str, Change]:
        """The changes of the tables `current`, `waiting` and `tombstones`.

        Args:
            epoch_input: the input of the epoch.
            settlement: the chunks that settle now.
            expired_keys: keys of deleted rows that the undo log no longer covers.
        """
        changes = epoch_input.changes
        newest = None if changes is None else self.engine.persist(self.events.newest_images(changes))
        settled_rows = self._settled_rows(epoch_input, settlement)
        obsolete = self._obsolete_tombstones(epoch_input, settlement)
        final = self._is_final_delete(settlement)
        removed = None if newest is None or final is None else newest.filter(final).select(*self.settings.key)
        images = [
            self._without_keys(rows, removed, None if self.keeps_deleted else obsolete)
            for rows in self._settled_images(epoch_input, settlement, settled_rows)
        ]
        deletes = [
            self._without_keys(keys, newest)
            for keys in (expired_keys, self._obsolete_deletes(epoch_input, obsolete))
            if keys is not None
        ]
        if newest is not None:
            images.append(newest if final is None else newest.filter(~final))
        if removed is not None:
            deletes.append(removed)
        return {
            self.tables.waiting.name: self._change_waiting(epoch_input, settlement, settled_rows),
            self.tables.tombstones.name: Change(merge=self._new_tombstones(newest, settlement), delete=obsolete),
            self.tables.current.name: Change(merge=_concat(images), delete=_concat(deletes)),
        }

    def _is_final_delete(self, settlement: Settlement) -> nw.Expr | None:
        """Whether a newest image is a delete, and no older image of its key can arrive; None if that is never known."""
        return None if self.keeps_deleted else nw.col(DELETED) & ~within(self.settings.key[0], settlement.open_ranges)

    def _new_tombstones(self, newest: nw.LazyFrame[Any] | None, settlement: Settlement) -> nw.LazyFrame[Any] | None:
        """Keys that changes delete while an unsettled chunk may still contain them."""
        if newest is None or not settlement.open_ranges:
            return None
        may_return = within(self.settings.key[0], settlement.open_ranges)
        return newest.filter(nw.col(DELETED), may_return).select(*self.settings.key)

    def _obsolete_tombstones(self, epoch_input: EpochInput, settlement: Settlement) -> nw.LazyFrame[Any] | None:
        """Keys of tombstones that no unsettled chunk can contain any more; None if no chunk has settled."""
        table = self.tables.tombstones.name
        if not settlement.ranges_shrank or settlement.open_ranges == EVERYWHERE:
            return None
        if epoch_input.snapshot.version(table) is None:
            return None
        tombstones = epoch_input.snapshot.read(table)
        return self.engine.persist(tombstones.filter(~within(self.settings.key[0], settlement.open_ranges)))

    def _obsolete_deletes(
        self, epoch_input: EpochInput, obsolete: nw.LazyFrame[Any] | None
    ) -> nw.LazyFrame[Any] | None:
        """Keys of deleted rows that stayed in `current` only because of an unsettled chunk."""
        if obsolete is None or self.keeps_deleted:
            return None
        stored = epoch_input.snapshot.read(self.tables.current.name, Matching(obsolete))
        return stored.filter(nw.col(DELETED)).select(*self.settings.key)

    def _settled_rows(self, epoch_input: EpochInput, settlement: Settlement) -> nw.LazyFrame[Any] | None:
        """Stored rows of the chunks that were waiting and settle now."""
        chunks = sorted(numbers_of(settlement.settled) & numbers_of(epoch_input.state.waiting))
        if not chunks:
            return None
        return self.engine.persist(
            epoch_input.snapshot.read(self.tables.waiting.name, Matching(within={CHUNK: tuple(chunks)}))
        )

    def _settled_images(
        self, epoch_input: EpochInput, settlement: Settlement, settled_rows: nw.LazyFrame[Any] | None
    ) -> list[nw.LazyFrame[Any]]:
        """Bulk rows of the chunks that settle now, in the columns of `current`."""
        images = [] if settled_rows is None else [self.events.bulk_images(settled_rows)]
        settled_now = sorted(numbers_of(settlement.settled) & numbers_of(epoch_input.chunks))
        if epoch_input.bulk is not None and settled_now:
            images.append(self.events.bulk_images(epoch_input.bulk.filter(nw.col(CHUNK).is_in(settled_now))))
        return images

    def _change_waiting(
        self, epoch_input: EpochInput, settlement: Settlement, settled_rows: nw.LazyFrame[Any] | None
    ) -> Change:
        """The change of table `waiting`: rows of new chunks are added, and rows of settled chunks are removed.

        If at least as many rows are removed as stay, the table is overwritten with the rows that stay. So the table is
        never much larger than the rows that wait, and each row is written a bounded number of times on average.
        """
        table, added = self.tables.waiting, self._new_waiting_rows(epoch_input, settlement)
        if settled_rows is None:
            return Change(merge=added)
        remaining = settlement.state.waiting
        leaving = [chunk for chunk in epoch_input.state.waiting if chunk not in remaining]
        if row_count(remaining) > row_count(leaving):
            return Change(merge=added, delete=settled_rows.select(*table.key))
        staying = sorted(numbers_of(remaining) & numbers_of(epoch_input.state.waiting))
        frames = [epoch_input.snapshot.read(table.name, Matching(within={CHUNK: tuple(staying)}))] if staying else []
        if added is not None:
            frames.append(added.unique(subset=list(table.key), keep="last", order_by=[POSITION]))
        frames = [each.select(*table.schema.names) for each in frames]
        return Change(overwrite=_concat(frames) or self.engine.frame([], table.schema))

    def _new_waiting_rows(self, epoch_input: EpochInput, settlement: Settlement) -> nw.LazyFrame[Any] | None:
        """Rows of the chunks that were read now and have to wait, with their ``_position``."""
        waiting = sorted(numbers_of(epoch_input.chunks) - numbers_of(settlement.settled))
        if epoch_input.bulk is None or not waiting:
            return None
        return epoch_input.bulk.filter(nw.col(CHUNK).is_in(waiting)).select(*self.tables.waiting.schema.names, POSITION)

    def _without_keys(self, rows: nw.LazyFrame[Any], *others: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        """The rows whose keys are in none of the other frames."""
        key = list(self.settings.key)
        for each in others:
            if each is not None:
                rows = rows.join(each.select(*key), on=key, how="anti")
        return rows


def _concat(frames: list[nw.LazyFrame[Any]]) -> nw.LazyFrame[Any] | None:
    return nw.concat(frames) if frames else None
