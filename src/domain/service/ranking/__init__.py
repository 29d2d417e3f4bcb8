"""Ranking: the rank of each event in its group over all history.

Each row is stored with its rank inside its *cell*: the rows of one group in one segment of the order value. The count
of a cell is added to the ranks of all later cells of the group. So a rank is

    base (the counts of the group's earlier cells) + rank inside the cell

both from one snapshot. Descending ranks are ascending ranks counted from the end of the group. The base is computed
from the cells when it is read (docs/adr/0003): a stored base would cost a third commit per epoch.

The scheme is that of a published Flink and Paimon pattern, without its feedback loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ..base import Service
from ..segments import Segments
from .settings import METHODS, RankingSettings
from .step import RankingStep
from .tables import RankingTables
from .views import RankingViews, view_specs

if TYPE_CHECKING:
    from datetime import datetime

    import narwhals as nw

    from ...epoch.batch import Batch
    from ...ledger.ledger import Snapshot
    from ...ports import FrameEngine
    from ..base import Step

__all__ = ["METHODS", "Ranking", "RankingSettings"]


class Ranking(Service):
    """The exact rank of each event in its group over all history.

    Args:
        settings: the settings.
        engine: the engine of the frames that `step` and the views use.

    Raises:
        ConfigError: the order column cannot be divided into segments.
    """

    def __init__(self, settings: RankingSettings, engine: FrameEngine) -> None:
        tables = RankingTables.of(settings)
        segments = Segments.of(
            settings.order_by,
            settings.schema[settings.order_by],
            interval=settings.segment,
            offset=settings.offset,
            zone=settings.time_zone,
            nulls_lowest=(settings.nulls == "first") != settings.descending,
        )
        self.fingerprint = settings.fingerprint
        self.tables = (tables.dead_letters, tables.ranked, tables.cells)
        self.views = view_specs(settings)
        self._step = RankingStep(settings, tables, segments, engine)
        self._views = RankingViews(settings, tables, segments, engine)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """Return the changes that a batch makes to the tables; see `Service.step`."""
        return self._step.step(batch, snapshot)

    def view(
        self, name: str, snapshot: Snapshot, *, as_of: datetime | None = None, since: Snapshot | None = None
    ) -> nw.LazyFrame[Any]:
        """Return the rows of a view; see `Service.view`. `as_of` excludes rows whose order value is later."""
        spec = self.known(name)
        if not spec.between:
            return self._views.view(spec, snapshot, as_of)
        if since is None or as_of is not None:
            raise ConfigError(f"view {name!r} compares two epochs: it needs an epoch to start from, and no event time")
        return self._views.rank_changes(self.known("ranks"), since, snapshot)

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Return the changes of a view that has a key; see `Service.view_changes`."""
        spec = self.known(name)
        if not spec.key:
            keyed = ", ".join(spec.name for spec in self.views if spec.key)
            raise ConfigError(f"view {name!r} has no key, so its changes cannot be listed; views with a key: {keyed}")
        return self._views.changes(spec, before, after)
