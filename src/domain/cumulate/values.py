"""Values and how often they came: distinct counts as sums by pane, and the least and greatest value at each tick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Change
from ..collect import collect_small
from .panes import PANE
from .tables import SO_FAR, TIMES, VALUE

if TYPE_CHECKING:
    from ..measures import Measure
    from ..ports import FrameEngine
    from ..table import TableSpec
    from .closing import Closing

_OLD, _NEW, _EFFECT, _CAME, _UNTIL = "_old", "_new", "_effect", "_came", "_until"


@frozen(eq=False)
class Values:
    """The values of one measure in all groups.

    A value is there at the end of a pane where it came more often than it was taken back by then.

    Args:
        measure: which.
        table: see `CumulateTables.values`.
        engine: of the frames.
    """

    measure: Measure
    table: TableSpec
    engine: FrameEngine

    @property
    def group(self) -> tuple[str, ...]:
        """The columns that name a group."""
        return self.table.key[:-2]

    def moved(self, posted: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """How often each value came in each pane that is closed now, late ones among them."""
        key = self.table.key
        parts = [closing.waiting(self.table), closing.closed(posted)]
        together = nw.concat([part.select(*key, TIMES) for part in parts])
        return self.engine.persist(together.group_by(*key).agg(nw.col(TIMES).sum()))

    def change(self, posted: nw.LazyFrame[Any], moved: nw.LazyFrame[Any] | None) -> Change:
        """What the epoch does to the table."""
        if moved is None:
            return Change(merge=posted)
        *named, _pane = self.table.key
        closed = moved.group_by(*named).agg(nw.col(TIMES).sum())
        closed = closed.with_columns(nw.lit(SO_FAR).cast(nw.Int64).alias(PANE))
        return Change(merge=nw.concat([part.select(*self.table.key, TIMES) for part in (posted, closed)]))

    def events(self, moved: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """Each pane in which a value came or went, or whose late rows change whether it is there.

        Returns:
            The key, and bigint ``_effect``: by how much this epoch changes, from that pane on, how many there are;
            ``_came``: 1 where the value came in that pane, -1 where it went.
        """
        *named, _pane = self.table.key
        none = nw.lit(0).cast(nw.Int64)
        known = self._known(moved, closing).select(*self.table.key, nw.col(TIMES).alias(_OLD), none.alias(_NEW))
        new = moved.select(*self.table.key, none.alias(_OLD), nw.col(TIMES).alias(_NEW))
        both = nw.concat([known, new]).group_by(*self.table.key).agg(nw.col(_OLD).sum(), nw.col(_NEW).sum())
        both = both.with_columns(nw.col(_OLD), (nw.col(_OLD) + nw.col(_NEW)).alias(_NEW))
        both = both.with_columns(nw.col(each).cum_sum().over(*named, order_by=PANE) for each in (_OLD, _NEW))
        there = both.with_columns((nw.col(each) > 0).cast(nw.Int64).alias(each) for each in (_OLD, _NEW))
        effect = there.with_columns((nw.col(_NEW) - nw.col(_OLD)).alias(_EFFECT))
        before = {each: nw.col(each).shift(1).over(*named, order_by=PANE) for each in (_EFFECT, _NEW)}
        steps = effect.with_columns(before[_EFFECT].alias(_OLD), before[_NEW].alias(_CAME))
        changed = steps.with_columns(
            (nw.col(_EFFECT) - nw.col(_OLD).fill_null(0)).alias(_EFFECT),
            (nw.col(_NEW) - nw.col(_CAME).fill_null(0)).alias(_CAME),
        )
        return self.engine.persist(changed.filter(nw.col(PANE) != SO_FAR).select(*self.table.key, _EFFECT, _CAME))

    def counted(self, events: nw.LazyFrame[Any], into: str) -> nw.LazyFrame[Any]:
        """By how much the number of values changes in each group, from each pane on."""
        changed = events.filter(nw.col(_EFFECT) != 0).group_by(*self.group, PANE).agg(nw.col(_EFFECT).sum())
        return changed.select(*self.group, PANE, nw.col(_EFFECT).alias(into))

    def arriving(self, events: nw.LazyFrame[Any], closing: Closing, into: str) -> nw.LazyFrame[Any]:
        """The extreme of the values that came in each pane closed now."""
        came = events.filter(nw.col(_CAME) > 0, nw.col(PANE) > closing.before)
        extreme = self.measure.of_values(nw.col(VALUE)).alias(into)
        return came.group_by(*self.group, PANE).agg(extreme)

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
        each = both.group_by(*self.table.key).agg(nw.col(TIMES).sum())
        running = each.with_columns(
            nw.col(TIMES).cum_sum().over(*named, order_by=PANE),
            nw.col(PANE).shift(-1).over(*named, order_by=PANE).alias(_UNTIL),
        )
        spans = running.filter(nw.col(TIMES) > 0).select(*self.group, VALUE, nw.col(PANE).alias(_CAME), _UNTIL)
        held = (
            ticks.select(*self.group, PANE)
            .join(spans, on=list(self.group), how="inner")
            .filter(nw.col(_CAME) <= nw.col(PANE), nw.col(_UNTIL).is_null() | (nw.col(PANE) < nw.col(_UNTIL)))
        )
        return held.group_by(*self.group, PANE).agg(self.measure.of_values(nw.col(VALUE)).alias(into))

    def _known(self, moved: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """What was known of values before: for those with late rows by pane, for all others in one sum."""
        *named, _pane = self.table.key
        keys = moved.select(*named).unique()
        if not closing.late:
            return closing.so_far(self.table, keys)
        late = self.engine.persist(moved.filter(nw.col(PANE) <= closing.before).select(*named).unique())
        others = keys.join(late, on=named, how="anti")
        parts = [closing.history(self.table, late, closing.before), closing.so_far(self.table, others)]
        return nw.concat([part.select(*self.table.key, TIMES) for part in parts])
