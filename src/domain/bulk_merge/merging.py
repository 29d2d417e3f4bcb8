"""Changes and bulk rows meet: what becomes of the newest images, of rows that wait, and of those that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..bulk import CHUNK
from ..change import Change, Matching
from ..epoch import POSITION
from .loading import numbers, row_count, within
from .tables import DELETED

if TYPE_CHECKING:
    from ..ports import FrameEngine
    from .events import Events
    from .loading import Brought, Settling
    from .settings import BulkMergeSettings
    from .tables import BulkMergeTables


@frozen(eq=False)
class Merging:
    """Merges what an epoch brought into the table of the newest images.

    A row that is gone stays there, marked, for as long as something older may still come for its key: a chunk that has
    not settled; and, where images are ordered by position, a change sent once more, as long as the history lasts.

    Args:
        settings, tables: of the pipeline.
        events: makes images of rows.
        lingers: whether rows that are gone stay for the history's sake.
        engine: of the frames.
    """

    settings: BulkMergeSettings
    tables: BulkMergeTables
    events: Events
    lingers: bool
    engine: FrameEngine

    def changes(self, brought: Brought, settling: Settling, forgotten: nw.LazyFrame[Any] | None) -> dict[str, Change]:
        """What becomes of `current`, `waiting` and `tombstones`.

        Args:
            brought: by the epoch.
            settling: the chunks that show now.
            forgotten: keys of rows that are gone and that the history has passed.
        """
        newest = None if brought.changes is None else self.engine.persist(self.events.newest(brought.changes))
        waited, freed = self._waited(brought, settling), self._freed(brought, settling)
        gone = self._gone(settling)
        goes = None if newest is None or gone is None else newest.filter(gone).select(*self.settings.key)
        read = [
            self._but(rows, goes, None if self.lingers else freed) for rows in self._read(brought, settling, waited)
        ]
        leaves = [self._but(keys, newest) for keys in (forgotten, self._purged(brought, freed)) if keys is not None]
        if newest is not None:
            read.append(newest if gone is None else newest.filter(~gone))
        if goes is not None:
            leaves.append(goes)
        return {
            self.tables.waiting.name: self._waiting(brought, settling, waited),
            self.tables.tombstones.name: Change(merge=self._buried(newest, settling), delete=freed),
            self.tables.current.name: Change(merge=_all(read), delete=_all(leaves)),
        }

    def _gone(self, settling: Settling) -> nw.Expr | None:
        """Whether a newest image is a delete for good, as nothing older can come for its key; None if none can be."""
        return None if self.lingers else nw.col(DELETED) & ~within(self.settings.key[0], settling.held)

    def _buried(self, newest: nw.LazyFrame[Any] | None, settling: Settling) -> nw.LazyFrame[Any] | None:
        """Keys that changes delete while a chunk may still bring them."""
        if newest is None or not settling.held:
            return None
        held = within(self.settings.key[0], settling.held)
        return newest.filter(nw.col(DELETED), held).select(*self.settings.key)

    def _freed(self, brought: Brought, settling: Settling) -> nw.LazyFrame[Any] | None:
        """Keys that no chunk can bring any more; None where nothing has settled."""
        table = self.tables.tombstones.name
        if not settling.frees or brought.snapshot.version(table) is None:
            return None
        buried = brought.snapshot.read(table)
        return self.engine.persist(buried.filter(~within(self.settings.key[0], settling.held)))

    def _purged(self, brought: Brought, freed: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any] | None:
        """Keys whose rows were kept for a chunk's sake alone."""
        if freed is None or self.lingers:
            return None
        stored = brought.snapshot.read(self.tables.current.name, Matching(freed))
        return stored.filter(nw.col(DELETED)).select(*self.settings.key)

    def _waited(self, brought: Brought, settling: Settling) -> nw.LazyFrame[Any] | None:
        """Rows that had to wait, and show now."""
        shown = sorted(numbers(settling.shown) & numbers(brought.standing.waiting))
        if not shown:
            return None
        return self.engine.persist(
            brought.snapshot.read(self.tables.waiting.name, Matching(within={CHUNK: tuple(shown)}))
        )

    def _read(self, brought: Brought, settling: Settling, waited: nw.LazyFrame[Any] | None) -> list[nw.LazyFrame[Any]]:
        """Bulk rows that show now, as `current` keeps them."""
        read = [] if waited is None else [self.events.read(waited)]
        at_once = sorted(numbers(settling.shown) & numbers(brought.read))
        if brought.bulk is not None and at_once:
            read.append(self.events.read(brought.bulk.filter(nw.col(CHUNK).is_in(at_once))))
        return read

    def _waiting(self, brought: Brought, settling: Settling, waited: nw.LazyFrame[Any] | None) -> Change:
        """What becomes of the rows that wait: chunks come, and those that show now go, one way or the other.

        Where fewer rows stay than go, these are written once more in place of all: so the table never holds much more
        than what waits, and costs no more than the rows that pass through it.
        """
        table, come = self.tables.waiting, self._come(brought, settling)
        if waited is None:
            return Change(merge=come)
        left = settling.standing.waiting
        goes = [chunk for chunk in brought.standing.waiting if chunk not in left]
        if row_count(left) > row_count(goes):
            return Change(merge=come, delete=waited.select(*table.key))
        stay = sorted(numbers(left) & numbers(brought.standing.waiting))
        kept = [brought.snapshot.read(table.name, Matching(within={CHUNK: tuple(stay)}))] if stay else []
        if come is not None:
            kept.append(come.unique(subset=list(table.key), keep="last", order_by=[POSITION]))
        if not kept:
            kept.append(brought.snapshot.store.read(table.name, None))
        return Change(overwrite=_all([each.select(*table.schema.names) for each in kept]))

    def _come(self, brought: Brought, settling: Settling) -> nw.LazyFrame[Any] | None:
        """Rows of chunks that begin to wait, with their ``_position``."""
        kept = sorted(numbers(brought.read) - numbers(settling.shown))
        if brought.bulk is None or not kept:
            return None
        return brought.bulk.filter(nw.col(CHUNK).is_in(kept)).select(*self.tables.waiting.schema.names, POSITION)

    def _but(self, rows: nw.LazyFrame[Any], *others: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        """Rows without those of the keys of others."""
        key = list(self.settings.key)
        for each in others:
            if each is not None:
                rows = rows.join(each.select(*key), on=key, how="anti")
        return rows


def _all(frames: list[nw.LazyFrame[Any]]) -> nw.LazyFrame[Any] | None:
    return nw.concat(frames) if frames else None
