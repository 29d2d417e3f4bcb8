"""Versions of tables that a batch stage writes anew every few minutes, each as a whole, all at one moment.

A version is an epoch of the pipeline: its number, the label that says up to which watermark its inputs were complete,
and the publication that pins all its tables. A reader that began on a version finishes on it, whatever is published
meanwhile, for as long as the retention or a lease keeps it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..changelog.net import aligned, net_changes
from ..errors import ConfigError
from ..input import ViewOf
from ..label import Label
from ..plain_table import PlainTable
from ..schema import Schema
from ..service import Service, ViewSpec
from .plan import NOTHING_YET, Plan, Schedule
from .settings import WHEN, Input, SnapshotSettings, checked_query
from .step import SnapshotsStep
from .tables import MARKER, MARKERS, VERSION, markers, published

if TYPE_CHECKING:
    from datetime import datetime

    import narwhals as nw

    from ..epoch import Batch, Publication
    from ..ledger import Snapshot
    from ..ports import FrameEngine, QueryEngine
    from ..service import Step

__all__ = [
    "NOTHING_YET",
    "WHEN",
    "Input",
    "PlainTable",
    "Plan",
    "Schedule",
    "SnapshotSettings",
    "Snapshots",
    "ViewOf",
    "checked_query",
]


class Snapshots(Service):
    """One snapshots pipeline, wired from its settings."""

    def __init__(self, settings: SnapshotSettings, engine: FrameEngine, queries: QueryEngine) -> None:
        self.fingerprint = settings.fingerprint
        self.tables = (*published(settings), markers(settings.pipeline))
        self.views = tuple(_views(settings))
        self.schedule = settings.every
        self._settings = settings
        self._step = SnapshotsStep(settings, engine, queries)

    def label(self, publication: Publication) -> Label | None:
        """The watermark of a version's own inputs, which an input that joined them later may have set back."""
        watermark = Plan.of(publication.offsets).watermark
        return Label(watermark) if watermark else None

    def changed(self, fingerprint: str) -> str | None:  # noqa: ARG002 - whatever it was
        """Every version is made anew, so nothing stands in the way; see `Service.changed`."""
        return None

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """Answer every query from the batch's inputs; see `Service.step`."""
        return self._step.step(batch, snapshot)

    def view(
        self, name: str, snapshot: Snapshot, *, as_of: datetime | None = None, since: Snapshot | None = None
    ) -> nw.LazyFrame[Any]:
        """The rows of a published table, or the markers; see `Service.view`."""
        spec = self.known(name)
        if as_of is not None or since is not None:
            raise ConfigError(f"view {name!r} is asked at a version or its label, not as of an event time")
        return snapshot.read(f"{self._settings.pipeline}.{spec.name}")

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """How a published table with a key changed; see `Service.view_changes`."""
        spec = self.known(name)
        if not spec.key:
            raise ConfigError(f'table {name!r} has no key; add it: keys = {{ {name} = ["…"] }}')
        return net_changes(*aligned(self.view(name, before), self.view(name, after), spec.key), spec.key)


def _views(settings: SnapshotSettings) -> list[ViewSpec]:
    views = [
        ViewSpec(name, Schema(()), settings.keys.get(name, ()), settings.keys.get(name, ()), "the published table")
        for name in settings.tables
    ]
    return [*views, ViewSpec(MARKERS, MARKER, (VERSION,), (VERSION,), "one row a version")]
