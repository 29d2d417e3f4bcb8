"""What cumulate windows answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Matching
from ..changelog.net import net_changes
from ..groups import from_key
from ..schema import Column, Schema, column
from ..service import ViewSpec
from .panes import PANE, WINDOW
from .settings import GROUPING, REVISION, TICK, WINDOW_START
from .tables import distinct_of, extreme_of

if TYPE_CHECKING:
    from datetime import datetime

    from ..ledger import Snapshot
    from ..measures import Measure
    from ..ports import FrameEngine
    from .settings import CumulateSettings
    from .tables import CumulateTables
    from .ticks import Ticks


def view_specs(settings: CumulateSettings) -> tuple[ViewSpec, ...]:
    """The views of cumulate windows, the default one first."""
    times = (column(WINDOW_START, "timestamp"), column(TICK, "timestamp"))
    dimensions = settings.dimension_schema
    measures = tuple(Column(measure.name, measure.type) for measure in settings.measures)
    ticks = Schema((*times, column(GROUPING, "string"), *dimensions.columns, *measures, column(REVISION, "bigint")))
    key = (WINDOW_START, TICK, GROUPING, *dimensions.names)
    return (
        ViewSpec("ticks", ticks, key, key, "what each group had come to at each tick, as known now"),
        ViewSpec(
            "revisions", ticks, (*key, REVISION), (*key, REVISION), "the same, with what it was before late rows came"
        ),
    )


@frozen(eq=False)
class CumulateViews:
    """The views of one pipeline."""

    settings: CumulateSettings
    tables: CumulateTables
    ticks: Ticks
    engine: FrameEngine

    def view(self, spec: ViewSpec, snapshot: Snapshot, as_of: datetime | None) -> nw.LazyFrame[Any]:
        """A view's rows; of ticks up to a moment where one is given."""
        rows = self._rows(spec, snapshot, None)
        return rows if as_of is None else rows.filter(nw.col(TICK) <= as_of)

    def changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Net row kinds of a view between two snapshots, from those ticks alone that were made in between."""
        made, name = after.changes_since(before, self.tables.ticks.name), self.tables.ticks.name
        if made is None:
            made = after.read(name).head(0)
        ticks = self.engine.persist(made.select(*self.tables.group, PANE).unique())
        old, new = (self._rows(spec, at, ticks) for at in (before, after))
        return net_changes(old, new, spec.key)

    def _rows(self, spec: ViewSpec, snapshot: Snapshot, keys: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        matching = Matching(keys)
        if spec.name == "revisions":
            rows = snapshot.read(self.tables.ticks.name, matching)
        else:
            rows = self.ticks.newest(snapshot, matching)
        answered = from_key(rows, self.settings.dimension_schema).with_columns(
            nw.col(PANE), *(_answer(measure) for measure in self.settings.measures)
        )
        for micros, moment in ((WINDOW, WINDOW_START), (PANE, TICK)):
            answered = self.engine.from_wall_micros(answered, micros, into=moment, zone="UTC")
        return answered.select(*spec.schema.names)


def _answer(measure: Measure) -> nw.Expr:
    if not measure.counted:
        return measure.summed()
    kept = distinct_of if measure.aggregate.function == "count_distinct" else extreme_of
    return nw.col(kept(measure)).alias(measure.name)
