"""Ticks: what a group has come to at the end of a pane, from what it had come to before and what panes add."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Matching
from .panes import PANE
from .settings import REVISION
from .tables import SO_FAR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..ledger import Snapshot
    from ..ports import FrameEngine
    from .closing import Closing
    from .panes import Panes
    from .tables import CumulateTables
    from .values import Values

_FIRST, _LAST, _NEXT, _AFTER, _UNTIL, _TICK = "_first", "_last", "_next", "_after", "_until", "_tick"
_KNOWN, _SETTLED = "_known", "_settled"


@frozen(eq=False)
class Moved:
    """What an epoch moves.

    Args:
        added: what each pane adds to the columns of `CumulateTables.added`, closed now or late.
        arriving: by extreme's column, the extreme of what came in each pane closed now.
        unsettled: by extreme's column, the groups whose extreme has to be found among all their values.
        values: by extreme's column, those values, and what the batch brings to them.
    """

    added: nw.LazyFrame[Any]
    arriving: Mapping[str, nw.LazyFrame[Any]]
    unsettled: Mapping[str, nw.LazyFrame[Any]]
    values: Mapping[str, tuple[Values, nw.LazyFrame[Any]]]


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
        *named, _revision = self.tables.points.key
        rows = snapshot.read(self.tables.points.name, matching)
        return rows.unique(subset=named, keep="last", order_by=[REVISION])

    def closed(self, moved: Moved, closing: Closing) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]:
        """The ticks of panes closed now, and what all closed panes add to the groups' sums so far.

        Returns:
            Rows of `CumulateTables.points`; rows of `CumulateTables.panes` to merge.
        """
        key = (*self._group, PANE)
        keys = None if self.dense else moved.added.select(*self._group).unique()
        opening = closing.so_far(self.tables.panes, keys).select(*key, *self.tables.told)
        states = self._running(nw.concat([opening, self._with_arriving(moved)]))
        states = self._settled(states, moved, closing)
        if not self.dense:
            made = states.filter(nw.col(PANE) > closing.before)
        else:
            made = self._every(states, after=closing.before, until=closing.after)
        ticks = made.select(*key, nw.lit(0).cast(nw.Int64).alias(REVISION), *self.tables.told)
        return ticks, self._so_far(states, moved)

    def revised(self, moved: Moved, closing: Closing) -> nw.LazyFrame[Any]:
        """New revisions of ticks that late rows change, and ticks that were not there for want of them."""
        key = (*self._group, PANE)
        late = self.engine.persist(moved.added.filter(nw.col(PANE) <= closing.before))
        since = late.group_by(*self._group).agg(nw.col(PANE).min().alias(_FIRST))
        groups = late.select(*self._group).unique()
        old = self.engine.persist(self.newest(closing.snapshot, Matching(groups)))
        added = nw.concat([self._added(old), late.select(*key, *self.tables.added.names)])
        added = added.group_by(*key).agg(nw.col(name).sum() for name in self.tables.added.names)
        states = self._cumulated(added)
        if self.dense:
            states = self._every(states, after=None, until=closing.before)
        states = states.join(since, on=list(self._group), how="inner").filter(nw.col(PANE) >= nw.col(_FIRST))
        states = self.engine.persist(states.select(*key, *self.tables.added.names))
        for column, (values, posted) in moved.values.items():
            found = values.extremes(states, posted, closing, column)
            states = states.join(found, on=list(key), how="left")
        return self._changed(states, old)

    @property
    def _group(self) -> tuple[str, ...]:
        return self.tables.group

    def _with_arriving(self, moved: Moved) -> nw.LazyFrame[Any]:
        key = (*self._group, PANE)
        rows = moved.added
        for frame in moved.arriving.values():
            rows = rows.join(frame, on=list(key), how="left")
        return rows.select(*key, *self.tables.told)

    def _cumulated(self, added: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        names = self.tables.added.names
        return added.with_columns(nw.col(name).cum_sum().over(*self._group, order_by=PANE) for name in names)

    def _running(self, added: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """What each group has come to at each pane, from what it had come to before and what each adds."""
        rows = self._cumulated(added)
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
            values, posted = moved.values[name]
            asked = states.join(groups, on=list(self._group), how="semi").filter(nw.col(PANE) > SO_FAR)
            found = values.extremes(asked, posted, closing, _NEXT)
            known = groups.with_columns(nw.lit(value=True).alias(_SETTLED))
            joined = states.join(known, on=list(self._group), how="left").join(found, on=key, how="left")
            own = nw.col(_SETTLED).is_null() | (nw.col(PANE) == SO_FAR)
            joined = joined.with_columns(nw.when(own).then(nw.col(name)).otherwise(nw.col(_NEXT)).alias(name))
            states = joined.drop(_SETTLED, _NEXT)
        return states

    def _so_far(self, states: nw.LazyFrame[Any], moved: Moved) -> nw.LazyFrame[Any]:
        sums = moved.added.group_by(*self._group).agg(nw.col(name).sum() for name in self.tables.added.names)
        if self.tables.extremes:
            last = states.filter(nw.col(PANE) == nw.col(PANE).max().over(*self._group))
            sums = sums.join(last.select(*self._group, *self.tables.extremes), on=list(self._group), how="inner")
        return sums.with_columns(nw.lit(SO_FAR).cast(nw.Int64).alias(PANE))

    def _every(self, states: nw.LazyFrame[Any], *, after: int | None, until: int) -> nw.LazyFrame[Any]:
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
        each = self.panes.each(rows, _FIRST, _LAST, self.engine, into=_TICK)
        return each.with_columns(nw.col(_TICK).alias(PANE)).select(*self._group, PANE, *self._of(states))

    def _of(self, states: nw.LazyFrame[Any]) -> list[str]:
        there = states.collect_schema().names()
        return [name for name in self.tables.told if name in there]

    def _added(self, ticks: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """What each tick adds to the one before it."""
        names = self.tables.added.names
        before = {name: nw.col(name).shift(1).over(*self._group, order_by=PANE) for name in names}
        rows = ticks.with_columns(each.alias(f"_before{name}") for name, each in before.items())
        none = {each.name: nw.lit(0).cast(each.type.narwhals) for each in self.tables.added.columns}
        earlier = {
            name: nw.when(nw.col(f"_before{name}").is_null()).then(none[name]).otherwise(nw.col(f"_before{name}"))
            for name in names
        }
        return rows.select(*self._group, PANE, *((nw.col(name) - earlier[name]).alias(name) for name in names))

    def _changed(self, states: nw.LazyFrame[Any], old: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The states that are not what the ticks say, as their next revision."""
        key, seen = [*self._group, PANE], self.tables.seen
        was = old.select(*key, REVISION, *(nw.col(name).alias(f"_was{name}") for name in seen))
        rows = states.join(was, on=key, how="left")
        differs = [_differ(name, f"_was{name}") for name in seen]
        rows = rows.filter(nw.col(REVISION).is_null() | nw.any_horizontal(*differs, ignore_nulls=True))
        revision = (nw.col(REVISION) + 1).fill_null(0).cast(nw.Int64).alias(REVISION)
        return rows.with_columns(revision).select(*key, REVISION, *self.tables.told)


def _differ(left: str, right: str) -> nw.Expr:
    """Whether two columns differ, null being equal to null alone."""
    one, other = nw.col(left), nw.col(right)
    return (one != other).fill_null(value=False) | (one.is_null() != other.is_null())
