"""The views of cumulate windows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import narwhals as nw
from attrs import frozen

from ...duration import micros_of
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...table.change import Matching
from ...table.collect import collect_small
from ...table.groups import from_key
from ...table.net_changes import net_changes
from ...table.schema import Column, Schema, column
from ...table.view_spec import ViewSpec
from ..row_changes import find_changed_groups
from .answers import answer
from .lateness import ROUND
from .panes import PANE, WINDOW, Panes
from .settings import GROUPING, REVISION, TICK, WINDOW_START, CumulateSettings, grouping_of, label_of
from .tables import CumulateTables
from .ticks import Ticks

_FIRST, _LAST, _UNTIL = "_first", "_last", "_until"


def view_specs(settings: CumulateSettings) -> tuple[ViewSpec, ...]:
    """Return the views of a pipeline, the default one first."""
    measures = tuple(Column(measure.name, measure.type) for measure in settings.measures)
    many_sets = len(settings.dimensions) > 1
    dimensions, revision = settings.dimension_schema, column(settings.column_name(REVISION), "bigint")
    grouping = column(settings.column_name(GROUPING), "string")
    times = _times(settings)
    ticks = Schema((*times, grouping, *dimensions.columns, *measures, revision))
    sort = (*(each.name for each in times), grouping.name, *dimensions.names)
    # With several sets there is no common key: a dimension that is not in the row's set is null.
    key = () if many_sets else sort
    first = label_of(settings.dimensions[0])
    return (
        ViewSpec(
            "ticks",
            ticks,
            key,
            sort,
            "the running totals of each group at each tick, latest revision",
            takes_as_of=True,
            null_keys=True,
        ),
        ViewSpec(
            "revisions",
            ticks,
            (),
            (*sort, revision.name),
            "all revisions of the ticks, also those that late rows have changed since",
            takes_as_of=True,
        ),
        ViewSpec(
            "curve",
            *_curve(settings, settings.dimensions[0]),
            f"the newest window of {first}, with every step",
            takes_as_of=True,
            curve_zone=settings.time_zone,
        ),
        *(_ticks_of(settings, each) for each in settings.dimensions if many_sets),
        *(
            ViewSpec(
                f"curve_{label_of(each)}",
                *_curve(settings, each),
                f"the newest window of {label_of(each)}, with every step",
                takes_as_of=True,
                curve_zone=settings.time_zone,
            )
            for each in settings.dimensions
            if many_sets
        ),
    )


def _ticks_of(settings: CumulateSettings, dimensions: tuple[str, ...]) -> ViewSpec:
    label, (schema, _, key) = label_of(dimensions), _curve(settings, dimensions)
    return ViewSpec(
        f"ticks_{label}",
        schema.plus(column(settings.column_name(REVISION), "bigint")),
        key,
        key,
        f"the ticks of {label}",
        takes_as_of=True,
        null_keys=True,
    )


def _curve(settings: CumulateSettings, dimensions: tuple[str, ...]) -> tuple[Schema, tuple[str, ...], tuple[str, ...]]:
    measures = (Column(measure.name, measure.type) for measure in settings.measures)
    start, tick = _times(settings)
    schema = Schema((start, tick, *settings.schema.select(dimensions).columns, *measures))
    return schema, (), (start.name, *dimensions, tick.name)


def _times(settings: CumulateSettings) -> tuple[Column, Column]:
    """Return the columns of the window's start and of the tick."""
    return column(settings.column_name(WINDOW_START), "timestamp"), column(settings.column_name(TICK), "timestamp")


@frozen(eq=False)
class CumulateViews:
    """The views of one pipeline."""

    settings: CumulateSettings
    tables: CumulateTables
    panes: Panes
    ticks: Ticks
    engine: FrameEngine

    def view(
        self, spec: ViewSpec, snapshot: Snapshot, as_of: datetime | None, groups: nw.LazyFrame[Any] | None = None
    ) -> nw.LazyFrame[Any]:
        """Return the rows of a view; `as_of` (UTC) leaves out later ticks. With `groups`, only theirs, if it has a key.

        In `groups`, as in the tables, null is a value of its type.
        """
        kind, _, label = spec.name.partition("_")
        if kind == "curve":
            return self._answer(self._draw_curve(label, snapshot, as_of), spec)
        rows = self._answer(self._read_ticks(kind, label, snapshot, groups), spec)
        return rows if as_of is None else rows.filter(nw.col(self.settings.column_name(TICK)) <= as_of)

    def changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Return the net changes of a view between two snapshots, from the ticks made or revised in between."""
        kind, _, label = spec.name.partition("_")
        ticks = find_changed_groups([self.tables.points], (*self.tables.group, PANE), before, after, self.engine)
        old, new = (self._answer(self._read_ticks(kind, label, at, ticks), spec) for at in (before, after))
        return net_changes(old, new, spec.key)

    def _read_ticks(
        self, kind: str, label: str, snapshot: Snapshot, keys: nw.LazyFrame[Any] | None
    ) -> nw.LazyFrame[Any]:
        """Read the ticks, or all their revisions; if `label` is not empty, of that dimension set only."""
        within = {self.settings.column_name(GROUPING): (grouping_of(self._find_set(label)),)} if label else {}
        matching = Matching(keys, within)
        if kind == "revisions":
            rows = snapshot.read(self.tables.points.name, matching)
            return rows.unique([*self.tables.group, PANE, self.tables.revision], keep="first", order_by=[ROUND])
        return self.ticks.read_newest(snapshot, matching)

    def _draw_curve(self, label: str, snapshot: Snapshot, as_of: datetime | None) -> nw.LazyFrame[Any]:
        """Return every step of a window for each group of a dimension set with ticks in it; null if there is none."""
        grouping = grouping_of(self._find_set(label))
        until = self._find_last_step(snapshot, as_of)
        within: dict[str, Any] = {self.settings.column_name(GROUPING): (grouping,)}
        if (window := self._find_window(snapshot, within, as_of)) is None:
            return self.engine.frame([], self.tables.points.schema)
        ticks = self.ticks.read_newest(snapshot, Matching(within={**within, WINDOW: (window,)}))
        ticks = self.engine.persist(ticks.filter(nw.col(PANE) <= until))
        groups = ticks.select(*self.tables.group).unique()
        groups = groups.with_columns(nw.lit(until).cast(nw.Int64).alias(_UNTIL), nw.lit(1).cast(nw.Int64).alias(_FIRST))
        groups = self.panes.number(groups, _UNTIL, self.engine, into=_LAST)
        steps = self.panes.expand(groups, _FIRST, _LAST, self.engine, into=PANE).select(*self.tables.group, PANE)
        return steps.join(ticks, on=[*self.tables.group, PANE], how="left")

    def _find_last_step(self, snapshot: Snapshot, as_of: datetime | None) -> int:
        """Return the last step of a curve: the last pane end that the watermark and `as_of` have reached."""
        limits = [moment for moment in (snapshot.watermark, as_of) if moment is not None]
        return self.panes.find_last_end(min(limits)) if limits else 0

    def _find_window(self, snapshot: Snapshot, within: dict[str, Any], as_of: datetime | None) -> int | None:
        """Return the start of the window of `as_of` (end included); if None, of the newest window that has a tick."""
        if as_of is not None:
            return self.panes.find_window(micros_of(as_of) - 1)
        points = snapshot.read(self.tables.points.name, Matching(within=within))
        (newest,) = collect_small(points.select(nw.col(WINDOW).max()))
        found: int | None = newest[WINDOW]
        return found

    def _find_set(self, label: str) -> tuple[str, ...]:
        sets = self.settings.dimensions
        return next((each for each in sets if label_of(each) == label), sets[0])

    def _answer(self, rows: nw.LazyFrame[Any], spec: ViewSpec) -> nw.LazyFrame[Any]:
        """Compute the dimensions, times and measures of stored rows, in the columns of a view."""
        rows = from_key(rows, self.settings.dimension_schema).with_columns(
            nw.col(PANE), *(answer(measure) for measure in self.settings.measures)
        )
        for micros, moment in ((WINDOW, WINDOW_START), (PANE, TICK)):
            rows = self.engine.from_wall_micros(rows, micros, into=self.settings.column_name(moment), zone="UTC")
        return rows.select(*spec.schema.names)
