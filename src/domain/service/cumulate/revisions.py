"""Revisions of ticks: late rows change ticks, one revision per round.

A *round* lasts while the watermark is in one pane. All late rows that arrive in a round share one revision of each tick
whose measures they change. So revisions depend on the order of rows only, not on where epochs end. While a round lasts,
each epoch replaces its revision with a newer one.

    tick in a round = tick when first made + late rows of its pane and earlier panes, from this round and earlier ones
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import narwhals as nw
from attrs import frozen

from ...ports import FrameEngine
from ...table.change import Matching
from ..measures import Measure
from .answers import answer
from .lateness import ROUND
from .panes import PANE, Panes
from .tables import CumulateTables
from .tick_range import BEGINNING, TickRange
from .ticks import ClosedPanes, PaneDeltas, Ticks

ENTRIES = "_entries"
"""bigint: 1 if late rows of the round are in this pane; 0 if they only change which values are present in it."""

_FIRST, _NEW, _AGAIN = "_first", "_new", "_again"


@frozen(eq=False)
class Revisions:
    """Makes the revisions of one pipeline."""

    tables: CumulateTables
    panes: Panes
    ticks: Ticks
    engine: FrameEngine
    measures: tuple[Measure, ...]

    def make_zero_rows(self, late: nw.LazyFrame[Any], tick_range: TickRange) -> nw.LazyFrame[Any]:
        """Return zero sums for each pane with late rows in a window that is still open, so that it gets totals."""
        since = nw.lit(tick_range.before + 1).cast(nw.Int64).alias(_FIRST)
        open_rows = self.panes.filter_open(late.with_columns(since), _FIRST, self.engine)
        return open_rows.select(*self.tables.group, PANE, *self.tables.sum_schema.filled(0))

    def make(
        self, late: nw.LazyFrame[Any], deltas: PaneDeltas, closed: ClosedPanes, tick_range: TickRange
    ) -> nw.LazyFrame[Any]:
        """Make the revisions, as rows to merge into `CumulateTables.points`.

        Args:
            late: the sums that late rows add: the group, `PANE`, `ROUND`, the columns of `CumulateTables.sum_schema`,
                `ENTRIES`.
            deltas: the sums that the closed panes add.
            closed: the ticks made in this epoch, as known when the watermark passed them.
            tick_range: the panes that are closed.
        """
        key = [*self._group, PANE]
        groups = late.select(*self._group).unique()
        stored = tick_range.snapshot.read(self.tables.points.name, Matching(groups))
        new = closed.ticks.join(groups, on=list(self._group), how="semi")
        columns = (*key, ROUND, self.tables.revision, *self.tables.measure_columns)
        known = self.engine.persist(nw.concat([each.select(*columns) for each in (stored, new)]))
        now = closed.totals.join(groups, on=list(self._group), how="semi")
        names = self.tables.sum_schema.names
        totals = nw.concat([self._compute_before(known, late, tick_range), now.select(*key, *names)])
        sums = revised = self.engine.persist(self._revise(totals, late))
        for column, values in deltas.values.items():
            # Of the sums alone: of the joined rows, each extreme would compute all extremes before it again.
            found = values.compute_extremes(sums, tick_range, column)
            revised = revised.join(found, on=[*key, ROUND], how="left")
        return self._number_revisions(self.engine.persist(revised) if deltas.values else revised, known)

    @property
    def _group(self) -> tuple[str, ...]:
        return self.tables.group

    def _compute_before(
        self, known: nw.LazyFrame[Any], late: nw.LazyFrame[Any], tick_range: TickRange
    ) -> nw.LazyFrame[Any]:
        """Return the sums of groups with late rows at the panes closed before, as known before the epoch."""
        key, names = (*self._group, PANE), self.tables.sum_schema.names
        ticks = known.filter(nw.col(PANE) <= tick_range.before).unique([*key], keep="last", order_by=[ROUND])
        late_panes = late.filter(nw.col(ENTRIES) > 0, nw.col(PANE) <= tick_range.before)
        late_panes = late_panes.select(*key, *self.tables.sum_schema.filled(0))
        added = self.engine.add_up(nw.concat([self._diff_ticks(ticks), late_panes]), key, names)
        totals = self.ticks.cumulate(added)
        if self.ticks.dense:
            totals = self.ticks.fill_steps(totals, after=None, until=tick_range.before)
        return totals.select(*key, *names)

    def _diff_ticks(self, ticks: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return rows that add up to the difference of each tick and the one before it.

        Each tick is added at its pane, and subtracted at the next one. Some engines cut off digits when they subtract
        two decimals of 38 digits; adding a negated value keeps the type.
        """
        key, names = (*self._group, PANE), self.tables.sum_schema.names
        until = ticks.with_columns(nw.col(PANE).shift(-1).over(*self._group, order_by=PANE))
        back = until.filter(~nw.col(PANE).is_null()).select(*key, *((-nw.col(name)).alias(name) for name in names))
        return nw.concat([ticks.select(*key, *names), back])

    def _revise(self, totals: nw.LazyFrame[Any], late: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Compute the sums of each tick in each later round of its group; `ENTRIES` above 0 marks those that tick."""
        key, at, added = [*self._group, PANE], [*self._group, PANE, ROUND], self.tables.sum_schema
        sums = (*added.names, ENTRIES)
        since = late.group_by(*self._group).agg(nw.col(PANE).min().alias(_FIRST))
        totals = totals.join(since, on=list(self._group), how="inner").filter(nw.col(PANE) >= nw.col(_FIRST))
        # A round changes no tick before the first pane of its rows.
        rounds = late.group_by(*self._group, ROUND).agg(nw.col(PANE).min().alias(_FIRST))
        affected = totals.select(*key).join(rounds, on=list(self._group), how="inner")
        affected = affected.filter(nw.col(PANE) >= nw.col(_FIRST), nw.col(PANE) < nw.col(ROUND))
        rows = affected.join(late.select(*at, *sums), on=at, how="left").select(*at, *self._fill_nulls(sums))
        cumulative = [name for name in sums if name != ENTRIES or self.ticks.dense]
        rows = self.engine.running(rows, cumulative, (*self._group, ROUND), PANE)
        first_round, zero = (nw.lit(each).cast(nw.Int64) for each in (BEGINNING, 0))
        before = totals.select(*key, first_round.alias(ROUND), *added.names, zero.alias(ENTRIES))
        rows = nw.concat([before, rows.select(*at, *sums)])
        rows = self.engine.running(rows, sums, key, ROUND)
        return rows.filter(nw.col(ROUND) > BEGINNING)

    def _fill_nulls(self, names: Iterable[str]) -> Iterator[nw.Expr]:
        """Replace nulls of sums with 0."""
        kinds = {each.name: each.type.narwhals for each in self.tables.sum_schema.columns} | {ENTRIES: nw.Int64()}
        for name in names:
            zero = nw.lit(0).cast(kinds[name])
            yield nw.when(nw.col(name).is_null()).then(zero).otherwise(nw.col(name)).alias(name)

    def _number_revisions(self, revised: nw.LazyFrame[Any], known: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the rows that are new, or that replace a row of the current round, with their revision numbers."""
        key = [*self._group, PANE]
        at, columns = [*key, ROUND], (*key, ROUND, *self.tables.measure_columns, ENTRIES)
        one = nw.lit(1).cast(nw.Int64)
        again = known.select(*at, one.alias(_AGAIN))
        new = revised.join(again, on=at, how="left")
        # A tick that the round has made already stays one, though the late rows of its own pane came in another epoch.
        new = new.with_columns(nw.max_horizontal(nw.col(ENTRIES), nw.col(_AGAIN).fill_null(0)).alias(ENTRIES))
        new = new.select(*columns, one.alias(_NEW), _AGAIN)
        absent = nw.lit(None).cast(nw.Int64).alias(_AGAIN)
        old = known.join(revised.select(*at), on=at, how="anti")
        old = old.with_columns(one.alias(ENTRIES)).select(*columns, (one - 1).alias(_NEW), absent)
        rows = nw.concat([old, new])
        rows = rows.with_columns(nw.col(ENTRIES).cum_max().over(*key, order_by=ROUND)).filter(nw.col(ENTRIES) > 0)
        answers = {f"_answer_{measure.name}": answer(measure) for measure in self.measures}
        rows = rows.with_columns(each.alias(name) for name, each in answers.items())
        compared = (ROUND, *self.tables.measure_columns, *answers)
        was = (nw.col(name).shift(1).over(*key, order_by=ROUND).alias(f"_was{name}") for name in compared)
        rows = rows.with_columns(was)
        first = nw.col(f"_was{ROUND}").is_null()
        changed = (first | _any_differs(answers)).cast(nw.Int64)
        rows = rows.with_columns((changed.cum_sum().over(*key, order_by=ROUND) - 1).alias(self.tables.revision))
        # Rows that change a sum but no measure are stored too: later measures are computed from them.
        is_stored = first | _any_differs(self.tables.measure_columns) | ~nw.col(_AGAIN).is_null()
        rows = rows.filter(nw.col(_NEW) > 0, is_stored)
        return rows.select(*at, nw.col(self.tables.revision).cast(nw.Int64), *self.tables.measure_columns)


def _any_differs(names: Iterable[str]) -> nw.Expr:
    """Whether any of some columns differs from its previous value."""
    return nw.any_horizontal(*(_differ(name, f"_was{name}") for name in names), ignore_nulls=True)


def _differ(left: str, right: str) -> nw.Expr:
    """Whether two columns differ; null equals null only."""
    one, other = nw.col(left), nw.col(right)
    return (one != other).fill_null(value=False) | (one.is_null() != other.is_null())
