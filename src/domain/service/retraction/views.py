"""The views of a retraction pipeline."""

from __future__ import annotations

from typing import Any

import narwhals as nw
from attrs import frozen

from ...duration import DAY_MICROS
from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...table.groups import NULLS, from_key
from ...table.net_changes import net_changes
from ...table.schema import Column, Schema, column
from ...table.view_spec import ViewSpec
from ..measures import ROWS, CountDistinct, Measure, SumMeasure, ValueMeasure
from ..row_changes import find_changed_groups
from ..segments import SEGMENT
from .daily_sums import DailySums
from .settings import RetractionSettings
from .step import RetractionStep
from .tables import TIMES, VALUE, RetractionTables

_WALL, _UNTIL, _FROM = "_wall", "_until", "_from"
_OPENING = -(2**61)
"""The day number of the past; earlier than any real day."""


def view_specs(settings: RetractionSettings) -> tuple[ViewSpec, ...]:
    """The views of a retraction, the default one first."""
    group, day = settings.groups, column(settings.day, "date")
    measures = tuple(Column(measure.name, measure.type) for measure in settings.measures)
    additive = tuple(Column(measure.name, measure.type) for measure in settings.measures if measure.additive)
    by_day = (settings.day, *settings.group)
    return (
        ViewSpec(
            "totals",
            group.plus(*measures),
            settings.group,
            settings.group,
            "the measures of each group, now",
            null_keys=True,
        ),
        ViewSpec(
            "deltas",
            Schema((day, *group.columns, *additive)),
            by_day,
            by_day,
            "by how much the changes of each day moved a group's counts and sums, signed",
            null_keys=True,
        ),
        ViewSpec(
            "by_day",
            Schema((day, *group.columns, *measures)),
            by_day,
            by_day,
            "the measures of a group at the end of each day on which it changed",
            null_keys=True,
        ),
    )


@frozen(eq=False)
class RetractionViews:
    """The views of one retraction, from the past and the days at or after the cut, both of one snapshot."""

    settings: RetractionSettings
    tables: RetractionTables
    step: RetractionStep
    engine: FrameEngine

    def view(self, spec: ViewSpec, snapshot: Snapshot, keys: nw.LazyFrame[Any] | None = None) -> nw.LazyFrame[Any]:
        """Return the rows of a view; only of some groups if `keys` is set."""
        compute = {"totals": self._totals, "deltas": self._deltas, "by_day": self._by_day}[spec.name]
        return from_key(compute(snapshot, self.step.cut(snapshot), keys), self.settings.groups).select(
            *spec.schema.names
        )

    def changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Return the net changes of a view between two snapshots. Only groups with a change are read."""
        tables = [table for sums in self.tables.daily_sums for table in (sums.live, sums.past)]
        groups = find_changed_groups(tables, self._group, before, after, self.engine)
        old, new = (self.view(spec, at, groups) for at in (before, after))
        return net_changes(old, new, spec.schema.names if not spec.key else spec.key)

    @property
    def _group(self) -> tuple[str, ...]:
        return (*self.settings.group, NULLS)

    def _totals(self, snapshot: Snapshot, cut: int | None, keys: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        def total(sums: DailySums) -> nw.LazyFrame[Any]:
            return sums.sum_totals([sums.read_past(snapshot, keys), sums.read_days(snapshot, cut, keys)], self.engine)

        rows = total(self.tables.sums).filter(nw.col(ROWS) != 0)
        for measure, values in self._value_tables:
            present = total(values).filter(nw.col(TIMES) > 0)
            rows = self._with_values(rows, present, measure, self._group)
        return rows.with_columns(nw.col(ROWS), *self._sum_measures)

    def _deltas(self, snapshot: Snapshot, cut: int | None, keys: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        rows = self.tables.sums.read_days(snapshot, cut, keys)
        deltas = [_delta(measure) for measure in self.settings.measures if measure.additive]
        return self._add_date(rows.with_columns(nw.col(ROWS), *deltas))

    def _by_day(self, snapshot: Snapshot, cut: int | None, keys: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        running = self._running_sums(self.tables.sums, self._day_changes(snapshot, cut, keys), snapshot, keys)
        days = running.filter(nw.col(SEGMENT) != _OPENING)
        days = rows = self.engine.persist(days) if self._value_tables else days
        for measure, values in self._value_tables:
            # Of the sums alone: of the joined rows, each measure would compute all measures before it again.
            present = self._present_values(days, values, snapshot, cut, keys)
            rows = self._with_values(rows, present, measure, self._group_day)
        return self._add_date(rows.with_columns(nw.col(ROWS), *self._sum_measures))

    def _day_changes(self, snapshot: Snapshot, cut: int | None, keys: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        """Return the sums of each day; they are 0 on a day on which only values changed."""
        sums = self.tables.sums
        rows = sums.read_days(snapshot, cut, keys).select(*self._group_day, *sums.columns)
        if not self.tables.values:
            return rows
        zeros = [nw.lit(0).cast(sums.past.schema[name].narwhals).alias(name) for name in sums.columns]
        of_values = [
            values.read_days(snapshot, cut, keys).select(*self._group_day, *zeros)
            for values in self.tables.values.values()
        ]
        return self.engine.add_up(nw.concat([rows, *of_values]), self._group_day, sums.columns)

    @property
    def _group_day(self) -> tuple[str, ...]:
        return (*self._group, SEGMENT)

    @property
    def _value_tables(self) -> list[tuple[ValueMeasure, DailySums]]:
        return [
            (each, self.tables.values[each.name]) for each in self.settings.measures if isinstance(each, ValueMeasure)
        ]

    @property
    def _sum_measures(self) -> list[nw.Expr]:
        return [measure.summed() for measure in self.settings.measures if isinstance(measure, SumMeasure)]

    def _running_sums(
        self, sums: DailySums, days: nw.LazyFrame[Any], snapshot: Snapshot, keys: nw.LazyFrame[Any] | None
    ) -> nw.LazyFrame[Any]:
        """Return the sums at the end of each day. The past is one day, `_OPENING`."""
        columns = (*sums.key, SEGMENT, *sums.columns)
        opening = sums.read_past(snapshot, keys).with_columns(nw.lit(_OPENING).cast(nw.Int64).alias(SEGMENT))
        parts = nw.concat([opening.select(*columns), days.select(*columns)])
        return self.engine.running(parts, sums.columns, sums.key, SEGMENT)

    def _present_values(
        self,
        rows: nw.LazyFrame[Any],
        values: DailySums,
        snapshot: Snapshot,
        cut: int | None,
        keys: nw.LazyFrame[Any] | None,
    ) -> nw.LazyFrame[Any]:
        """Return the values that each group has at the end of each of its days."""
        days = values.read_days(snapshot, cut, keys)
        running = self._running_sums(values, days, snapshot, keys)
        until = nw.col(SEGMENT).shift(-1).over(*values.key, order_by=SEGMENT)
        spans = running.with_columns(until.alias(_UNTIL)).filter(nw.col(TIMES) > 0)
        spans = spans.select(*self._group, VALUE, nw.col(SEGMENT).alias(_FROM), _UNTIL)
        present = rows.select(*self._group_day).join(spans, on=list(self._group), how="inner")
        return present.filter(
            nw.col(_FROM) <= nw.col(SEGMENT), nw.col(_UNTIL).is_null() | (nw.col(SEGMENT) < nw.col(_UNTIL))
        )

    def _with_values(
        self, rows: nw.LazyFrame[Any], present: nw.LazyFrame[Any], measure: ValueMeasure, by: tuple[str, ...]
    ) -> nw.LazyFrame[Any]:
        measured = present.group_by(*by).agg(measure.of_values(nw.col(VALUE)))
        joined = rows.join(measured, on=list(by), how="left")
        return joined.with_columns(nw.col(measure.name).fill_null(0)) if isinstance(measure, CountDistinct) else joined

    def _add_date(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add the day column, a date."""
        wall = rows.with_columns((nw.col(SEGMENT) * DAY_MICROS).alias(_WALL))
        day = self.settings.day
        midnight = self.engine.from_wall_micros(wall, _WALL, into=day, zone="UTC")
        return midnight.with_columns(nw.col(day).cast(nw.Date))


def _delta(measure: Measure) -> nw.Expr:
    """The signed change of a count or a sum."""
    if measure.counts_all:
        return nw.col(ROWS).alias(measure.name)
    return nw.col(measure.sums[-1].name).alias(measure.name)
