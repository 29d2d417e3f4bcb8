"""Snapshots: tables that a batch stage rewrites every few minutes, published together as one version.

A version is an epoch of the pipeline. It has a number, a label (the watermark up to which its inputs were complete) and
a publication that pins all its tables. A reader can finish on the version on which it started, as long as the retention
or a lease keeps that version. New publications do not affect it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import narwhals as nw

from ...epoch.batch import Batch
from ...epoch.epoch import Epoch, Publication
from ...errors import ConfigError
from ...ledger.ledger import Snapshot
from ...ledger.upcoming import Upcoming
from ...ports import FrameEngine, QueryEngine
from ...table.net_changes import align, net_changes
from ...table.schema import Schema
from ...table.view_spec import ViewSpec
from ..base import ReadAt, Service, Step
from ..input import PlainTable, ViewOf, parse_query
from .plan import NOTHING_YET, Plan, Schedule
from .settings import MARKERS, WHEN, Input, SnapshotSettings
from .step import SnapshotsStep
from .tables import MARKER, VERSION, marker_table, published_tables

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
    "parse_query",
]


class Snapshots(Service):
    """A snapshots pipeline."""

    def __init__(self, settings: SnapshotSettings, engine: FrameEngine, queries: QueryEngine) -> None:
        self.fingerprint = settings.fingerprint
        self.tables = (*published_tables(settings), marker_table(settings.pipeline))
        self.views = tuple(_views(settings))
        self.schedule = settings.every
        self.by_clock = settings.when == "clock"
        self.reads = settings.pipelines
        self._settings = settings
        self._step = SnapshotsStep(settings, engine, queries)

    def complete_to(self, publication: Publication) -> datetime | None:
        return Plan.of(publication.offsets).watermark

    def epochs_read(self, publication: Publication) -> Mapping[str, int | None]:
        read = Plan.of(publication.offsets).inputs
        return {name: at if isinstance(at := read.get(name), int) else None for name in self.reads}

    def views_read(self, publication: Publication) -> Mapping[str, str]:
        return Plan.of(publication.offsets).views

    def expect(self, publications: Sequence[Publication], now: datetime) -> Upcoming:
        return self._settings.schedule.expect(publications, now)

    def changed(self, fingerprint: str) -> str | None:  # noqa: ARG002 - any change is fine
        """Return None: each version is computed from scratch, so any setting may change; see `Service.changed`."""
        return None

    def recomputes(self, fingerprint: str) -> bool:
        """Whether its settings have changed; see `Service.recomputes`."""
        return fingerprint != self.fingerprint

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """Run the queries whose results may have changed; see `Service.step`."""
        return self._step.step(batch, snapshot)

    def renumber(self, epoch: Epoch, snapshot: Snapshot) -> Step:
        """The version has a marker under each of its numbers; see `Service.renumber`."""
        assert snapshot.publication is not None
        return Step(self._step.add_marker(epoch, Plan.of(snapshot.publication.offsets)), 0, 0, None)

    def read(self, spec: ViewSpec, at: ReadAt) -> nw.LazyFrame[Any]:
        """Read a published table, or the table of markers; see `Service.read`."""
        return at.snapshot.read(f"{self._settings.pipeline}.{spec.name}")

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Return the changes of a published table that has a key; see `Service.view_changes`."""
        if not self.known(name).key:
            raise ConfigError(f'table {name!r} has no key; add it: keys = {{ {name} = ["…"] }}')
        return super().view_changes(name, before, after)

    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        old, new = (self.read(spec, ReadAt(each)) for each in (before, after))
        return net_changes(*align(old, new, spec.key), spec.key)


def _views(settings: SnapshotSettings) -> list[ViewSpec]:
    views = [
        ViewSpec(name, Schema(()), settings.keys.get(name, ()), settings.keys.get(name, ()), "the published table")
        for name in settings.tables
    ]
    return [*views, ViewSpec(MARKERS, MARKER, (VERSION,), (VERSION,), "one row per version")]
