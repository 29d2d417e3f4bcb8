"""Cumulate windows: the day so far, a point a minute, that never dips and is drawn the same again.

Rows add to *panes*, a step of event time each. When the watermark passes the end of a pane, every group gets its
*tick* there: what all panes of the window came to up to then,

    sum of the panes before + sum of the panes closed now

All ticks of a step are made of the same panes at the same watermark, so parts sum to the whole. What the closed panes
came to is kept for each group, so an epoch looks at none of them again.

The window and its name are those of Flink's table-valued function CUMULATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..service import Service
from .lateness import Lateness
from .revisions import Revisions
from .settings import LATE, TICKS, CumulateSettings
from .sketches import Sketch
from .step import CumulateStep
from .tables import CumulateTables
from .ticks import Ticks
from .values import Values
from .views import CumulateViews, view_specs

if TYPE_CHECKING:
    from datetime import datetime

    import narwhals as nw

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine, QueryEngine
    from ..service import Step

__all__ = ["LATE", "TICKS", "Cumulate", "CumulateSettings"]


class Cumulate(Service):
    """Measures of each group from a window's start to each step of it.

    Args:
        settings: what to draw.
        engine: of the frames that `step` and the views are given.
        queries: evaluates the SQL of measures.
    """

    def __init__(self, settings: CumulateSettings, engine: FrameEngine, queries: QueryEngine) -> None:
        tables, panes = CumulateTables.of(settings), settings.panes
        ticks = Ticks(tables, panes, settings.ticks == "dense", engine)
        beside = (measure for measure in settings.measures if measure.name in tables.kept)
        kept = {
            each.name: (Sketch if each.estimated else Values)(each, tables.kept[each.name], engine) for each in beside
        }
        self.fingerprint = settings.fingerprint
        self.tables = tables.in_order
        self.views = view_specs(settings)
        revisions = Revisions(tables, panes, ticks, engine, settings.measures)
        lateness = Lateness(panes, settings.event_time, settings.watermark_delay, engine)
        self._step = CumulateStep(settings, tables, panes, ticks, revisions, lateness, kept, engine, queries)
        self._views = CumulateViews(settings, tables, panes, ticks, engine)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """What a batch does to the tables; see `Service.step`."""
        return self._step.step(batch, snapshot)

    def idle(self, until: datetime, snapshot: Snapshot) -> Step | None:
        """The ticks of panes that an idle source is done with; see `Service.idle`."""
        return self._step.idle(until, snapshot)

    def view(
        self, name: str, snapshot: Snapshot, *, as_of: datetime | None = None, since: Snapshot | None = None
    ) -> nw.LazyFrame[Any]:
        """Answer a view; see `Service.view`. `as_of` leaves out later ticks."""
        spec = self.known(name)
        if since is not None:
            raise ConfigError(f"view {name!r} is asked at one epoch, not between two")
        return self._views.view(spec, snapshot, as_of)

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """How a view changed; see `Service.view_changes`."""
        return self._views.changes(self.known(name), before, after)
