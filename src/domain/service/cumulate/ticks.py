"""Ticks: the running totals of groups at the ends of panes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
from attrs import frozen

from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...table.change import Matching
from .lateness import ROUND
from .panes import PANE, Panes
from .tables import SO_FAR, CumulateTables
from .tick_range import TickRange
from .values import Values

_FIRST, _LAST, _NEXT, _AFTER, _UNTIL, _TICK = "_first", "_last", "_next", "_after", "_until", "_tick"
_KNOWN, _SHRUNK = "_known", "_shrunk"


@frozen(eq=False)
class AllValues:
    """All values of a measure, stored and new."""

    values: Values
    on_time: nw.LazyFrame[Any]
    late: nw.LazyFrame[Any] | None

    def compute_extremes(self, ticks: nw.LazyFrame[Any], tick_range: TickRange, into: str) -> nw.LazyFrame[Any]:
        """Compute the minimum or maximum at some ticks; see `Values.compute_extremes`."""
        return self.values.compute_extremes(ticks, self.on_time, self.late, tick_range, into)


@frozen(eq=False)
class PaneDeltas:
    """The sums that the panes closed by an epoch add to their groups.

    Args:
        sums: what each pane adds to the columns of `CumulateTables.sum_schema`. Late rows are in the pane that the
            watermark was in when they arrived, which may still be open.
        new_extremes: by column of a minimum or maximum, the extreme of the values that appear in each of these panes.
        shrunk_groups: by column, the groups that lost a value: their extreme is recomputed from all their values.
        values: by column, all these values.
        tick_panes: the panes at which groups tick (sparse), or from the first of which on they tick (dense). None if
            there are no late rows: then every pane in `sums` counts.
    """

    sums: nw.LazyFrame[Any]
    new_extremes: Mapping[str, nw.LazyFrame[Any]]
    shrunk_groups: Mapping[str, nw.LazyFrame[Any]]
    values: Mapping[str, AllValues]
    tick_panes: nw.LazyFrame[Any] | None = None


@frozen(eq=False)
class ClosedPanes:
    """The result of closing panes.

    Args:
        ticks: the rows to append to `CumulateTables.points`.
        so_far: rows to merge into `CumulateTables.panes`; they add the panes to the sums of closed panes.
        totals: the running totals of each group at the end of each pane closed now, as known when the watermark passed
            it, whether the group ticks there or not.
    """

    ticks: nw.LazyFrame[Any]
    so_far: nw.LazyFrame[Any]
    totals: nw.LazyFrame[Any]


@frozen(eq=False)
class Ticks:
    """Makes the ticks of one pipeline.

    Args:
        tables: the tables that store them.
        panes: the panes of the windows.
        dense: whether a group ticks at every step.
        engine: works on the frames.
    """

    tables: CumulateTables
    panes: Panes
    dense: bool
    engine: FrameEngine

    def read_newest(self, snapshot: Snapshot, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """Read the latest revision of each tick."""
        *named, _round = self.tables.points.key
        rows = snapshot.read(self.tables.points.name, matching)
        return rows.unique(subset=named, keep="last", order_by=[ROUND])

    def make(self, deltas: PaneDeltas, tick_range: TickRange) -> ClosedPanes:
        """Make the ticks of the panes closed now, as known when the watermark passed them."""
        key = (*self._group, PANE)
        keys = None if self.dense else deltas.sums.select(*self._group).unique()
        opening = tick_range.read_so_far(self.tables.panes, keys).select(*key, *self.tables.measure_columns)
        totals = self._accumulate(nw.concat([opening, self._join_extremes(deltas)]))
        totals = self._recompute_extremes(totals, deltas, tick_range)
        at_ends = totals.filter(nw.col(PANE) <= tick_range.after)
        if not self.dense:
            at_ends = at_ends.filter(nw.col(PANE) > tick_range.before)
        else:
            at_ends = self.fill_steps(at_ends, after=tick_range.before, until=tick_range.after)
        ticks = at_ends if deltas.tick_panes is None else self._select_ticks(at_ends, opening, deltas.tick_panes)
        first = (nw.col(PANE).alias(ROUND), nw.lit(0).cast(nw.Int64).alias(self.tables.revision))
        return ClosedPanes(
            ticks.select(*key, *first, *self.tables.measure_columns), self._sum_so_far(totals, deltas), at_ends
        )

    def _select_ticks(
        self, totals: nw.LazyFrame[Any], opening: nw.LazyFrame[Any], tick_panes: nw.LazyFrame[Any]
    ) -> nw.LazyFrame[Any]:
        """Return the totals that are ticks, as their groups have rows there."""
        key = (*self._group, PANE)
        if not self.dense:
            return totals.join(tick_panes, on=list(key), how="semi")
        known = nw.concat([opening.select(*key), tick_panes.select(*key)])
        since = known.group_by(*self._group).agg(nw.col(PANE).min().alias(_FIRST))
        return totals.join(since, on=list(self._group), how="inner").filter(nw.col(PANE) >= nw.col(_FIRST)).drop(_FIRST)

    @property
    def _group(self) -> tuple[str, ...]:
        return self.tables.group

    def _join_extremes(self, deltas: PaneDeltas) -> nw.LazyFrame[Any]:
        key = (*self._group, PANE)
        rows = deltas.sums
        for frame in deltas.new_extremes.values():
            rows = rows.join(frame, on=list(key), how="left")
        return rows.select(*key, *self.tables.measure_columns)

    def cumulate(self, added: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Turn what each pane adds into the running sums of each group."""
        return self.engine.running(added, self.tables.sum_schema.names, self._group, PANE)

    def _accumulate(self, added: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Turn what each pane adds (sums, minima and maxima) into the running totals of each group."""
        rows = self.cumulate(added)
        for name, measure in self.tables.extremes.items():
            column, group = nw.col(name), self._group
            worst = column.max().over(*group) if measure.least else column.min().over(*group)
            known = (~column.is_null()).cast(nw.Int64).cum_sum().over(*group, order_by=PANE)
            # Engines treat nulls differently here, so each null is replaced by the worst value of its group.
            rows = rows.with_columns(known.alias(_KNOWN), worst.alias(_NEXT))
            rows = rows.with_columns(nw.when(column.is_null()).then(nw.col(_NEXT)).otherwise(column).alias(name))
            best = (column.cum_min() if measure.least else column.cum_max()).over(*group, order_by=PANE)
            rows = rows.with_columns(best.alias(_NEXT))
            rows = rows.with_columns(nw.when(nw.col(_KNOWN) > 0).then(nw.col(_NEXT)).alias(name)).drop(_KNOWN, _NEXT)
        return rows

    def _recompute_extremes(
        self, totals: nw.LazyFrame[Any], deltas: PaneDeltas, tick_range: TickRange
    ) -> nw.LazyFrame[Any]:
        """Replace the extremes of groups that lost a value, computed from all their values.

        Totals at panes closed before stay: late rows only mark them, and ticks after them start from what was known.
        """
        key, before = [*self._group, PANE], tick_range.before
        for name, groups in deltas.shrunk_groups.items():
            totals = self.engine.persist(totals)
            asked = totals.join(groups, on=list(self._group), how="semi").filter(nw.col(PANE) > before)
            asked = asked.with_columns(nw.col(PANE).alias(ROUND))
            found = deltas.values[name].compute_extremes(asked, tick_range, _NEXT).drop(ROUND)
            known = groups.with_columns(nw.lit(value=True).alias(_SHRUNK))
            joined = totals.join(known, on=list(self._group), how="left").join(found, on=key, how="left")
            own = nw.col(_SHRUNK).is_null() | (nw.col(PANE) <= before)
            joined = joined.with_columns(nw.when(own).then(nw.col(name)).otherwise(nw.col(_NEXT)).alias(name))
            totals = joined.drop(_SHRUNK, _NEXT)
        return totals

    def _sum_so_far(self, totals: nw.LazyFrame[Any], deltas: PaneDeltas) -> nw.LazyFrame[Any]:
        sums = self.engine.add_up(deltas.sums, self._group, self.tables.sum_schema.names)
        if self.tables.extremes:
            last = totals.filter(nw.col(PANE) == nw.col(PANE).max().over(*self._group))
            sums = sums.join(last.select(*self._group, *self.tables.extremes), on=list(self._group), how="inner")
        return sums.with_columns(nw.lit(SO_FAR).cast(nw.Int64).alias(PANE))

    def fill_steps(self, totals: nw.LazyFrame[Any], *, after: int | None, until: int) -> nw.LazyFrame[Any]:
        """Return totals at every pane end after an instant and up to another; each is repeated until the next one."""
        following = nw.col(PANE).shift(-1).over(*self._group, order_by=PANE)
        rows = totals.with_columns(following.alias(_NEXT), nw.lit(until).cast(nw.Int64).alias(_UNTIL))
        rows = self.panes.number(rows, PANE, self.engine, into=_FIRST)
        rows = self.panes.number(rows, _UNTIL, self.engine, into=_LAST)
        rows = self.panes.number(rows, _NEXT, self.engine, into=_NEXT, more=-1)
        last = nw.min_horizontal(nw.col(_LAST), nw.col(_NEXT)).alias(_LAST)
        rows = rows.with_columns(last)
        if after is not None:
            rows = self.panes.number(
                rows.with_columns(nw.lit(after).cast(nw.Int64).alias(_AFTER)), _AFTER, self.engine, into=_AFTER, more=1
            )
            rows = rows.with_columns(nw.max_horizontal(nw.col(_FIRST), nw.col(_AFTER)).alias(_FIRST))
        # Persisted: these numbers are used many times and must not be computed each time.
        each = self.panes.expand(self.engine.persist(rows), _FIRST, _LAST, self.engine, into=_TICK)
        return each.with_columns(nw.col(_TICK).alias(PANE)).select(*self._group, PANE, *self._present_columns(totals))

    def _present_columns(self, totals: nw.LazyFrame[Any]) -> list[str]:
        present = totals.collect_schema().names()
        return [name for name in self.tables.measure_columns if name in present]
