"""Changelog retraction: exact counts and sums by group over all history, with no more state than the day's.

Each change adds to its group and day, or takes from them; an update does both. What the days before the *cut* came to
is the past, so the answer is

    past + the days at or after the cut

taken from one snapshot. The past is made up of the days that passed, or is a batch table of the user's: then changes
that come late to it wait for the batch to be run again, and never disturb today.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..measures import Measure
from ..plain_table import PlainTable
from ..segments import Segments
from ..service import Service
from .filing import FILED, Filing
from .past import HOLDS, PastTable
from .repeats import Repeats
from .settings import AUTO, LOG_RESETS, NONE, RetractionSettings
from .step import RetractionStep
from .tables import RetractionTables
from .views import RetractionViews, view_specs

if TYPE_CHECKING:
    from datetime import date, datetime

    import narwhals as nw

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine, QueryEngine
    from ..service import Step

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
    """Exact measures of groups over a table whose changes are seen once.

    Args:
        settings: what to count.
        engine: of the frames that `step` and the views are given.
        queries: evaluates the SQL of measures, and reads a past of the user's own.
    """

    def __init__(self, settings: RetractionSettings, engine: FrameEngine, queries: QueryEngine) -> None:
        tables = RetractionTables.of(settings)
        kind = settings.schema[settings.updated_at]
        days = Segments.of(FILED, kind, interval="1d", offset="0s", zone=settings.time_zone, nulls_lowest=True)
        self.fingerprint = settings.fingerprint
        self.tables = tables.in_order(placed=bool(settings.placed_by))
        self.views = view_specs(settings)
        self._settings = settings
        self._repeats = Repeats(settings, tables)
        filing = Filing(settings, self._repeats)
        self._step = RetractionStep(settings, tables, days, filing, engine, queries)
        self._views = RetractionViews(settings, tables, self._step, engine)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """What a batch does to the tables; see `Service.step`."""
        return self._step.step(batch, snapshot)

    def roll(self, cut: date, snapshot: Snapshot) -> Step:
        """Move the days before a cut into the past, or put the user's table, as of the cut, in the past's place.

        Raises:
            ConfigError: the past reaches farther already.
        """
        return self._step.roll(cut, snapshot)

    def day_of(self, moment: datetime) -> date:
        """The day of a moment, in the pipeline's zone."""
        return self._step.day_of(moment)

    def repeats(self, snapshot: Snapshot) -> int | None:
        """How many repeats have been passed over; see `Service.repeats`."""
        return self._repeats.count(snapshot) if self._settings.placed_by else None

    def view(
        self, name: str, snapshot: Snapshot, *, as_of: datetime | None = None, since: Snapshot | None = None
    ) -> nw.LazyFrame[Any]:
        """Answer a view; see `Service.view`."""
        spec = self.known(name)
        if as_of is not None or since is not None:
            raise ConfigError(f"view {name!r} is of all that is known; ask for by_day, or at an earlier epoch")
        return self._views.view(spec, snapshot)

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """How a view changed; see `Service.view_changes`."""
        return self._views.changes(self.known(name), before, after)
