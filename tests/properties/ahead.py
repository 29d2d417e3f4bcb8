"""Services whose steps are prepared in every other epoch, as a run does with what it reads ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.domain.service.cumulate import Cumulate
from headwater.domain.service.ranking import Ranking

if TYPE_CHECKING:
    from headwater.domain.epoch.batch import Batch
    from headwater.domain.ledger.ledger import Snapshot
    from headwater.domain.service.base import Service, Step


def _prepared(service: Service, batch: Batch) -> Batch:
    return service.prepare(batch) if batch.epoch.number % 2 and not batch.replay else batch


class PreparedRanking(Ranking):
    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        return super().step(_prepared(self, batch), snapshot)


class PreparedCumulate(Cumulate):
    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        return super().step(_prepared(self, batch), snapshot)
