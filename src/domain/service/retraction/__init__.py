"""Changelog retraction: exact counts and sums of groups over all history, without storing the rows.

Each change is added to, or subtracted from, the sums of its group and day; an update does both. The *past* is the total
of the days before the *cut*. A view reads both from one snapshot:

    past + the days at or after the cut

The past is either the sum of the days before the cut, or a user-supplied batch table. With a batch table, a late change
(of a day before the cut) has no effect until the batch table is read again.
"""

from __future__ import annotations

from datetime import date, datetime
from functools import partial
from typing import Any

import narwhals as nw

from ...epoch.batch import Batch
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine, QueryEngine
from ...table.groups import match_groups
from ...table.view_spec import ViewSpec
from ..base import GivenCut, ReadAt, Service, Step
from ..input import PlainTable
from ..measures import Measure
from ..segments import Segments
from .days import CHANGED_AT
from .past import HOLDS, PastTable
from .repeats import Repeats
from .settings import AUTO, LOG_RESETS, NONE, RetractionSettings
from .step import RetractionStep
from .tables import RetractionTables
from .views import RetractionViews, view_specs

__all__ = [
    "AUTO",
    "HOLDS",
    "LOG_RESETS",
    "NONE",
    "Measure",
    "PastTable",
    "PlainTable",
    "Retraction",
    "RetractionSettings",
]


class Retraction(Service):
    """Exact measures of groups, computed from the changes of a table."""

    def __init__(self, settings: RetractionSettings, engine: FrameEngine, queries: QueryEngine) -> None:
        tables = RetractionTables.of(settings)
        kind = settings.schema[settings.updated_at]
        days = Segments.of(CHANGED_AT, kind, interval="1d", offset="0s", zone=settings.time_zone, nulls_lowest=True)
        self.fingerprint = settings.fingerprint
        self.tables = tables.in_order(has_places=bool(settings.place_columns))
        self.views = view_specs(settings)
        self._settings = settings
        self._repeats = Repeats(settings, tables, engine)
        self._step = RetractionStep(settings, tables, days, self._repeats, engine, queries)
        self._views = RetractionViews(settings, tables, self._step, engine)
        self.given_cut = GivenCut(tables.cut, self._step.given_cut) if settings.past else None

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        return self._step.step(batch, snapshot)

    def roll(self, cut: date, snapshot: Snapshot) -> Step:
        """Move the days before a cut into the past, or replace the past by the user-supplied table as of the cut.

        Raises:
            ConfigError: the cut is before the current one.
        """
        return self._step.roll(cut, snapshot)

    def default_cut(self, watermark: datetime | None, now: datetime) -> date:
        """Return the day of the watermark, or today in the pipeline's zone if there is no watermark."""
        return self._step.default_cut(watermark, now)

    def repeats(self, snapshot: Snapshot) -> int | None:
        return self._repeats.count(snapshot) if self._settings.place_columns else None

    def read(self, spec: ViewSpec, at: ReadAt) -> nw.LazyFrame[Any]:
        return self._views.view(spec, at.snapshot)

    def lookup(self, name: str, at: ReadAt, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return match_groups(partial(self._views.view, self.known(name), at.snapshot), keys, self._settings.group)

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Return the changes of a view; the key of `totals` may be empty. See `Service.view_changes`."""
        return self.read_changes(self.known(name), before, after)

    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        return self._views.changes(spec, before, after)
