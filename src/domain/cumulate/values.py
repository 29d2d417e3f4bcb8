"""Values and how often they came: distinct counts as sums by pane, and the least and greatest value at each tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from ..collect import collect_small
from ..measures import ROWS
from .kept import NEW, OLD, Kept, effects
from .lateness import ROUND
from .panes import PANE
from .tables import SO_FAR, TIMES, VALUE, distinct_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .closing import Closing

_EFFECT, _CAME, _UNTIL = "_effect", "_came", "_until"
_KNOWN_FROM, _KNOWN_UNTIL = "_known_from", "_known_until"


class Values(Kept):
    """The values of one measure in all groups.

    A value is there at the end of a pane where it came more often than it was taken back by then.
    """

    def entries(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The values that rows bring, or take back."""
        measure = self.measure
        return rows.filter(measure.applies).with_columns(measure.over.alias(VALUE), nw.col(ROWS).alias(TIMES))

    def events(self, moved: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """Each pane in which a value came or went.

        Returns:
            The key, and bigint ``_effect``: by how much this epoch changes, from that pane on, how many there are;
            ``_came``: 1 where the value came in that pane, -1 where it went.
        """
        *named, _pane = self.table.key
        both = self.running(moved, closing)
        there = both.with_columns(_there(each).alias(each) for each in (OLD, NEW))
        before = there.with_columns(nw.col(NEW).shift(1).over(*named, order_by=PANE).alias(_CAME))
        came = before.with_columns((nw.col(NEW) - nw.col(_CAME).fill_null(0)).alias(_CAME))
        changed = effects(came, {_EFFECT: nw.col}, named)
        return self.engine.persist(changed.filter(nw.col(PANE) != SO_FAR).select(*self.table.key, _EFFECT, _CAME))

    @property
    def of(self) -> dict[str, Callable[[str], nw.Expr]]:
        """A distinct count is a sum; an extreme is not."""
        if self.measure.aggregate.function != "count_distinct":
            return {}
        return {distinct_of(self.measure): _there}

    def counted(self, events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """By how much the number of values changes in each group, from each pane on."""
        changed = events.filter(nw.col(_EFFECT) != 0).group_by(*self.group, PANE).agg(nw.col(_EFFECT).sum())
        return changed.select(*self.group, PANE, nw.col(_EFFECT).alias(distinct_of(self.measure)))

    def arriving(self, events: nw.LazyFrame[Any], into: str) -> nw.LazyFrame[Any]:
        """The extreme of the values that came in each pane closed now."""
        came = events.filter(nw.col(_CAME) > 0)
        return came.group_by(*self.group, PANE).agg(self.measure.of_values(nw.col(VALUE)).alias(into))

    def unsettled(self, events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any] | None:
        """The groups that a value left, whose extremes the newest one and what came do not tell; None if none did."""
        groups = self.engine.persist(events.filter(nw.col(_CAME) < 0).select(*self.group).unique())
        (found,) = collect_small(groups.select(nw.len().alias("groups")))
        return groups if found["groups"] else None

    def extremes(
        self,
        ticks: nw.LazyFrame[Any],
        posted: nw.LazyFrame[Any],
        late: nw.LazyFrame[Any] | None,
        closing: Closing,
        into: str,
    ) -> nw.LazyFrame[Any]:
        """The extreme at each of some ticks as known in a round, from all values of their groups.

        Args:
            ticks: the groups' columns, `PANE` and `ROUND`.
            posted: what the batch brings in time.
            late: what it brings late.
            closing: the panes that are closed.
            into: takes the extreme; ticks of a group that has no values are left out.
        """
        *named, _pane = self.table.key
        tick, pane, round_ = (*self.group, PANE, ROUND), nw.col(PANE), nw.col(ROUND)
        spans = self.rounds(ticks.select(*self.group).unique(), posted, late, closing)
        spans = spans.with_columns(
            pane.shift(-1).over(*named, ROUND, order_by=PANE).alias(_UNTIL),
            round_.shift(-1).over(*named, PANE, order_by=ROUND).alias(_KNOWN_UNTIL),
        )
        spans = spans.filter(nw.col(TIMES) > 0).select(
            *self.group, VALUE, pane.alias(_CAME), _UNTIL, round_.alias(_KNOWN_FROM), _KNOWN_UNTIL
        )
        held = ticks.select(*tick).join(spans, on=list(self.group), how="inner")
        held = held.filter(nw.col(_CAME) <= pane, nw.col(_UNTIL).is_null() | (pane < nw.col(_UNTIL)))
        held = held.filter(
            nw.col(_KNOWN_FROM) <= round_, nw.col(_KNOWN_UNTIL).is_null() | (round_ < nw.col(_KNOWN_UNTIL))
        )
        return held.group_by(*tick).agg(self.measure.of_values(nw.col(VALUE)).alias(into))


def _there(amount: str) -> nw.Expr:
    """1 where a value is there."""
    return (nw.col(amount) > 0).cast(nw.Int64)
