"""The state of a measure besides its sums: amounts by group, name (a value or a register) and pane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals as nw
from attrs import frozen

from ...ports import FrameEngine
from ...table.change import Change
from ...table.merge import Max
from ...table.spec import TableSpec
from ..measures import Measure
from .lateness import ROUND
from .panes import PANE
from .tables import SO_FAR
from .tick_range import BEGINNING, TickRange

OLD, NEW = "_old", "_new"
"""The running amount of a name at the end of a pane: before the epoch, and after it."""

_EARLIER, _KNOWN_IN = "_earlier", "_known_in"


@frozen(eq=False)
class PaneState:
    """The state of one measure, in all groups.

    Args:
        measure: the measure.
        table: the table that stores the state. Its key is the group, a name within the group (the value or the
            register), and the pane. Its last column is the amount; its merge rule is `Sum` or `Max`.
        engine: works on the frames.
    """

    measure: Measure
    table: TableSpec
    engine: FrameEngine

    @property
    def group(self) -> tuple[str, ...]:
        """The columns that identify a group."""
        return self.table.key[:-2]

    @property
    def amount(self) -> str:
        return self.table.schema.names[-1]

    @property
    def is_sum(self) -> bool:
        """Whether the amount of several panes is their sum; if not, it is their maximum."""
        return not isinstance(self.table.rules[self.amount], Max)

    @property
    def sum_exprs(self) -> dict[str, Callable[[str], nw.Expr]]:
        """The columns of `CumulateTables.sum_schema` that this state fills: from the amount of a name, what it adds."""
        return {}

    @property
    def sum_columns(self) -> tuple[str, ...]:
        return tuple(self.sum_exprs)

    def fold(self, rows: nw.LazyFrame[Any], by: Sequence[str]) -> nw.LazyFrame[Any]:
        """Sum up (or take the maximum of) the amounts of rows, by some columns."""
        amount = nw.col(self.amount)
        return rows.group_by(*by).agg(amount.sum() if self.is_sum else amount.max())

    def compute_deltas(
        self, on_time: nw.LazyFrame[Any], late: nw.LazyFrame[Any] | None, tick_range: TickRange
    ) -> nw.LazyFrame[Any]:
        """Return the amounts of the panes closed now, not yet folded by the key.

        Late rows count in the pane that the watermark was in.
        """
        parts = [tick_range.read_closing(self.table), tick_range.select_closed(on_time)]
        if late is not None:
            parts.append(tick_range.place_late(late, self.engine))
        return nw.concat([part.select(*self.table.key, self.amount) for part in parts])

    def build_change(
        self, on_time: nw.LazyFrame[Any], late: nw.LazyFrame[Any] | None, closed: nw.LazyFrame[Any]
    ) -> Change:
        """Build the change that the epoch makes to the table.

        Args:
            on_time: the on-time rows of the batch.
            late: its late rows.
            closed: the amount of each name in all panes closed now.
        """
        closed = closed.with_columns(nw.lit(SO_FAR).cast(nw.Int64).alias(PANE))
        parts = [each for each in (on_time, late, closed) if each is not None]
        return Change(merge=nw.concat([part.select(*self.table.key, self.amount) for part in parts]))

    def read_known(self, names: nw.LazyFrame[Any], tick_range: TickRange) -> nw.LazyFrame[Any]:
        """Return the amounts of names before the epoch: the columns of a name, and `OLD`."""
        *named, _pane = self.table.key
        return tick_range.read_so_far(self.table, names).select(*named, nw.col(self.amount).alias(OLD))

    def compute_running(self, deltas: nw.LazyFrame[Any], known: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the running amounts of each name in `deltas`, by pane: the key, `OLD` and `NEW`.

        Args:
            deltas: the amounts of the panes closed now.
            known: the amounts of these names before the epoch, as `read_known` returns them.
        """
        *named, pane = self.table.key
        zero, amount = nw.lit(0).cast(nw.Int64), nw.col(self.amount)
        so_far = nw.lit(SO_FAR).cast(nw.Int64).alias(pane)
        known = known.select(*named, so_far, nw.col(OLD), zero.alias(NEW))
        new = deltas.select(*self.table.key, zero.alias(OLD), amount.alias(NEW))
        both, sides = nw.concat([known, new]), (OLD, NEW)
        if self.is_sum:
            both = both.group_by(*self.table.key).agg(nw.col(each).sum() for each in sides)
            both = both.with_columns((nw.col(OLD) + nw.col(NEW)).alias(NEW))
            return both.with_columns(nw.col(each).cum_sum().over(*named, order_by=PANE) for each in sides)
        both = both.group_by(*self.table.key).agg(nw.col(each).max() for each in sides)
        both = both.with_columns(nw.max_horizontal(nw.col(OLD), nw.col(NEW)).alias(NEW))
        return both.with_columns(nw.col(each).cum_max().over(*named, order_by=PANE) for each in sides)

    def compute_by_round(
        self,
        names: nw.LazyFrame[Any],
        on_time: nw.LazyFrame[Any],
        late: nw.LazyFrame[Any] | None,
        tick_range: TickRange,
    ) -> nw.LazyFrame[Any]:
        """Return the running amounts of some names at the end of each of their panes, as known in each round.

        Args:
            names: the names to compute, as columns of `table.key`; the columns of the group alone select whole groups.
            on_time: the on-time rows of the batch.
            late: its late rows, with `ROUND`.
            tick_range: the panes that are closed.

        Returns:
            The key, `ROUND` and the amount. Each round in which a name came late contains all its panes. On-time rows,
            and rows of earlier epochs, are in round `BEGINNING`.
        """
        *named, _pane = self.table.key
        on, amount = names.collect_schema().names(), nw.col(self.amount)
        stored = tick_range.read_history(self.table, names, tick_range.after)
        parts = [stored, tick_range.select_closed(on_time).join(names, on=on, how="semi")]
        first = nw.lit(BEGINNING).cast(nw.Int64).alias(ROUND)
        cells = nw.concat([part.select(*self.table.key, first, self.amount) for part in parts])
        if late is not None:
            later = late.join(names, on=on, how="semi")
            cells = nw.concat([cells, later.select(*self.table.key, ROUND, self.amount)])
            known = cells.select(*named, nw.col(ROUND).alias(_KNOWN_IN))
            known = nw.concat([known, known.with_columns(first.alias(_KNOWN_IN))]).unique()
            cells = cells.join(known, on=named, how="inner")
            counts = nw.when(nw.col(ROUND) <= nw.col(_KNOWN_IN)).then(amount).otherwise(0)
            cells = cells.select(*self.table.key, nw.col(_KNOWN_IN).alias(ROUND), counts.alias(self.amount))
        cells = self.fold(cells, (*self.table.key, ROUND))
        running = amount.cum_sum() if self.is_sum else amount.cum_max()
        return cells.with_columns(running.over(*named, ROUND, order_by=PANE).alias(self.amount))

    def compute_late_deltas(
        self, on_time: nw.LazyFrame[Any], late: nw.LazyFrame[Any], tick_range: TickRange
    ) -> nw.LazyFrame[Any]:
        """Return how late rows change `sum_columns` of each group in each round, from each pane on.

        Args:
            on_time: the on-time rows of the batch.
            late: its late rows, with `ROUND`.
            tick_range: the panes that are closed.

        Returns:
            The group, `PANE`, `ROUND` and `sum_columns`.
        """
        *named, _pane = self.table.key
        amount = nw.col(self.amount)
        known = self.compute_by_round(late.select(*named).unique(), on_time, late, tick_range)
        before = amount.shift(1).over(*named, PANE, order_by=ROUND)
        known = known.with_columns(amount.alias(NEW), before.alias(OLD)).filter(nw.col(ROUND) > BEGINNING)
        return self.sum_effects(known, ROUND)

    def sum_effects(self, running: nw.LazyFrame[Any], *also: str) -> nw.LazyFrame[Any]:
        """Return how much the epoch changes `sum_columns` of each group, from each pane on.

        Args:
            running: rows with `OLD` and `NEW`, as `compute_running` returns them.
            also: more columns that tell rows apart, such as `ROUND`.
        """
        *named, _pane = self.table.key
        changed = add_effects(running, self.sum_exprs, [*named, *also])
        changed = changed.filter(nw.any_horizontal(*(nw.col(into) != 0 for into in self.sum_exprs), ignore_nulls=False))
        return changed.group_by(*self.group, PANE, *also).agg(nw.col(into).sum() for into in self.sum_exprs)


def add_effects(
    running: nw.LazyFrame[Any], exprs: Mapping[str, Callable[[str], nw.Expr]], named: Sequence[str]
) -> nw.LazyFrame[Any]:
    """Add, for each name, how much the epoch changes some expressions of its amount, from each pane on.

    Args:
        running: rows with `OLD` and `NEW`, as `PaneState.compute_running` returns them.
        exprs: the expressions of an amount, by the column to add. The column is the expression of `NEW` minus that of
            `OLD`, minus the same difference at the pane before.
        named: the columns that identify a name.
    """
    for into, expr in exprs.items():
        running = running.with_columns((expr(NEW) - expr(OLD)).alias(into))
        running = running.with_columns(nw.col(into).shift(1).over(*named, order_by=PANE).alias(_EARLIER))
        running = running.with_columns((nw.col(into) - nw.col(_EARLIER).fill_null(0)).alias(into)).drop(_EARLIER)
    return running
