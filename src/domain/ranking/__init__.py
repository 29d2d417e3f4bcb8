"""Ranking with a historical snapshot: which event of its group is this, over all history, now?

Each row is kept with its rank inside its *cell*, the rows of one group in one segment of the order value. A cell's
count says by how much it lifts all later cells of the group, so a rank is

    base (counts of the group's earlier cells) + rank inside the cell

taken from one snapshot. Descending ranks are the ascending ones counted from the group's end. The base is derived from
the cells on read (docs/adr/0003): keeping it as a zipper table would cost a third commit an epoch.

The scheme is that of a published Flink and Paimon pattern, without its feedback loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..segments import Segments
from ..service import Service
from .settings import METHODS, RankingSettings
from .step import RankingStep
from .tables import RankingTables
from .views import RankingViews, view_specs

if TYPE_CHECKING:
    from datetime import datetime

    import narwhals as nw

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from ..service import Step

__all__ = ["METHODS", "Ranking", "RankingSettings"]


class Ranking(Service):
    """The exact rank of each event within its group over all history.

    Args:
        settings: what to rank by.
        engine: of the frames that `step` and the views are given.

    Raises:
        ConfigError: the order column cannot be cut into segments.
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
        self.tables = (tables.letters, tables.ranked, tables.cells)
        self.views = view_specs(settings)
        self._step = RankingStep(settings, tables, segments, engine)
        self._views = RankingViews(settings, tables, segments, engine)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """What a batch does to the tables; see `Service.step`."""
        return self._step.step(batch, snapshot)

    def view(
        self, name: str, snapshot: Snapshot, *, as_of: datetime | None = None, since: Snapshot | None = None
    ) -> nw.LazyFrame[Any]:
        """Answer a view; see `Service.view`. `as_of` leaves out rows whose order value is later."""
        spec = self.known(name)
        if not spec.between:
            return self._views.view(spec, snapshot, as_of)
        if since is None or as_of is not None:
            raise ConfigError(f"view {name!r} is asked between two epochs, not as of a time")
        return self._views.moves(self.known("ranks"), since, snapshot)

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """How a keyed view changed; see `Service.view_changes`."""
        spec = self.known(name)
        if not spec.key:
            keyed = ", ".join(spec.name for spec in self.views if spec.key)
            raise ConfigError(f"view {name!r} has no key, so its changes cannot be told; possible: {keyed}")
        return self._views.changes(spec, before, after)
