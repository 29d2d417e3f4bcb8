"""Partial-update wide table: the newest values of several topics that share a key, in one row per key, without a join.

The records of each topic are merged into the topic's own columns. A record applies if its sequence is not lower than
the stored one. A delete empties the columns of its topic and is stored as the topic's newest record, so an older record
that arrives late does not bring the values back. A delete of the *owner* hides the row as long as it is the owner's
newest record. If a record may set only some of the topic's columns, each column has its own sequence.

The sequence group follows Paimon's partial-update engine.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw

from ...epoch.batch import Batch
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine, QueryEngine
from ...table.change import Matching
from ...table.view_spec import ViewSpec
from ..base import ReadAt, Service, Step
from ..segments import Segments
from .etl import TopicEtl
from .horizon import Horizon
from .settings import ABSENT_MEANS, GENERATORS, NULLS, Derived, TopicSettings, WideTableSettings, topics_of
from .step import WideTableStep
from .tables import WideTables
from .views import COMPLETENESS, WideTableViews, view_specs

__all__ = ["ABSENT_MEANS", "GENERATORS", "NULLS", "Derived", "TopicSettings", "WideTable", "WideTableSettings"]


class WideTable(Service):
    """One row per key, with the newest values of each topic.

    Its batches come from a `TopicGroup` whose members are the topics of the settings, in the same order.
    """

    def __init__(self, settings: WideTableSettings, engine: FrameEngine, queries: QueryEngine) -> None:
        tables = WideTables.of(settings)
        count = len(settings.topics)
        etl = tuple(TopicEtl(topic, at, count, engine, queries) for at, topic in enumerate(tables.topics))
        self.fingerprint = settings.fingerprint
        self.tables = tables.in_order
        self.views = view_specs(settings)
        self._settings = settings
        self._step = WideTableStep(settings, tables, etl, engine, _horizon(settings, tables, etl, engine))
        self._views = WideTableViews(settings, tables, engine)

    def changed(self, fingerprint: str) -> str | None:
        """Return the settings that differ, without new topics and columns; see `Service.changed`."""
        return self._settings.changed(fingerprint)

    def changed_views(self, fingerprint: str) -> frozenset[str]:
        """`completeness` if there are other topics: it says of every key whether a topic has reported it.

        The fingerprints of earlier versions have the topics, too.
        """
        built = topics_of(fingerprint)
        return frozenset({COMPLETENESS}) if built and built != topics_of(self.fingerprint) else frozenset()

    def view_settings(self, name: str) -> str | None:
        """The topics, for `completeness`; see `changed_views`."""
        return ", ".join(sorted(topics_of(self.fingerprint))) if name == COMPLETENESS else None

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        return self._step.step(batch, snapshot)

    def read(self, spec: ViewSpec, at: ReadAt) -> nw.LazyFrame[Any]:
        return self._views.view(spec, at.snapshot, Matching())

    def lookup(self, name: str, at: ReadAt, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return self._views.view(self.known(name), at.snapshot, Matching(keys))

    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        return self._views.changes(spec, before, after)


def _horizon(
    settings: WideTableSettings, tables: WideTables, topics: tuple[TopicEtl, ...], engine: FrameEngine
) -> Horizon | None:
    """Return the expiry of deleted rows; None if deleted rows never expire."""
    owner = next((each for each in topics if each.columns.topic.owner), None)
    if settings.tombstones is None or tables.tombstones is None or owner is None:
        return None
    kind = owner.columns.topic.schema[owner.columns.topic.event_time or ""]
    days = Segments.of(owner.time, kind, interval="1d", offset="0s", zone="UTC", nulls_lowest=False)
    return Horizon(owner, tables.wide, tables.tombstones, settings.tombstones, days, engine)
