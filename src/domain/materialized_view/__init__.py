"""A SQL result over tables of other pipelines, kept fresh by computing anew what their changes concern.

An epoch takes all inputs as of one event time, finds the keys of the view that their changed rows lead to, reads what
the rows of these keys are made of, and runs the user's query over that alone. What comes out replaces the rows of those
keys: one net change a key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..change import Matching
from ..changelog.net import net_changes
from ..errors import ConfigError
from ..input import ViewOf
from ..service import Service, ViewSpec
from .lineage import Term
from .plan import ViewPlan
from .routes import Route, Routes, routes
from .settings import ALIGN, ALL, Shapes, ViewSettings, check_query
from .step import ViewStep
from .tables import EPOCH, RECOMPUTED, RECOMPUTED_COLUMNS, ROWS, ViewTables

if TYPE_CHECKING:
    from datetime import datetime

    import narwhals as nw

    from ..epoch import Batch, Publication
    from ..ledger import Snapshot
    from ..ports import FrameEngine, QueryEngine
    from ..service import ReadAt, Step

__all__ = [
    "ALIGN",
    "ALL",
    "MaterializedView",
    "Route",
    "Routes",
    "Shapes",
    "Term",
    "ViewOf",
    "ViewPlan",
    "ViewSettings",
    "check_query",
]


class MaterializedView(Service):
    """One view, wired from its settings.

    Args:
        settings: what it is.
        shapes: the columns that it is made of.
        engine: of the frames.
        queries: runs its SQL.

    Raises:
        ConfigError: with the reason why the query cannot be kept by its key, or columns that are not there.
    """

    def __init__(self, settings: ViewSettings, shapes: Shapes, engine: FrameEngine, queries: QueryEngine) -> None:
        schema = shapes.schema
        if missing := [name for name in settings.key if name not in schema]:
            raise ConfigError(f"key: the query has no column {missing[0]!r}; it has: {', '.join(schema.names)}")
        self.routes = routes(settings, shapes)
        self.kept = ViewTables.of(settings, shapes, self.routes)
        self.fingerprint = settings.fingerprint
        self.tables = self.kept.in_order
        rows = ViewSpec(ROWS, schema, settings.key, settings.key, "the query's rows, a row a key")
        about = "what each epoch computed anew, and as of when"
        self.views = (rows, ViewSpec(RECOMPUTED, RECOMPUTED_COLUMNS, (EPOCH,), (EPOCH,), about))
        self.settings = settings
        self._step = ViewStep(settings, self.kept, self.routes, rows, engine, queries)

    def changed(self, fingerprint: str) -> str | None:  # noqa: ARG002 - whatever it was
        """A view of other settings is computed as a whole once more; see `Service.changed`."""
        return None

    def exact_as_of(self, publication: Publication) -> datetime | None:
        """The event time that a publication shows; see `Service.exact_as_of`."""
        return ViewPlan.of(publication.offsets).as_of

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:
        """Compute anew what the changes of the inputs concern; see `Service.step`."""
        return self._step.step(batch, snapshot)

    def view(
        self, name: str, snapshot: Snapshot, *, as_of: datetime | None = None, since: Snapshot | None = None
    ) -> nw.LazyFrame[Any]:
        """The rows of the view, or what was computed; see `Service.view`."""
        spec = self.known(name)
        if as_of is not None or since is not None:
            raise ConfigError(f"view {name!r} shows the event time of its publication; ask for it at an epoch or label")
        return snapshot.read(f"{self.settings.pipeline}.{spec.name}")

    def lookup(self, name: str, at: ReadAt, keys: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Rows by their key; see `Service.lookup`."""
        return at.snapshot.read(f"{self.settings.pipeline}.{self.known(name).name}", Matching(keys))

    def view_changes(self, name: str, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """How the view changed; see `Service.view_changes`."""
        spec = self.known(name)
        table = f"{self.settings.pipeline}.{spec.name}"
        if spec.name != ROWS:
            return net_changes(before.read(table), after.read(table), spec.key)
        changed = after.changes_since(before, table)
        if changed is None:
            none = after.read(table).head(0)
            return net_changes(none, none, spec.key)
        return changed
