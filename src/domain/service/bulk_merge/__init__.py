"""Loads a large table in bulk while following its changelog. The table is not locked, and its writers continue.

Rows that were read in bulk are version 0 of their keys. Bulk rows and changes are merged into one table:

    the newest image of each key wins

If the bulk and the changelog share a position, the position says which image is newer. Otherwise a change always wins
over version 0. In mode ``exact``, a bulk row becomes visible once the changelog has caught up with the moment at which
the row was read. So every publication is the table as it was at the changelog's position, for all chunks that have
settled. Reading chunks next to a log is the method of DBLog and of Flink CDC's incremental snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import narwhals as nw

from ...epoch.batch import Batch
from ...epoch.key_range import KeyRange
from ...errors import ConfigError
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...table.change import Matching
from ...table.collect import collect_small
from ...table.fingerprint import changed_settings
from ...table.schema import INTEGERS, show_type
from ...table.view_spec import ViewSpec
from ..base import PendingRows, ReadAt, Service, Step
from .applied_transactions import AppliedTransactions
from .complete_transactions import TransactionFilter
from .events import Events
from .late_chunks import LateChunks
from .load_progress import BulkLoadProgress
from .merge import ImageMerger
from .previous_images import PreviousImages
from .replay_order import ReplayOrder
from .settings import EXACT, MODES, BulkMergeSettings
from .step import BulkMergeStep
from .tables import SETTLED, BulkMergeTables
from .undo_log import UndoLog
from .views import ROWS_VIEW, BulkMergeViews, view_specs

__all__ = ["EXACT", "MODES", "BulkMerge", "BulkMergeSettings"]


class BulkMerge(Service):
    """A service that keeps the newest image of each key, from a bulk load and a changelog of the same table.

    It reads the batches of a `BulkGroup`.
    """

    def __init__(self, settings: BulkMergeSettings, engine: FrameEngine) -> None:
        tables = BulkMergeTables.of(settings)
        events, progress = Events(settings, tables, engine), BulkLoadProgress(settings, tables, engine)
        undo_log = UndoLog(settings, tables, events, engine) if settings.timed else None
        self.fingerprint = settings.fingerprint
        dated = settings.timed and not settings.transactional
        self._compared = [*(["event_time"] if dated else []), *(["transactions"] if settings.counted else [])]
        self.tables = tables.in_order(settings)
        self.views = view_specs(settings)
        applied = AppliedTransactions(tables, undo_log, engine) if undo_log and settings.counted else None
        transactions = TransactionFilter(settings, tables, applied, engine)
        replay_order = ReplayOrder(settings, tables, events, undo_log, applied, engine)
        # Only a position can show that a late image is older.
        keeps_deleted = bool(settings.position)
        merger = ImageMerger(settings, tables, events, keeps_deleted, engine)
        late_chunks = LateChunks(settings, tables, undo_log)
        previous = PreviousImages(settings, tables, events, engine)
        self._step = BulkMergeStep(
            *(settings, tables, events, transactions, replay_order, progress, late_chunks, previous, merger, undo_log),
            engine,
        )
        self._views = BulkMergeViews(settings, tables, progress, undo_log, engine)

    def changed(self, fingerprint: str) -> str | None:
        """Return the settings that differ; so does the column of event times, if the history has them.

        So do `transactions` that are counted now and were not: the ends of those that were applied come again, and
        would wait for their events for good. Events that were counted can be ordered from now on.
        """
        return changed_settings(fingerprint, self.fingerprint, self._compared)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        return self._step.step(batch, snapshot)

    def catch_up(self, snapshot: Snapshot) -> Step | None:
        return self._step.catch_up(snapshot)

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:
        return self._step.idle(until, snapshot)

    def read(self, spec: ViewSpec, at: ReadAt) -> nw.LazyFrame[Any]:
        return self._views.view(spec, at)

    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        return self._views.changes(spec, before, after)

    def lookup(self, name: str, at: ReadAt, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return self._views.view(self.known(name), at, Matching(keys))

    def changes_between(self, name: str, before: ReadAt, after: ReadAt) -> nw.LazyFrame[Any]:
        spec = self.known(name)
        if name != ROWS_VIEW or before.as_of is None or after.as_of is None:
            return super().changes_between(name, before, after)
        return self._views.changes_between(spec, before, after)

    def held_back(self, name: str, at: ReadAt) -> str | None:
        return self._views.held_back(at) if name == ROWS_VIEW else None

    def settled(
        self, keys: nw.LazyFrame[Any], snapshot: Snapshot, remaining: tuple[KeyRange, ...], as_of: datetime | None
    ) -> nw.LazyFrame[Any]:
        """The keys with a boolean column ``settled``: whether `rows` is exact for the key.

        A key that is known to have no row is exact, too.

        Args:
            keys: have at least the first column of the key, which is never null. Whole and decimal numbers may be of
                any width. Categorical strings are returned as strings.
            snapshot: the publication at which rows are read.
            remaining: key ranges of the chunks that were not read yet at this publication (`BulkSource.remaining`).
            as_of: the event time (UTC) as of which rows are read; None for the publication itself.

        Raises:
            ConfigError: that column is missing, or is of another type.
        """
        return _typed_keys(keys, self._views.settings).with_columns(
            self._views.progress.is_exact(snapshot, remaining, as_of).alias(SETTLED)
        )

    def bookkeeping(self, snapshot: Snapshot) -> Mapping[str, PendingRows]:
        """The rows that are stored until their chunks settle or their transactions are complete."""
        return self._views.bookkeeping(snapshot)


def _typed_keys(keys: nw.LazyFrame[Any], settings: BulkMergeSettings) -> nw.LazyFrame[Any]:
    """The keys, checked, with the first column of the key in its type: engines compare others differently."""
    there, (name, wanted) = keys.collect_schema(), (settings.key[0], settings.schema[settings.key[0]])
    place = f"settled of pipeline {settings.pipeline!r}: "
    if name not in there:
        raise ConfigError(f"{place}the frame needs column {name!r} of the key; it has: {', '.join(there)}")
    found, exact = there[name], {*INTEGERS, "decimal"}
    is_number = wanted.name in exact and (found.is_integer() or found.is_decimal())
    if is_number or (shown := show_type(found)) == wanted.ddl:
        return keys
    if wanted.name == "string" and isinstance(found, nw.Categorical | nw.Enum):
        return keys.with_columns(nw.col(name).cast(wanted.narwhals))
    if not collect_small(keys.select(name).head(1)):  # an empty list has a type by chance
        return keys.with_columns(nw.lit(None).cast(wanted.narwhals).alias(name))
    raise ConfigError(f"{place}column {name!r} of the frame is {shown}, but the key is {wanted.ddl}: cast it")
