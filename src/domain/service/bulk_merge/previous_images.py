"""The image before each change, which the change removes. The undo log has these images."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import narwhals as nw
from attrs import frozen

from ...ledger.ledger import Snapshot
from ...ports import FrameCache
from ...source.transactions import AT
from ...table.change import POSITION, Change, Matching
from ...table.collect import collect_small
from ...table.natural_order import with_natural
from ...table.row_kind import INSERT, ROW_KIND
from .events import BULK_EPOCH, OLDER_EPOCH, Events, before
from .settings import BulkMergeSettings
from .tables import ADDS, DELETED, EPOCH, BulkMergeTables

_IS_IMAGE, _IS_ENTRY, _COUNT = "_is_image", "_is_entry", "_count"


@frozen(eq=False)
class PreviousImages:
    """Finds the image before each change: its before-image, the stored row, or the image of the change before it.

    Args:
        settings, tables: of the pipeline.
        events: of the pipeline.
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    events: Events
    engine: FrameCache

    def change_log(self, changes: nw.LazyFrame[Any], epoch: int, snapshot: Snapshot, since: datetime) -> Change:
        """The images that changes removed and added: a change of table `recent` without its segment.

        The delete of an unknown key is kept as an addition, so that its time is known: before it, there was no row.
        If a change comes after one of its key with a later position, all changes of this key are stored again. If its
        time is not after `since`, it is left out: no answer depends on it but for the image that the next change
        removed, which may be newer, as that of a row read in bulk.

        Args:
            changes: the valid changes.
            epoch: the number of the epoch.
            snapshot: the newest publication.
            since: the earliest time (UTC) as of which rows can be read.
        """
        keys = self._looked_up(changes)
        stored = snapshot.read(self.tables.current.name, Matching(keys))
        stored = self.engine.persist(stored) if self.settings.position else stored
        existing = self._existing(stored)
        if self.settings.has_before_images:
            inserts = _as_changes(
                changes.join(keys, on=list(self.settings.key), how="semi"), nw.col(ROW_KIND) == INSERT
            )
            again = self._with_previous(inserts, existing).filter(nw.col(_IS_ENTRY), _replaces())
            return Change(append=nw.concat([self._previous(again), changes.select(*self._columns)]))
        entries = _as_changes(changes, nw.col(ADDS))
        if (late := self._find_late(changes, stored)) is not None:
            early = late.filter(nw.col(AT) <= since)
            entries = entries.join(early.select(EPOCH, POSITION), on=[EPOCH, POSITION], how="anti")
            late = late.filter(nw.col(AT) > since).select(*self.settings.key).unique()
        if late is None:
            return Change(append=self._entries(self._with_previous(entries, existing)))
        log = self.engine.persist(snapshot.read(self.tables.recent.name, Matching(late)))
        known = self._stored_changes(log)
        images = (self._images_between(known, log), self._place_last(existing, known))
        changed = self._number(self._with_previous(entries, known, *images), epoch)
        return Change(append=self._entries(changed), delete=log.select(*self._columns))

    def _looked_up(self, changes: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The keys of changes without a before-image.

        An insert has none. The snapshots that connectors make at any time read rows that are there as inserts.
        """
        if self.settings.has_before_images:
            changes = changes.filter(nw.col(ROW_KIND) == INSERT, nw.col(EPOCH) != OLDER_EPOCH)
        return changes.select(*self.settings.key).unique()

    def _find_late(self, changes: nw.LazyFrame[Any], stored: nw.LazyFrame[Any]) -> nw.LazyFrame[Any] | None:
        """The changes whose position is before that of the stored row of their key; None without any."""
        if not self.settings.position:
            return None
        late = self.events.older_than(stored, changes).select(*self.settings.key, EPOCH, POSITION, AT)
        late = self.engine.persist(late)
        return late if collect_small(late.select(nw.len().alias(_COUNT)))[0][_COUNT] else None

    def _existing(self, stored: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Stored rows as images, each before all changes at its position."""
        first = [nw.lit(BULK_EPOCH).cast(nw.Int64).alias(name) for name in (EPOCH, POSITION)]
        no_time = nw.lit(None).cast(nw.Datetime("us", "UTC")).alias(AT)
        return _as_images(stored.filter(~nw.col(DELETED)).with_columns(*first, no_time))

    def _stored_changes(self, log: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """One row for each change of the log. `ADDS` is false in all: images come from the two methods below."""
        known = log.unique(subset=[*self.settings.key, EPOCH, POSITION], keep="last", order_by=[ADDS])
        return _as_changes(known, nw.col(ADDS)).with_columns(nw.lit(value=False).alias(ADDS))

    def _images_between(self, known: nw.LazyFrame[Any], log: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The image that each stored change removed, at the place of the stored change before that one."""
        key, place = list(self.settings.key), (*self.tables.order, EPOCH, POSITION)
        rows, order = with_natural(known, self.events.order_columns)
        places = [nw.col(name).shift(1).over(*key, order_by=order).alias(before(name)) for name in place]
        moved = rows.with_columns(*places).select(*key, EPOCH, POSITION, *map(before, place))
        images = log.filter(~nw.col(ADDS)).join(moved, on=[*key, EPOCH, POSITION], how="inner")
        return _as_images(images.with_columns(nw.col(before(name)).alias(name) for name in place))

    def _place_last(self, existing: nw.LazyFrame[Any], known: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Stored rows, each at the place of the last stored change at its position."""
        at, place = [*self.settings.key, *self.tables.order], [EPOCH, POSITION]
        last = known.unique(subset=at, keep="last", order_by=place).select(*at, *place)
        placed = existing.drop(*place).join(last, on=at, how="left")
        return placed.with_columns(nw.col(*place).fill_null(BULK_EPOCH))

    def _with_previous(self, *parts: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Changes with what is before each of them, from changes and images.

        An image comes directly after the stored change at its place, and so before new changes.
        """
        both = nw.concat([part.select(*self._columns, _IS_ENTRY, _IS_IMAGE) for part in parts])
        both, order = with_natural(both, self.events.order_columns)
        previous = [
            nw.col(name).shift(1).over(*self.settings.key, order_by=[*order, _IS_IMAGE]).alias(before(name))
            for name in (ADDS, *self.settings.values)
        ]
        return both.with_columns(*previous).filter(~nw.col(_IS_IMAGE))

    def _number(self, changed: nw.LazyFrame[Any], epoch: int) -> nw.LazyFrame[Any]:
        """Changes with the number of the epoch, and positions in their order."""
        changed, order = with_natural(changed.with_columns(nw.lit(1).alias(_COUNT)), self.events.order_columns)
        place = nw.col(_COUNT).cum_sum().over(*self.settings.key, order_by=order)
        return changed.with_columns(place.cast(nw.Int64).alias(POSITION), nw.lit(epoch).cast(nw.Int64).alias(EPOCH))

    def _entries(self, changed: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The image that each change removed, and the one that it added."""
        added = changed.filter(nw.col(_IS_ENTRY) | ~_replaces()).with_columns(nw.lit(value=True).alias(ADDS))
        return nw.concat([self._previous(changed.filter(_replaces())), added.select(*self._columns)])

    def _previous(self, changed: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The image before each change, as removed by it."""
        images = [nw.col(before(name)).alias(name) for name in self.settings.values]
        return changed.with_columns(*images, nw.lit(value=False).alias(ADDS)).select(*self._columns)

    @property
    def _columns(self) -> tuple[str, ...]:
        return (*self.settings.columns, *self.tables.order, AT, ADDS, EPOCH, POSITION)


def _as_changes(rows: nw.LazyFrame[Any], is_entry: nw.Expr) -> nw.LazyFrame[Any]:
    return rows.with_columns(is_entry.alias(_IS_ENTRY), nw.lit(value=False).alias(_IS_IMAGE))


def _as_images(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return rows.with_columns(nw.lit(value=True).alias(name) for name in (ADDS, _IS_ENTRY, _IS_IMAGE))


def _replaces() -> nw.Expr:
    """Whether there was a row before a change."""
    return nw.col(before(ADDS)).fill_null(value=False)
