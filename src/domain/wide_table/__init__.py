"""Partial-update wide table: the newest of what several topics say of a key, one row a key, without a join.

Each topic is merged into columns of its own by the sequence that its records carry: a record applies where it is not
older than what stands. A delete empties the columns of its topic, and is kept as its newest record, so that an older
record that comes late does not bring them back; a delete of the *owner* hides the row for as long as it is the owner's
newest record. Where a record may speak for some columns alone, each column is kept by its own sequence.

The sequence group follows Paimon's partial-update engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..segments import Segments
from ..service import Service
from .etl import TopicEtl
from .horizon import Horizon
from .settings import ABSENT_MEANS, GENERATORS, NULLS, Derived, TopicSettings, WideTableSettings
from .step import WideTableStep
from .tables import WideTables
from .views import WideTableViews, view_specs

if TYPE_CHECKING:
    from datetime import datetime

    import narwhals as nw

    from ..epoch import Batch
    from ..ledger import Snapshot
    from ..ports import FrameEngine, QueryEngine
    from ..service import Step

__all__ = ["ABSENT_MEANS", "GENERATORS", "NULLS", "Derived", "TopicSettings", "WideTable", "WideTableSettings"]


class WideTable(Service):
    """One row a key, of the newest that each topic of a group says of it.

    Its batches are those of a `TopicGroup` whose members are the settings' topics, in their order.

    Args:
        settings: the key and the topics.
        engine: of the frames that `step` and the views are given.
        queries: evaluates the SQL of topics.
    """

    def __init__(self, settings: WideTableSettings, engine: FrameEngine, queries: QueryEngine) -> None:
        tables = WideTables.of(settings)
        count = len(settings.topics)
        etl = tuple(TopicEtl(kept, at, count, engine, queries) for at, kept in enumerate(tables.kept))
        self.fingerprint = settings.fingerprint
        self.tables = tables.in_order
        self.views = view_specs(settings)
        self._settings = settings
        self._step = WideTableStep(settings, tables, etl, engine, _horizon(settings, tables, etl, engine))
        self._views = WideTableViews(settings, tables, engine)

    def changed(self, fingerprint: str) -> str | None:
        """What differs from other settings beside new topics and columns; see `Service.changed`."""
        return self._settings.changed(fingerprint)

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """What a batch does to the tables; see `Service.step`."""
        return self._step.step(batch, snapshot)

    def view(
        self, name: str, snapshot: Snapshot, *, as_of: datetime | None = None, since: Snapshot | None = None
    ) -> nw.LazyFrame[Any]:
        """Answer a view; see `Service.view`."""
        spec = self.known(name)
        if as_of is not None or since is not None:
            raise ConfigError(f"view {name!r} is of all that is known; ask for it at an earlier epoch")
        return self._views.view(spec, snapshot)

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """How a view changed; see `Service.view_changes`."""
        return self._views.changes(self.known(name), before, after)


def _horizon(
    settings: WideTableSettings, tables: WideTables, topics: tuple[TopicEtl, ...], engine: FrameEngine
) -> Horizon | None:
    """What forgets rows that are gone; None where they are remembered for ever."""
    owner = next((each for each in topics if each.kept.topic.owner), None)
    if settings.tombstones is None or tables.tombstones is None or owner is None:
        return None
    kind = owner.kept.topic.schema[owner.kept.topic.event_time or ""]
    days = Segments.of(owner.time, kind, interval="1d", offset="0s", zone="UTC", nulls_lowest=False)
    return Horizon(owner, tables.wide, tables.tombstones, settings.tombstones, days, engine)
