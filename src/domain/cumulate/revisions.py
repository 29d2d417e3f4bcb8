"""Revisions of ticks: what late rows make of them, round by round.

A *round* lasts while the watermark stands in one pane. All late rows that come in a round make one revision of each
tick whose answers they change. So revisions follow from the order of rows, wherever epochs end: of a round that goes
on, the next epoch tells the revision anew.

    a tick in a round = the tick as it was + what late rows add, of its pane and those before, in rounds up to that
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Matching
from .answers import answer
from .closing import BEGINNING
from .lateness import ROUND
from .panes import PANE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..measures import Measure
    from ..ports import FrameEngine
    from .closing import Closing
    from .panes import Panes
    from .tables import CumulateTables
    from .ticks import Closed, Moved, Ticks

ENTRIES = "_entries"
"""bigint: 1 where late rows came to the pane itself in the round, 0 where they only change what values are there."""

_FIRST, _NEW, _AGAIN = "_first", "_new", "_again"


@frozen(eq=False)
class Revisions:
    """Makes the revisions of one pipeline.

    Args:
        tables: where ticks are kept.
        panes: how time is cut.
        ticks: how they are made.
        engine: of the frames.
        measures: what ticks answer.
    """

    tables: CumulateTables
    panes: Panes
    ticks: Ticks
    engine: FrameEngine
    measures: tuple[Measure, ...]

    def standing(self, late: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """Nothing, in every pane of windows that go on to which late rows came: states are wanted there."""
        since = nw.lit(closing.before + 1).cast(nw.Int64).alias(_FIRST)
        there = self.panes.within(late.with_columns(since), _FIRST, self.engine)
        none = (nw.lit(0).cast(each.type.narwhals).alias(each.name) for each in self.tables.added.columns)
        return there.select(*self.tables.group, PANE, *none)

    def made(self, late: nw.LazyFrame[Any], moved: Moved, closed: Closed, closing: Closing) -> nw.LazyFrame[Any]:
        """The rows of `CumulateTables.points` to merge.

        Args:
            late: what late rows add: the group, `PANE`, `ROUND`, the columns of `CumulateTables.added`, `ENTRIES`.
            moved: what the epoch moves.
            closed: the ticks made in it, as they were first.
            closing: the panes that are closed.
        """
        key = [*self._group, PANE]
        groups = late.select(*self._group).unique()
        stored = closing.snapshot.read(self.tables.points.name, Matching(groups))
        mine = closed.ticks.join(groups, on=list(self._group), how="semi")
        columns = (*key, ROUND, self.tables.revision, *self.tables.told)
        known = self.engine.persist(nw.concat([each.select(*columns) for each in (stored, mine)]))
        now = closed.states.join(groups, on=list(self._group), how="semi")
        names = self.tables.added.names
        states = nw.concat([self._before(known, late, closing), now.select(*key, *names)])
        revised = self.engine.persist(self._changed(states, late))
        for column, values in moved.values.items():
            found = values.extremes(revised, closing, column)
            revised = revised.join(found, on=[*key, ROUND], how="left")
        return self._numbered(revised, known)

    @property
    def _group(self) -> tuple[str, ...]:
        return self.tables.group

    def _before(self, known: nw.LazyFrame[Any], late: nw.LazyFrame[Any], closing: Closing) -> nw.LazyFrame[Any]:
        """What the sums of groups with late rows were at the panes that were closed before, as known by then."""
        key, names = (*self._group, PANE), self.tables.added.names
        ticks = known.filter(nw.col(PANE) <= closing.before).unique([*key], keep="last", order_by=[ROUND])
        none = (nw.lit(0).cast(each.type.narwhals).alias(each.name) for each in self.tables.added.columns)
        came = late.filter(nw.col(ENTRIES) > 0, nw.col(PANE) <= closing.before).select(*key, *none)
        added = self.engine.add_up(nw.concat([self._added(ticks), came]), key, names)
        states = self.ticks.cumulated(added)
        if self.ticks.dense:
            states = self.ticks.every(states, after=None, until=closing.before)
        return states.select(*key, *names)

    def _added(self, ticks: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """What adds up to the ticks, pane by pane: each one, and the one before taken back.

        Spark cuts digits off the difference of two decimals of 38; a sum and a sign keep the type.
        """
        key, names = (*self._group, PANE), self.tables.added.names
        until = ticks.with_columns(nw.col(PANE).shift(-1).over(*self._group, order_by=PANE))
        back = until.filter(~nw.col(PANE).is_null()).select(*key, *((-nw.col(name)).alias(name) for name in names))
        return nw.concat([ticks.select(*key, *names), back])

    def _changed(self, states: nw.LazyFrame[Any], late: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """What ticks come to in each round of their group after their pane, with `ENTRIES`: whether they tick."""
        key, at, added = [*self._group, PANE], [*self._group, PANE, ROUND], self.tables.added
        sums = (*added.names, ENTRIES)
        since = late.group_by(*self._group).agg(nw.col(PANE).min().alias(_FIRST))
        states = states.join(since, on=list(self._group), how="inner").filter(nw.col(PANE) >= nw.col(_FIRST))
        # A round changes no tick before the first pane that its rows came to.
        rounds = late.group_by(*self._group, ROUND).agg(nw.col(PANE).min().alias(_FIRST))
        asked = states.select(*key).join(rounds, on=list(self._group), how="inner")
        asked = asked.filter(nw.col(PANE) >= nw.col(_FIRST), nw.col(PANE) < nw.col(ROUND))
        rows = asked.join(late.select(*at, *sums), on=at, how="left").select(*at, *self._filled(sums))
        lasting = [name for name in sums if name != ENTRIES or self.ticks.dense]
        rows = self.engine.running(rows, lasting, (*self._group, ROUND), PANE)
        whole, none = (nw.lit(each).cast(nw.Int64) for each in (BEGINNING, 0))
        before = states.select(*key, whole.alias(ROUND), *added.names, none.alias(ENTRIES))
        rows = nw.concat([before, rows.select(*at, *sums)])
        rows = self.engine.running(rows, sums, key, ROUND)
        return rows.filter(nw.col(ROUND) > BEGINNING)

    def _filled(self, names: Iterable[str]) -> Iterator[nw.Expr]:
        """Sums, and nothing where they are null."""
        kinds = {each.name: each.type.narwhals for each in self.tables.added.columns} | {ENTRIES: nw.Int64()}
        for name in names:
            none = nw.lit(0).cast(kinds[name])
            yield nw.when(nw.col(name).is_null()).then(none).otherwise(nw.col(name)).alias(name)

    def _numbered(self, revised: nw.LazyFrame[Any], known: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Those rows that are new, or stand in the place of one of a round that goes on, with their revisions."""
        key = [*self._group, PANE]
        at, columns = [*key, ROUND], (*key, ROUND, *self.tables.told, ENTRIES)
        one = nw.lit(1).cast(nw.Int64)
        again = known.select(*at, one.alias(_AGAIN))
        new = revised.join(again, on=at, how="left").select(*columns, one.alias(_NEW), _AGAIN)
        none = nw.lit(None).cast(nw.Int64).alias(_AGAIN)
        old = known.join(revised.select(*at), on=at, how="anti")
        old = old.with_columns(one.alias(ENTRIES)).select(*columns, (one - 1).alias(_NEW), none)
        rows = nw.concat([old, new])
        rows = rows.with_columns(nw.col(ENTRIES).cum_max().over(*key, order_by=ROUND)).filter(nw.col(ENTRIES) > 0)
        answers = {f"_answer_{measure.name}": answer(measure) for measure in self.measures}
        rows = rows.with_columns(each.alias(name) for name, each in answers.items())
        compared = (ROUND, *self.tables.told, *answers)
        was = (nw.col(name).shift(1).over(*key, order_by=ROUND).alias(f"_was{name}") for name in compared)
        rows = rows.with_columns(was)
        first = nw.col(f"_was{ROUND}").is_null()
        changed = (first | _any_differs(answers)).cast(nw.Int64)
        rows = rows.with_columns((changed.cum_sum().over(*key, order_by=ROUND) - 1).alias(self.tables.revision))
        # What changes no answer is kept all the same: an answer to come is made of it.
        kept = first | _any_differs(self.tables.told) | ~nw.col(_AGAIN).is_null()
        rows = rows.filter(nw.col(_NEW) > 0, kept)
        return rows.select(*at, nw.col(self.tables.revision).cast(nw.Int64), *self.tables.told)


def _any_differs(names: Iterable[str]) -> nw.Expr:
    """Whether any of some columns is not what it was."""
    return nw.any_horizontal(*(_differ(name, f"_was{name}") for name in names), ignore_nulls=True)


def _differ(left: str, right: str) -> nw.Expr:
    """Whether two columns differ, null being equal to null alone."""
    one, other = nw.col(left), nw.col(right)
    return (one != other).fill_null(value=False) | (one.is_null() != other.is_null())
