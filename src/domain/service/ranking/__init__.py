"""Ranking: the rank of each event in its group over all history.

Each row is stored with its rank inside its *cell*: the rows of one group in one segment of the order value. The count
of a cell is added to the ranks of all later cells of the group. So a rank is

    base (the counts of the group's earlier cells) + rank inside the cell

both from one snapshot. Descending ranks are ascending ranks counted from the end of the group. The base is computed
from the cells when it is read (docs/adr/0003): a stored base would cost a third commit per epoch.

The scheme is that of a published Flink and Paimon pattern, without its feedback loop.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw

from ...epoch.batch import Batch
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...table.fingerprint import add_found_by
from ...table.view_spec import ViewSpec
from ..base import ReadAt, Service, Step
from .settings import METHODS, RankingSettings
from .step import RankingStep
from .tables import RankingTables
from .views import RANKS, RankingViews, view_specs

__all__ = ["METHODS", "Ranking", "RankingSettings"]


class Ranking(Service):
    """The exact rank of each event in its group over all history.

    Raises:
        ConfigError: the order column cannot be divided into segments.
    """

    def __init__(self, settings: RankingSettings, engine: FrameEngine) -> None:
        tables = RankingTables.of(settings)
        segments = settings.segments
        self._settings, self.fingerprint = settings, settings.fingerprint
        self.tables = (tables.dead_letters, tables.ranked, tables.cells)
        self.views = view_specs(settings)
        self._step = RankingStep(settings, tables, segments, engine)
        self._views = RankingViews(settings, tables, segments, engine)

    def changed(self, fingerprint: str) -> str | None:
        return self._settings.changed(fingerprint)

    def fingerprint_after(self, fingerprint: str) -> str:
        return add_found_by(fingerprint, self.fingerprint)

    def prepare(self, batch: Batch) -> Batch:
        return self._step.prepare(batch)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        return self._step.step(batch, snapshot)

    def read(self, spec: ViewSpec, at: ReadAt) -> nw.LazyFrame[Any]:
        """Return the rows of a view; see `Service.read`. `as_of` excludes rows whose order value is later."""
        if at.since is not None:
            return self._views.rank_changes(self.known(RANKS), at.since, at.snapshot)
        return self._views.view(spec, at.snapshot, at.as_of)

    def lookup(self, name: str, at: ReadAt, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        if name != RANKS or at.as_of is not None:  # these rank whole groups again
            return super().lookup(name, at, keys)
        return self._views.find_ranks(self.known(name), at.snapshot, keys)

    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        return self._views.changes(spec, before, after)
