"""What a retraction answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..changelog.net import net_changes
from ..groups import NULLS, from_key
from ..measures import ROWS
from ..schema import Column, Schema, column
from ..segments import SEGMENT
from ..service import ViewSpec
from .tables import TIMES, VALUE

if TYPE_CHECKING:
    from ..ledger import Snapshot
    from ..measures import Measure
    from ..ports import FrameEngine
    from .books import Book
    from .settings import RetractionSettings
    from .step import RetractionStep
    from .tables import RetractionTables

_A_DAY = 86_400_000_000  # microseconds
_WALL, _UNTIL, _FROM = "_wall", "_until", "_from"
_OPENING = -(2**61)
"""The day of what came before the cut; behind any real one."""


def view_specs(settings: RetractionSettings) -> tuple[ViewSpec, ...]:
    """The views of a retraction, the default one first."""
    group, day = settings.groups, column(settings.day, "date")
    measures = tuple(Column(measure.name, measure.type) for measure in settings.measures)
    added = tuple(Column(measure.name, measure.type) for measure in settings.measures if _adds_up(measure))
    by_day = (settings.day, *settings.group)
    return (
        ViewSpec("totals", group.plus(*measures), settings.group, settings.group, "the measures of each group, now"),
        ViewSpec(
            "deltas",
            Schema((day, *group.columns, *added)),
            by_day,
            by_day,
            "by how much the changes of each day moved a group's counts and sums, signed",
        ),
        ViewSpec(
            "by_day",
            Schema((day, *group.columns, *measures)),
            by_day,
            by_day,
            "the measures of a group at the end of each day on which it changed",
        ),
    )


def _adds_up(measure: Measure) -> bool:
    return measure.aggregate.function in {"count", "sum"}


@frozen(eq=False)
class RetractionViews:
    """The views of one retraction: the past and the days at or after the cut, from one snapshot."""

    settings: RetractionSettings
    tables: RetractionTables
    writing: RetractionStep
    engine: FrameEngine

    def view(self, spec: ViewSpec, snapshot: Snapshot, keys: nw.LazyFrame[Any] | None = None) -> nw.LazyFrame[Any]:
        """A view's rows; of some groups alone where their keys are given."""
        answer = {"totals": self._totals, "deltas": self._deltas, "by_day": self._by_day}[spec.name]
        return from_key(answer(snapshot, self.writing.cut(snapshot), keys), self.settings.groups).select(
            *spec.schema.names
        )

    def changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        """Net row kinds of a view between two snapshots, from those groups alone in which something changed."""
        key = self._group
        touched = [
            changed.select(*key)
            for book in self.tables.books
            for table in (book.live.name, book.past.name)
            if (changed := after.changes_since(before, table)) is not None
        ]
        none = after.read(self.tables.sums.past.name).head(0).select(*key)
        groups = self.engine.persist(nw.concat([none, *touched]).unique())
        old, new = (self.view(spec, at, groups) for at in (before, after))
        return net_changes(old, new, spec.schema.names if not spec.key else spec.key)

    @property
    def _group(self) -> tuple[str, ...]:
        return (*self.settings.group, NULLS)

    def _totals(self, snapshot: Snapshot, cut: int | None, keys: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        def total(book: Book) -> nw.LazyFrame[Any]:
            return book.totals([book.opening(snapshot, keys), book.days(snapshot, cut, keys)], self.engine)

        rows = total(self.tables.sums).filter(nw.col(ROWS) != 0)
        for measure, book in self._counted:
            present = total(book).filter(nw.col(TIMES) > 0)
            rows = self._with_values(rows, present, measure, self._group)
        return rows.with_columns(nw.col(ROWS), *self._summed)

    def _deltas(self, snapshot: Snapshot, cut: int | None, keys: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        book = self.tables.sums
        moved = any_of(book.days(snapshot, cut, keys), book.sums)
        signed = [_signed(measure) for measure in self.settings.measures if _adds_up(measure)]
        return self._dated(moved.with_columns(nw.col(ROWS), *signed))

    def _by_day(self, snapshot: Snapshot, cut: int | None, keys: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        running = self._running(self.tables.sums, self._eventful(snapshot, cut, keys), snapshot, keys)
        rows = running.filter(nw.col(SEGMENT) != _OPENING)
        for measure, book in self._counted:
            rows = self._with_values(rows, self._present(rows, book, snapshot, cut, keys), measure, self._group_day)
        return self._dated(rows.with_columns(nw.col(ROWS), *self._summed))

    def _eventful(self, snapshot: Snapshot, cut: int | None, keys: nw.LazyFrame[Any] | None) -> nw.LazyFrame[Any]:
        """What each day added; nothing where values alone changed."""
        sums = self.tables.sums
        added = any_of(sums.days(snapshot, cut, keys), sums.sums).select(*self._group_day, *sums.sums)
        if not self.tables.values:
            return added
        none = [nw.lit(0).cast(sums.past.schema[name].narwhals).alias(name) for name in sums.sums]
        changed = [
            any_of(book.days(snapshot, cut, keys), book.sums).select(*self._group_day, *none)
            for book in self.tables.values.values()
        ]
        return self.engine.add_up(nw.concat([added, *changed]), self._group_day, sums.sums)

    @property
    def _group_day(self) -> tuple[str, ...]:
        return (*self._group, SEGMENT)

    @property
    def _counted(self) -> list[tuple[Measure, Book]]:
        return [(each, self.tables.values[each.name]) for each in self.settings.measures if each.counted]

    @property
    def _summed(self) -> list[nw.Expr]:
        return [measure.summed() for measure in self.settings.measures if not measure.counted]

    def _running(
        self, book: Book, days: nw.LazyFrame[Any], snapshot: Snapshot, keys: nw.LazyFrame[Any] | None
    ) -> nw.LazyFrame[Any]:
        """A book's sums at the end of each day, what came before the cut being a day of its own."""
        columns = (*book.names, SEGMENT, *book.sums)
        opening = book.opening(snapshot, keys).with_columns(nw.lit(_OPENING).cast(nw.Int64).alias(SEGMENT))
        parts = nw.concat([opening.select(*columns), days.select(*columns)])
        return self.engine.running(parts, book.sums, book.names, SEGMENT)

    def _present(
        self,
        rows: nw.LazyFrame[Any],
        book: Book,
        snapshot: Snapshot,
        cut: int | None,
        keys: nw.LazyFrame[Any] | None,
    ) -> nw.LazyFrame[Any]:
        """The values that each group has at the end of each of its days."""
        running = self._running(book, any_of(book.days(snapshot, cut, keys), book.sums), snapshot, keys)
        until = nw.col(SEGMENT).shift(-1).over(*book.names, order_by=SEGMENT)
        spans = running.with_columns(until.alias(_UNTIL)).filter(nw.col(TIMES) > 0)
        spans = spans.select(*self._group, VALUE, nw.col(SEGMENT).alias(_FROM), _UNTIL)
        held = rows.select(*self._group_day).join(spans, on=list(self._group), how="inner")
        return held.filter(
            nw.col(_FROM) <= nw.col(SEGMENT), nw.col(_UNTIL).is_null() | (nw.col(SEGMENT) < nw.col(_UNTIL))
        )

    def _with_values(
        self, rows: nw.LazyFrame[Any], present: nw.LazyFrame[Any], measure: Measure, by: tuple[str, ...]
    ) -> nw.LazyFrame[Any]:
        answered = present.group_by(*by).agg(measure.of_values(nw.col(VALUE)))
        joined = rows.join(answered, on=list(by), how="left")
        if measure.aggregate.function != "count_distinct":
            return joined
        return joined.with_columns(nw.col(measure.name).fill_null(0))

    def _dated(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add the day as a date."""
        wall = rows.with_columns((nw.col(SEGMENT) * _A_DAY).alias(_WALL))
        day = self.settings.day
        midnight = self.engine.from_wall_micros(wall, _WALL, into=day, zone="UTC")
        return midnight.with_columns(nw.col(day).cast(nw.Date))


def any_of(rows: nw.LazyFrame[Any], sums: tuple[str, ...]) -> nw.LazyFrame[Any]:
    """The rows in which some sum is not nothing."""
    return rows.filter(nw.any_horizontal(*(nw.col(name) != 0 for name in sums), ignore_nulls=True))


def _signed(measure: Measure) -> nw.Expr:
    """By how much a count or sum moved."""
    if measure.counts_all:
        return nw.col(ROWS).alias(measure.name)
    return nw.col(measure.sums[-1].name).alias(measure.name)
