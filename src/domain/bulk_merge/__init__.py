"""A large table loaded in bulk while its changelog is followed, without a lock or a stop.

Rows that were read in bulk are version 0 of their keys. They meet the changes of the same table in one keyed table:

    the newest image of a key stands

by the position that both share; or, where they share none, a change stands before version 0, which shows once the
changelog has come up to the moment it was read at. So every publication is the table as it was at the changelog's
place in its log, as far as the bulk has settled. The way of reading in chunks beside a log is that of DBLog, and of
Flink CDC's incremental snapshots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..change import Matching
from ..errors import ConfigError
from ..service import ReadAt, Service
from .counting import Counting
from .events import Events
from .history import History
from .loading import Loading, within
from .merging import Merging
from .settings import EXACT, HISTORY, MODES, BulkMergeSettings
from .step import BulkMergeStep
from .tables import SETTLED, BulkMergeTables
from .views import ROWS_VIEW, BulkMergeViews, view_specs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import narwhals as nw

    from ..bulk import KeyRange
    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from ..service import Kept, Step

__all__ = ["EXACT", "HISTORY", "MODES", "BulkMerge", "BulkMergeSettings"]


class BulkMerge(Service):
    """The newest image of each key of a table that is loaded in bulk and followed by its changelog.

    Its batches are those of a `BulkGroup`.

    Args:
        settings: the key, and what orders images.
        engine: of the frames that `step` and the views are given.
    """

    def __init__(self, settings: BulkMergeSettings, engine: FrameEngine) -> None:
        tables = BulkMergeTables.of(settings)
        events, loading = Events(settings, tables), Loading(settings, tables)
        history = History(settings, tables, events, engine) if settings.timed else None
        self.fingerprint = settings.fingerprint
        self.tables = tables.in_order(settings)
        self.views = view_specs(settings)
        counting = Counting(settings, tables, engine)
        # An older image may come late only where position tells that it is older.
        lingers = bool(settings.position) and settings.timed
        merging = Merging(settings, tables, events, lingers, engine)
        self._step = BulkMergeStep(settings, tables, events, counting, loading, merging, history, engine)
        self._views = BulkMergeViews(settings, tables, loading, history, engine)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """What a batch does to the tables; see `Service.step`."""
        return self._step.step(batch, snapshot)

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:
        """What a watermark that comes without rows does to the tables; see `Service.idle`."""
        return self._step.idle(until, snapshot)

    def view(
        self, name: str, snapshot: Snapshot, *, as_of: datetime | None = None, since: Snapshot | None = None
    ) -> nw.LazyFrame[Any]:
        """Answer a view; see `Service.view`."""
        spec = self.known(name)
        if since is not None:
            raise ConfigError(f"view {name!r} is asked at one publication; ask for its changes between two")
        return self._views.view(spec, ReadAt(snapshot, as_of))

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """How a view changed; see `Service.view_changes`."""
        return self._views.changes(self.known(name), before, after)

    def lookup(self, name: str, at: ReadAt, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows of some keys; see `Service.lookup`."""
        return self._views.view(self.known(name), at, Matching(keys))

    def changes_between(self, name: str, before: ReadAt, after: ReadAt) -> nw.LazyFrame[Any]:
        """How a view changed from one event time to another; see `Service.changes_between`."""
        spec = self.known(name)
        if name != ROWS_VIEW or before.as_of is None or after.as_of is None:
            return super().changes_between(name, before, after)
        return self._views.changes_between(spec, before, after)

    def held_back(self, name: str, at: ReadAt) -> str | None:
        """Why a view is not exact as of an event time yet; see `Service.held_back`."""
        return self._views.held_back(at) if name == ROWS_VIEW else None

    def settled(
        self, keys: nw.LazyFrame[Any], snapshot: Snapshot, remaining: tuple[KeyRange, ...], as_of: datetime | None
    ) -> nw.LazyFrame[Any]:
        """Keys with boolean ``settled``: whether what `rows` shows of them, or that it does not, is exact.

        Args:
            keys: with the first column of the key at least, which is never null.
            snapshot: the publication that rows are read at.
            remaining: what chunks that had not been read by then may hold (`BulkSource.remaining`).
            as_of: the event time (UTC) as of which they are read; None for the publication itself.
        """
        ranges = self._views.loading.unsettled(snapshot, remaining, as_of)
        return keys.with_columns((~within(self._views.settings.key[0], ranges)).alias(SETTLED))

    def bookkeeping(self, snapshot: Snapshot) -> Mapping[str, Kept]:
        """What the load keeps until its chunks settle, and rows of transactions that are not whole."""
        return self._views.bookkeeping(snapshot)
