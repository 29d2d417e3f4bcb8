"""Values and how often they came: distinct counts as sums by pane, and the least and greatest value at each tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from ..collect import collect_small
from ..measures import ROWS
from .kept import NEW, OLD, Kept, effects
from .panes import PANE
from .tables import SO_FAR, TIMES, VALUE

if TYPE_CHECKING:
    from .closing import Closing

_EFFECT, _CAME, _UNTIL = "_effect", "_came", "_until"


class Values(Kept):
    """The values of one measure in all groups.

    A value is there at the end of a pane where it came more often than it was taken back by then.
    """

    def entries(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The values that rows bring, or take back."""
        measure = self.measure
        return rows.filter(measure.applies).with_columns(measure.over.alias(VALUE), nw.col(ROWS).alias(TIMES))

    def events(self, moved: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """Each pane in which a value came or went, or whose late rows change whether it is there.

        Returns:
            The key, and bigint ``_effect``: by how much this epoch changes, from that pane on, how many there are;
            ``_came``: 1 where the value came in that pane, -1 where it went.
        """
        *named, _pane = self.table.key
        both = self.running(moved, closing)
        there = both.with_columns((nw.col(each) > 0).cast(nw.Int64).alias(each) for each in (OLD, NEW))
        before = there.with_columns(nw.col(NEW).shift(1).over(*named, order_by=PANE).alias(_CAME))
        came = before.with_columns((nw.col(NEW) - nw.col(_CAME).fill_null(0)).alias(_CAME))
        changed = effects(came, {_EFFECT: nw.col}, named)
        return self.engine.persist(changed.filter(nw.col(PANE) != SO_FAR).select(*self.table.key, _EFFECT, _CAME))

    def counted(self, events: nw.LazyFrame[Any], into: str) -> nw.LazyFrame[Any]:
        """By how much the number of values changes in each group, from each pane on."""
        changed = events.filter(nw.col(_EFFECT) != 0).group_by(*self.group, PANE).agg(nw.col(_EFFECT).sum())
        return changed.select(*self.group, PANE, nw.col(_EFFECT).alias(into))

    def arriving(self, events: nw.LazyFrame[Any], closing: Closing, into: str) -> nw.LazyFrame[Any]:
        """The extreme of the values that came in each pane closed now."""
        came = events.filter(nw.col(_CAME) > 0, nw.col(PANE) > closing.before)
        return came.group_by(*self.group, PANE).agg(self.measure.of_values(nw.col(VALUE)).alias(into))

    def unsettled(self, events: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any] | None:
        """The groups whose extremes the newest one and what came do not tell; None if there are none.

        Those are groups that a value left, and groups with late rows.
        """
        went = events.filter((nw.col(_CAME) < 0) | (nw.col(PANE) <= closing.before))
        groups = self.engine.persist(went.select(*self.group).unique())
        (found,) = collect_small(groups.select(nw.len().alias("groups")))
        return groups if found["groups"] else None

    def extremes(
        self, ticks: nw.LazyFrame[Any], posted: nw.LazyFrame[Any], closing: Closing, into: str
    ) -> nw.LazyFrame[Any]:
        """The extreme at each of some ticks, from all values of their groups.

        Args:
            ticks: the groups' columns, and `PANE`.
            posted: what the batch brings.
            closing: the panes that are closed.
            into: takes the extreme; ticks of a group that has no values are left out.
        """
        *named, _pane = self.table.key
        groups = ticks.select(*self.group).unique()
        stored = closing.history(self.table, groups, closing.after)
        brought = closing.closed(posted).join(groups, on=list(self.group), how="semi")
        both = nw.concat([part.select(*self.table.key, TIMES) for part in (stored, brought)])
        running = self.folded(both, *self.table.key).with_columns(
            nw.col(TIMES).cum_sum().over(*named, order_by=PANE),
            nw.col(PANE).shift(-1).over(*named, order_by=PANE).alias(_UNTIL),
        )
        spans = running.filter(nw.col(TIMES) > 0).select(*self.group, VALUE, nw.col(PANE).alias(_CAME), _UNTIL)
        held = ticks.select(*self.group, PANE).join(spans, on=list(self.group), how="inner")
        held = held.filter(nw.col(_CAME) <= nw.col(PANE), nw.col(_UNTIL).is_null() | (nw.col(PANE) < nw.col(_UNTIL)))
        return held.group_by(*self.group, PANE).agg(self.measure.of_values(nw.col(VALUE)).alias(into))
