"""Ticks: what a group has come to at the end of a pane, from what it had come to before and what panes add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from .lateness import ROUND
from .panes import PANE
from .tables import SO_FAR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..change import Matching
    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from .closing import Closing
    from .panes import Panes
    from .tables import CumulateTables
    from .values import Values

_FIRST, _LAST, _NEXT, _AFTER, _UNTIL, _TICK = "_first", "_last", "_next", "_after", "_until", "_tick"
_KNOWN, _SETTLED = "_known", "_settled"


@frozen(eq=False)
class ValuesLeft:
    """All values of a measure.

    Args:
        values: those that are stored.
        posted: what a batch brings to them in time.
        late: what it brings late.
    """

    values: Values
    posted: nw.LazyFrame[Any]
    late: nw.LazyFrame[Any] | None

    def extremes(self, ticks: nw.LazyFrame[Any], closing: Closing, into: str) -> nw.LazyFrame[Any]:
        """The extreme at each of some ticks; see `Values.extremes`."""
        return self.values.extremes(ticks, self.posted, self.late, closing, into)


@frozen(eq=False)
class Moved:
    """What an epoch moves.

    Args:
        added: what each pane closed now adds to the columns of `CumulateTables.added`; late rows add to the pane in
            which the watermark stood when they came, which may be open yet.
        arriving: by extreme's column, the extreme of what came in each of these panes.
        unsettled: by extreme's column, the groups whose extreme has to be found among all their values.
        values: by extreme's column, those values.
        born: with late rows, the panes that let their groups tick: those alone, or from the first one on.
    """

    added: nw.LazyFrame[Any]
    arriving: Mapping[str, nw.LazyFrame[Any]]
    unsettled: Mapping[str, nw.LazyFrame[Any]]
    values: Mapping[str, ValuesLeft]
    born: nw.LazyFrame[Any] | None = None


@frozen(eq=False)
class Closed:
    """What becomes of panes that are closed.

    Args:
        ticks: rows of `CumulateTables.points`.
        so_far: what the panes add to the groups' sums so far: rows of `CumulateTables.panes` to merge.
        states: with late rows, what a group came to at the end of each pane closed now, as known when the watermark
            passed it, whether it ticked there or not.
    """

    ticks: nw.LazyFrame[Any]
    so_far: nw.LazyFrame[Any]
    states: nw.LazyFrame[Any]


@frozen(eq=False)
class Ticks:
    """Makes the ticks of one pipeline.

    Args:
        tables: where they are kept.
        panes: how time is cut.
        dense: whether a group ticks at every step.
        engine: of the frames.
    """

    tables: CumulateTables
    panes: Panes
    dense: bool
    engine: FrameEngine

    def newest(self, snapshot: Snapshot, matching: Matching | None = None) -> nw.LazyFrame[Any]:
        """The newest revision of each tick."""
        *named, _round = self.tables.points.key
        rows = snapshot.read(self.tables.points.name, matching)
        return rows.unique(subset=named, keep="last", order_by=[ROUND])

    def closed(self, moved: Moved, closing: Closing) -> Closed:
        """The ticks of panes closed now, as known when the watermark passed them."""
        key = (*self._group, PANE)
        keys = None if self.dense else moved.added.select(*self._group).unique()
        opening = closing.so_far(self.tables.panes, keys).select(*key, *self.tables.told)
        states = self._running(nw.concat([opening, self._with_arriving(moved)]))
        states = self._settled(states, moved, closing)
        made = states.filter(nw.col(PANE) <= closing.after)
        if not self.dense:
            made = made.filter(nw.col(PANE) > closing.before)
        else:
            made = self.every(made, after=closing.before, until=closing.after)
        born = made if moved.born is None else self._born(made, opening, moved.born)
        first = (nw.col(PANE).alias(ROUND), nw.lit(0).cast(nw.Int64).alias(self.tables.revision))
        return Closed(born.select(*key, *first, *self.tables.told), self._so_far(states, moved), made)

    def _born(
        self, states: nw.LazyFrame[Any], opening: nw.LazyFrame[Any], born: nw.LazyFrame[Any]
    ) -> nw.LazyFrame[Any]:
        """Those of some states that tick, as their groups have rows there."""
        key = (*self._group, PANE)
        if not self.dense:
            return states.join(born, on=list(key), how="semi")
        known = nw.concat([opening.select(*key), born.select(*key)])
        since = known.group_by(*self._group).agg(nw.col(PANE).min().alias(_FIRST))
        return states.join(since, on=list(self._group), how="inner").filter(nw.col(PANE) >= nw.col(_FIRST)).drop(_FIRST)

    @property
    def _group(self) -> tuple[str, ...]:
        return self.tables.group

    def _with_arriving(self, moved: Moved) -> nw.LazyFrame[Any]:
        key = (*self._group, PANE)
        rows = moved.added
        for frame in moved.arriving.values():
            rows = rows.join(frame, on=list(key), how="left")
        return rows.select(*key, *self.tables.told)

    def cumulated(self, added: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """What the sums of each group come to at each pane, from what each pane adds."""
        return self.engine.running(added, self.tables.added.names, self._group, PANE)

    def _running(self, added: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """What each group has come to at each pane, from what it had come to before and what each adds."""
        rows = self.cumulated(added)
        for name, measure in self.tables.extremes.items():
            least = measure.aggregate.function == "min"
            column, group = nw.col(name), self._group
            worst = column.max().over(*group) if least else column.min().over(*group)
            known = (~column.is_null()).cast(nw.Int64).cum_sum().over(*group, order_by=PANE)
            # A null would be taken otherwise from engine to engine: the group's worst value stands in for it.
            rows = rows.with_columns(known.alias(_KNOWN), worst.alias(_NEXT))
            rows = rows.with_columns(nw.when(column.is_null()).then(nw.col(_NEXT)).otherwise(column).alias(name))
            best = (column.cum_min() if least else column.cum_max()).over(*group, order_by=PANE)
            rows = rows.with_columns(best.alias(_NEXT))
            rows = rows.with_columns(nw.when(nw.col(_KNOWN) > 0).then(nw.col(_NEXT)).alias(name)).drop(_KNOWN, _NEXT)
        return rows

    def _settled(self, states: nw.LazyFrame[Any], moved: Moved, closing: Closing) -> nw.LazyFrame[Any]:
        """States with the extremes of unsettled groups found among all their values."""
        key = [*self._group, PANE]
        for name, groups in moved.unsettled.items():
            states = self.engine.persist(states)
            asked = states.join(groups, on=list(self._group), how="semi").filter(nw.col(PANE) > SO_FAR)
            asked = asked.with_columns(nw.col(PANE).alias(ROUND))
            found = moved.values[name].extremes(asked, closing, _NEXT).drop(ROUND)
            known = groups.with_columns(nw.lit(value=True).alias(_SETTLED))
            joined = states.join(known, on=list(self._group), how="left").join(found, on=key, how="left")
            own = nw.col(_SETTLED).is_null() | (nw.col(PANE) == SO_FAR)
            joined = joined.with_columns(nw.when(own).then(nw.col(name)).otherwise(nw.col(_NEXT)).alias(name))
            states = joined.drop(_SETTLED, _NEXT)
        return states

    def _so_far(self, states: nw.LazyFrame[Any], moved: Moved) -> nw.LazyFrame[Any]:
        sums = self.engine.add_up(moved.added, self._group, self.tables.added.names)
        if self.tables.extremes:
            last = states.filter(nw.col(PANE) == nw.col(PANE).max().over(*self._group))
            sums = sums.join(last.select(*self._group, *self.tables.extremes), on=list(self._group), how="inner")
        return sums.with_columns(nw.lit(SO_FAR).cast(nw.Int64).alias(PANE))

    def every(self, states: nw.LazyFrame[Any], *, after: int | None, until: int) -> nw.LazyFrame[Any]:
        """States at every end of a pane, each as it holds till the next one; after an instant, and up to another."""
        following = nw.col(PANE).shift(-1).over(*self._group, order_by=PANE)
        rows = states.with_columns(following.alias(_NEXT), nw.lit(until).cast(nw.Int64).alias(_UNTIL))
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
        # Kept, or Spark puts what the numbers are made of in the place of each mention of them, to sift the rows early.
        each = self.panes.each(self.engine.persist(rows), _FIRST, _LAST, self.engine, into=_TICK)
        return each.with_columns(nw.col(_TICK).alias(PANE)).select(*self._group, PANE, *self._of(states))

    def _of(self, states: nw.LazyFrame[Any]) -> list[str]:
        there = states.collect_schema().names()
        return [name for name in self.tables.told if name in there]
