"""The result of a SQL query over other pipelines' tables, maintained incrementally.

An epoch reads all inputs as of one event time. It traces their changed rows to the affected keys of the view, reads the
input rows of these keys, and runs the user-supplied query over those rows only. The result replaces the rows of the
affected keys, with one net change per key.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import narwhals as nw

from ...epoch.batch import Batch
from ...epoch.epoch import Publication
from ...errors import ConfigError
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine, QueryEngine
from ...table.change import Matching
from ...table.net_changes import net_changes
from ...table.query_columns import check_view_columns
from ...table.view_spec import ViewSpec
from ..base import ReadAt, Service, Step
from .declared_columns import check_declared
from .derivation import SourceExpr
from .names import had_shared_names
from .nulls import explain_nulls
from .plan import ViewPlan
from .routes import Route, Routes, routes
from .settings import ALIGN, ALL, Shapes, ViewSettings, check_query
from .step import ViewStep
from .tables import EPOCH, RECOMPUTED, RECOMPUTED_COLUMNS, ROWS, ViewTables

__all__ = [
    "ALIGN",
    "ALL",
    "MaterializedView",
    "Route",
    "Routes",
    "Shapes",
    "SourceExpr",
    "ViewPlan",
    "ViewSettings",
    "check_declared",
    "check_query",
]


class MaterializedView(Service):
    """The service of one materialized view.

    Raises:
        ConfigError: the query cannot be maintained by its key, or a column does not exist or has a name that is taken.
    """

    def __init__(self, settings: ViewSettings, shapes: Shapes, engine: FrameEngine, queries: QueryEngine) -> None:
        schema = shapes.schema
        check_view_columns(schema.names)
        if missing := [name for name in settings.key if name not in schema]:
            raise ConfigError(f"key: the query has no column {missing[0]!r}; it has: {', '.join(schema.names)}")
        self.routes = routes(settings, shapes)
        self.view_tables = ViewTables.of(settings, shapes, self.routes)
        indexed = [(each.input, each.exprs) for each in self.view_tables.indexes.values()]
        # Rows that may be wrong are computed again.
        self.fingerprint = settings.fingerprint + ("-renamed" if had_shared_names(self.routes, indexed) else "")
        self.tables = self.view_tables.in_order
        moments = settings.aligned or all(each.moments for each in shapes.inputs.values())
        shown = None if settings.align == "newest" else moments
        self.nulls = explain_nulls(self.routes.nullable, schema)
        about = "; ".join(filter(None, ("the query's rows, one per key", self.nulls)))
        rows = ViewSpec(ROWS, schema, settings.key, settings.key, about, moments=shown)
        about = "how much each epoch recomputed, and the event time it shows"
        self.views = (rows, ViewSpec(RECOMPUTED, RECOMPUTED_COLUMNS, (EPOCH,), (EPOCH,), about))
        self.settings = settings
        self._step = ViewStep(settings, self.view_tables, self.routes, rows, engine, queries)

    def changed(self, fingerprint: str) -> str | None:  # noqa: ARG002 - any change is allowed
        """None: after any change of its settings, the whole view is recomputed; see `Service.changed`."""
        return None

    def recomputes(self, fingerprint: str) -> bool:
        """Whether its settings have changed; see `Service.recomputes`."""
        return fingerprint != self.fingerprint

    def views_read(self, publication: Publication) -> Mapping[str, str]:
        return ViewPlan.of(publication.offsets).views

    def complete_to(self, publication: Publication) -> datetime | None:
        return ViewPlan.of(publication.offsets).watermark

    def exact_as_of(self, publication: Publication) -> datetime | None:
        return ViewPlan.of(publication.offsets).as_of

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """Recompute the rows that the changes of the inputs affect; see `Service.step`."""
        return self._step.step(batch, snapshot)

    def read(self, spec: ViewSpec, at: ReadAt) -> nw.LazyFrame[Any]:
        return at.snapshot.read(f"{self.settings.pipeline}.{spec.name}")

    def lookup(self, name: str, at: ReadAt, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return at.snapshot.read(f"{self.settings.pipeline}.{self.known(name).name}", Matching(keys))

    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        table = f"{self.settings.pipeline}.{spec.name}"
        if spec.name != ROWS:
            return net_changes(before.read(table), after.read(table), spec.key)
        changed = after.changes_since(before, table)
        if changed is None:
            empty = after.read(table).head(0)
            return net_changes(empty, empty, spec.key)
        return changed
