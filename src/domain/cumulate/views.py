"""What cumulate windows answer."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Matching
from ..changelog.net import net_changes
from ..collect import collect_small
from ..errors import ConfigError
from ..groups import from_key
from ..schema import Column, Schema, column
from ..service import ViewSpec
from .answers import answer
from .lateness import ROUND
from .panes import PANE, WINDOW
from .settings import GROUPING, REVISION, TICK, WINDOW_START, grouping_of, label_of

if TYPE_CHECKING:
    from datetime import datetime

    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from .panes import Panes
    from .settings import CumulateSettings
    from .tables import CumulateTables
    from .ticks import Ticks

_FIRST, _LAST, _UNTIL = "_first", "_last", "_until"


def view_specs(settings: CumulateSettings) -> tuple[ViewSpec, ...]:
    """The views of cumulate windows, the default one first."""
    measures = tuple(Column(measure.name, measure.type) for measure in settings.measures)
    several = len(settings.dimensions) > 1
    dimensions, revision = settings.dimension_schema, column(settings.named(REVISION), "bigint")
    grouping = column(settings.named(GROUPING), "string")
    times = _times(settings)
    ticks = Schema((*times, grouping, *dimensions.columns, *measures, revision))
    sort = (*(each.name for each in times), grouping.name, *dimensions.names)
    # Rows of several sets have no name in common: outside its set, a dimension is null.
    key = () if several else sort
    first = label_of(settings.dimensions[0])
    return (
        ViewSpec("ticks", ticks, key, sort, "what each group had come to at each tick, as known now"),
        ViewSpec(
            "revisions",
            ticks,
            (),
            (*sort, revision.name),
            "the ticks, and what they were before late rows changed them",
        ),
        ViewSpec("curve", *_curve(settings, settings.dimensions[0]), f"the newest window of {first}, every step of it"),
        *(_ticks_of(settings, each) for each in settings.dimensions if several),
        *(
            ViewSpec(f"curve_{label_of(each)}", *_curve(settings, each), f"the same of {label_of(each)}")
            for each in settings.dimensions
            if several
        ),
    )


def _ticks_of(settings: CumulateSettings, dimensions: tuple[str, ...]) -> ViewSpec:
    label, (schema, _, key) = label_of(dimensions), _curve(settings, dimensions)
    return ViewSpec(
        f"ticks_{label}", schema.plus(column(settings.named(REVISION), "bigint")), key, key, f"the ticks of {label}"
    )


def _curve(settings: CumulateSettings, dimensions: tuple[str, ...]) -> tuple[Schema, tuple[str, ...], tuple[str, ...]]:
    measures = (Column(measure.name, measure.type) for measure in settings.measures)
    start, tick = _times(settings)
    schema = Schema((start, tick, *settings.schema.select(dimensions).columns, *measures))
    return schema, (), (start.name, *dimensions, tick.name)


def _times(settings: CumulateSettings) -> tuple[Column, Column]:
    """The columns of the window's start and of the tick."""
    return column(settings.named(WINDOW_START), "timestamp"), column(settings.named(TICK), "timestamp")


@frozen(eq=False)
class CumulateViews:
    """The views of one pipeline."""

    settings: CumulateSettings
    tables: CumulateTables
    panes: Panes
    ticks: Ticks
    engine: FrameEngine

    def view(self, spec: ViewSpec, snapshot: Snapshot, as_of: datetime | None) -> nw.LazyFrame[Any]:
        """A view's rows; of ticks up to a moment where one is given."""
        kind, _, label = spec.name.partition("_")
        if kind == "curve":
            return self._answered(self._curve(label, snapshot, as_of), spec)
        rows = self._answered(self._rows(kind, label, snapshot, None), spec)
        return rows if as_of is None else rows.filter(nw.col(self.settings.named(TICK)) <= as_of)

    def changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Net row kinds of a view between two snapshots, from those ticks alone that were made in between."""
        if not spec.key:
            raise ConfigError(f"view {spec.name!r} has no key, so its changes cannot be told; ask for one set's ticks")
        kind, _, label = spec.name.partition("_")
        made = after.changes_since(before, self.tables.points.name)
        if made is None:
            made = after.read(self.tables.points.name).head(0)
        ticks = self.engine.persist(made.select(*self.tables.group, PANE).unique())
        old, new = (self._answered(self._rows(kind, label, at, ticks), spec) for at in (before, after))
        return net_changes(old, new, spec.key)

    def _rows(self, kind: str, label: str, snapshot: Snapshot, keys: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        """Ticks, or all their revisions; of one dimension set where its label is given."""
        within = {self.settings.named(GROUPING): (grouping_of(self._set(label)),)} if label else {}
        matching = Matching(keys, within)
        if kind == "revisions":
            rows = snapshot.read(self.tables.points.name, matching)
            return rows.unique([*self.tables.group, PANE, self.tables.revision], keep="first", order_by=[ROUND])
        return self.ticks.newest(snapshot, matching)

    def _curve(self, label: str, snapshot: Snapshot, as_of: datetime | None) -> nw.LazyFrame[Any]:
        """Every step of a window for each group of a dimension set that ticked in it; null where there is no tick."""
        grouping = grouping_of(self._set(label))
        until = self._until(snapshot, as_of)
        within: dict[str, Any] = {self.settings.named(GROUPING): (grouping,)}
        if (window := self._window(snapshot, within, as_of)) is None:
            return snapshot.read(self.tables.points.name).head(0)
        ticks = self.ticks.newest(snapshot, Matching(within={**within, WINDOW: (window,)}))
        ticks = self.engine.persist(ticks.filter(nw.col(PANE) <= until))
        groups = ticks.select(*self.tables.group).unique()
        groups = groups.with_columns(nw.lit(until).cast(nw.Int64).alias(_UNTIL), nw.lit(1).cast(nw.Int64).alias(_FIRST))
        groups = self.panes.number(groups, _UNTIL, self.engine, into=_LAST)
        steps = self.panes.each(groups, _FIRST, _LAST, self.engine, into=PANE).select(*self.tables.group, PANE)
        return steps.join(ticks, on=[*self.tables.group, PANE], how="left")

    def _until(self, snapshot: Snapshot, as_of: datetime | None) -> int:
        """The newest step that a curve can have."""
        watermark = snapshot.publication.watermark if snapshot.publication else None
        known = [moment for moment in (watermark, as_of) if moment is not None]
        return self.panes.reached(min(known)) if known else 0

    def _window(self, snapshot: Snapshot, within: dict[str, Any], as_of: datetime | None) -> int | None:
        """The window of a moment, its end belonging to it; else the newest one that has a tick."""
        if as_of is not None:
            return self.panes.window_of(self.panes.micros(as_of - timedelta(microseconds=1)))
        points = snapshot.read(self.tables.points.name, Matching(within=within))
        (newest,) = collect_small(points.select(nw.col(WINDOW).max()))
        found: int | None = newest[WINDOW]
        return found

    def _set(self, label: str) -> tuple[str, ...]:
        sets = self.settings.dimensions
        return next((each for each in sets if label_of(each) == label), sets[0])

    def _answered(self, rows: nw.LazyFrame[Any], spec: ViewSpec) -> nw.LazyFrame[Any]:
        """Rows with what they tell of groups, times and measures, in a view's columns."""
        answered = from_key(rows, self.settings.dimension_schema).with_columns(
            nw.col(PANE), *(answer(measure) for measure in self.settings.measures)
        )
        for micros, moment in ((WINDOW, WINDOW_START), (PANE, TICK)):
            answered = self.engine.from_wall_micros(answered, micros, into=self.settings.named(moment), zone="UTC")
        return answered.select(*spec.schema.names)
