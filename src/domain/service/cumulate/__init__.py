"""Cumulate windows: running totals of the day so far, at every step of event time (for example, each minute).

Each row is added to a *pane*, one step of event time. When the watermark passes the end of a pane, each group gets a
*tick* there, the total of all panes of the window up to that point:

    tick = sum of the panes closed before + sum of the panes closed now

All ticks of a step are computed from the same panes at the same watermark, so the groups sum to the total. The sum of
the closed panes is stored per group, so an epoch never reads a closed pane again. Reading the same rows again, in
epochs of any size, gives the same ticks.

The window and its name are those of Flink's table-valued function CUMULATE.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

import narwhals as nw

from ...epoch.batch import Batch
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine, QueryEngine
from ...table.groups import match_groups
from ...table.view_spec import ViewSpec
from ..base import ReadAt, Service, Step
from ..measures import Estimate
from .lateness import Lateness
from .revisions import Revisions
from .settings import LATE, TICKS, CumulateSettings
from .sketches import Sketch
from .step import CumulateStep
from .tables import CumulateTables
from .ticks import Ticks
from .values import Values
from .views import CumulateViews, view_specs

__all__ = ["LATE", "TICKS", "Cumulate", "CumulateSettings"]


class Cumulate(Service):
    """Computes the measures of each group from the start of a window to the end of each step."""

    def __init__(self, settings: CumulateSettings, engine: FrameEngine, queries: QueryEngine) -> None:
        tables, panes = CumulateTables.of(settings), settings.panes
        ticks = Ticks(tables, panes, settings.ticks == "dense", engine)
        states = {
            each.name: (Sketch if isinstance(each, Estimate) else Values)(each, tables.state_tables[each.name], engine)
            for each in settings.measures
            if each.name in tables.state_tables
        }
        self.fingerprint = settings.fingerprint
        self._settings = settings
        self.tables = tables.commit_order
        self.views = view_specs(settings)
        revisions = Revisions(tables, panes, ticks, engine, settings.measures)
        lateness = Lateness(panes, settings.event_time, settings.watermark_delay, engine)
        self._step = CumulateStep(settings, tables, panes, ticks, revisions, lateness, states, engine, queries)
        self._views = CumulateViews(settings, tables, panes, ticks, engine)

    def changed(self, fingerprint: str) -> str | None:
        return self._settings.changed(fingerprint)

    def prepare(self, batch: Batch) -> Batch:
        return self._step.prepare(batch)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        return self._step.step(batch, snapshot)

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:
        """Make the ticks that an idle source completes; see `Service.idle`."""
        return self._step.idle(until, snapshot)

    def read(self, spec: ViewSpec, at: ReadAt) -> nw.LazyFrame[Any]:
        """Read a view; see `Service.read`. `as_of` leaves out later ticks."""
        return self._views.view(spec, at.snapshot, at.as_of)

    def lookup(self, name: str, at: ReadAt, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        read = partial(self._views.view, self.known(name), at.snapshot, at.as_of)
        return match_groups(read, keys, self._settings.dimension_schema.names)

    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        return self._views.changes(spec, before, after)
