"""How often each value occurs: for distinct counts, as sums by pane, and for the minimum and maximum at each tick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw

from ...table.collect import collect_small
from ..measures import ROWS, CountDistinct, ValueMeasure
from .lateness import ROUND
from .pane_state import NEW, OLD, PaneState, add_effects
from .panes import PANE
from .tables import SO_FAR, TIMES, VALUE, distinct_of
from .tick_range import TickRange

_EFFECT, _SIGN, _SINCE, _UNTIL, _LEAST = "_effect", "_sign", "_since", "_until", "_least"
_KNOWN_FROM, _KNOWN_UNTIL = "_known_from", "_known_until"


class Values(PaneState):
    """The values of one measure, in all groups.

    A value is present at the end of a pane if, up to there, it was added more often than it was retracted.
    """

    measure: ValueMeasure

    def extract(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the values that rows add or retract, in `VALUE` and `TIMES`."""
        measure = self.measure
        return rows.filter(measure.applies).with_columns(measure.over.alias(VALUE), nw.col(ROWS).alias(TIMES))

    def sum_names(self, deltas: nw.LazyFrame[Any], tick_range: TickRange) -> nw.LazyFrame[Any]:
        """Sum up the amounts of each value in the panes closed now.

        Returns:
            The columns of a value, its first pane, the sum of its amounts, `OLD` (its amount before, or 0), and bigint
            ``_least``, the least amount of a row.
        """
        *named, pane = self.table.key
        amount = nw.col(self.amount)
        names = deltas.group_by(*named).agg(nw.col(pane).min(), amount.min().alias(_LEAST), amount.sum())
        known = tick_range.look_up_so_far(self.table, names, deltas.select(*named), {OLD: self.amount})
        return self.engine.persist(known.with_columns(nw.col(OLD).fill_null(0)))

    def find_events(self, deltas: nw.LazyFrame[Any], names: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Find the panes in which values appear or disappear.

        Args:
            deltas: the amounts of the panes closed now.
            names: their sums, as `sum_names` returns them.

        Returns:
            The key; bigint ``_effect``: how this epoch changes the number of present values, from that pane on; bigint
            ``_sign``: 1 if the value appears in that pane, -1 if it disappears.
        """
        *named, _pane = self.table.key
        calm = (nw.col(_LEAST) > 0) & (nw.col(OLD) >= 0)
        one = nw.lit(1).cast(nw.Int64)
        new = names.filter(calm, nw.col(OLD) == 0).select(*self.table.key, one.alias(_EFFECT), one.alias(_SIGN))
        # Only a value that was retracted at some time can come and go.
        moving = names.filter(~calm).select(*named, OLD)
        (found,) = collect_small(moving.select(nw.len().alias("names")))
        if not found["names"]:
            return self.engine.persist(new)
        moves = self._find_moves(deltas.join(moving, on=named, how="semi"), moving)
        return self.engine.persist(nw.concat([new, moves]))

    def _find_moves(self, deltas: nw.LazyFrame[Any], known: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """As `find_events`, for values that may appear and disappear several times."""
        *named, _pane = self.table.key
        both = self.compute_running(deltas, known)
        present = both.with_columns(_is_present(each).alias(each) for each in (OLD, NEW))
        before = present.with_columns(nw.col(NEW).shift(1).over(*named, order_by=PANE).alias(_SIGN))
        signed = before.with_columns((nw.col(NEW) - nw.col(_SIGN).fill_null(0)).alias(_SIGN))
        changed = add_effects(signed, {_EFFECT: nw.col}, named)
        return changed.filter(nw.col(PANE) != SO_FAR).select(*self.table.key, _EFFECT, _SIGN)

    @property
    def sum_exprs(self) -> dict[str, Callable[[str], nw.Expr]]:
        """For a distinct count, 1 for each present value; nothing for a minimum or maximum."""
        return {distinct_of(self.measure): _is_present} if isinstance(self.measure, CountDistinct) else {}

    def compute_sum_deltas(self, events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the change of each group's number of values, from each pane on."""
        changed = events.filter(nw.col(_EFFECT) != 0).group_by(*self.group, PANE).agg(nw.col(_EFFECT).sum())
        return changed.select(*self.group, PANE, nw.col(_EFFECT).alias(distinct_of(self.measure)))

    def find_new_extremes(self, events: nw.LazyFrame[Any], into: str) -> nw.LazyFrame[Any]:
        """Return the minimum or maximum of the values that appear in each pane closed now."""
        appeared = events.filter(nw.col(_SIGN) > 0)
        return appeared.group_by(*self.group, PANE).agg(self.measure.of_values(nw.col(VALUE)).alias(into))

    def find_shrunk_groups(self, events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any] | None:
        """Return the groups that lost a value, so that their extremes must be recomputed; None if there are none."""
        groups = self.engine.persist(events.filter(nw.col(_SIGN) < 0).select(*self.group).unique())
        (found,) = collect_small(groups.select(nw.len().alias("groups")))
        return groups if found["groups"] else None

    def compute_extremes(
        self,
        ticks: nw.LazyFrame[Any],
        on_time: nw.LazyFrame[Any],
        late: nw.LazyFrame[Any] | None,
        tick_range: TickRange,
        into: str,
    ) -> nw.LazyFrame[Any]:
        """Compute the minimum or maximum at some ticks, as known in a round, from all values of their groups.

        Args:
            ticks: the columns of the group, `PANE` and `ROUND`.
            on_time: the on-time rows of the batch.
            late: its late rows, with `ROUND`.
            tick_range: the panes that are closed.
            into: the new column. Ticks of a group without values are left out.
        """
        *named, _pane = self.table.key
        tick, pane, round_ = (*self.group, PANE, ROUND), nw.col(PANE), nw.col(ROUND)
        spans = self.compute_by_round(ticks.select(*self.group).unique(), on_time, late, tick_range)
        spans = spans.with_columns(
            pane.shift(-1).over(*named, ROUND, order_by=PANE).alias(_UNTIL),
            round_.shift(-1).over(*named, PANE, order_by=ROUND).alias(_KNOWN_UNTIL),
        )
        spans = spans.filter(nw.col(TIMES) > 0).select(
            *self.group, VALUE, pane.alias(_SINCE), _UNTIL, round_.alias(_KNOWN_FROM), _KNOWN_UNTIL
        )
        present = ticks.select(*tick).join(spans, on=list(self.group), how="inner")
        present = present.filter(nw.col(_SINCE) <= pane, nw.col(_UNTIL).is_null() | (pane < nw.col(_UNTIL)))
        present = present.filter(
            nw.col(_KNOWN_FROM) <= round_, nw.col(_KNOWN_UNTIL).is_null() | (round_ < nw.col(_KNOWN_UNTIL))
        )
        return present.group_by(*tick).agg(self.measure.of_values(nw.col(VALUE)).alias(into))


def _is_present(amount: str) -> nw.Expr:
    """1 if a value is present, else 0."""
    return (nw.col(amount) > 0).cast(nw.Int64)
