"""Signed sums by day, and their totals before the day cut: what every measure is kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..change import Between, Change, Matching
from ..merge import Sum
from ..schema import Schema, column
from ..segments import SEGMENT
from ..table import TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..ledger import Snapshot
    from ..ports import FrameEngine

_BEGINNING = -(2**62)
"""Before any day; its neighbours can still be computed."""


@frozen
class Book:
    """Sums over the columns that name them, by day and up to the cut.

    Args:
        live: key the names and ``_segment``, the day; what the day added, signed.
        past: key the names; the totals of all days before the cut.
        sums: the columns that are summed.
    """

    live: TableSpec
    past: TableSpec
    sums: tuple[str, ...]

    @classmethod
    def of(cls, live: str, past: str, names: Schema, sums: Schema) -> Book:
        """A book of two tables of these names."""
        rules = {name: Sum() for name in sums.names}
        day = column(SEGMENT, "bigint")
        return cls(
            TableSpec(
                live,
                Schema((*names.columns, day, *sums.columns)),
                key=(*names.names, SEGMENT),
                rules=rules,
                partition_by=(SEGMENT,),
            ),
            TableSpec(past, Schema((*names.columns, *sums.columns)), key=names.names, rules=rules),
            sums.names,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that name a sum."""
        return self.past.key

    def posted(self, entries: nw.LazyFrame[Any], engine: FrameEngine) -> nw.LazyFrame[Any]:
        """Entries of a batch, one for each name and day; those that cancel go."""
        return self._added(entries, (*self.names, SEGMENT), engine)

    def totals(self, parts: list[nw.LazyFrame[Any]], engine: FrameEngine) -> nw.LazyFrame[Any]:
        """The sums of all parts by name; those that come to nothing go."""
        together = nw.concat([part.select(*self.names, *self.sums) for part in parts])
        return self._added(together, self.names, engine)

    def _added(self, rows: nw.LazyFrame[Any], by: tuple[str, ...], engine: FrameEngine) -> nw.LazyFrame[Any]:
        added = engine.add_up(rows, by, self.sums)
        return added.filter(nw.any_horizontal(*(nw.col(name) != 0 for name in self.sums), ignore_nulls=True))

    def opening(self, snapshot: Snapshot, keys: nw.LazyFrame[Any] | None = None) -> nw.LazyFrame[Any]:
        """The totals before the cut."""
        return snapshot.read(self.past.name, Matching(keys))

    def days(self, snapshot: Snapshot, cut: int | None, keys: nw.LazyFrame[Any] | None = None) -> nw.LazyFrame[Any]:
        """What the days at or after the cut added."""
        within = {} if cut is None else {SEGMENT: Between(cut, -_BEGINNING)}
        return snapshot.read(self.live.name, Matching(keys, within=within))

    def before(self, snapshot: Snapshot, day: int) -> nw.LazyFrame[Any]:
        """What the days before a day added."""
        return snapshot.read(self.live.name, Matching(within={SEGMENT: Between(_BEGINNING, day - 1)}))


@frozen(eq=False)
class Posting:
    """What a batch does to books.

    Args:
        engine: of the frames.
        snapshot: the newest publication before it.
        absorbs: whether the past takes in what comes late to it; else that waits for the past's next replacement.
        cut: the first day that is not in the past; None where there is no past.
        days: the days that the batch brings changes of.
    """

    engine: FrameEngine
    snapshot: Snapshot
    absorbs: bool
    cut: int | None
    days: tuple[int, ...]

    def changes(self, book: Book, entries: nw.LazyFrame[Any]) -> dict[str, Change]:
        """Post a batch's entries."""
        posted = book.posted(entries, self.engine)
        if not self.absorbs or self.cut is None or all(day >= self.cut for day in self.days):
            return {book.live.name: Change(merge=posted)}
        posted = self.engine.persist(posted)
        late = book.totals([posted.filter(nw.col(SEGMENT) < self.cut)], self.engine)
        return {
            book.past.name: Change(merge=late),
            book.live.name: Change(merge=posted.filter(nw.col(SEGMENT) >= self.cut)),
        }

    def rolled(self, book: Book, entries: nw.LazyFrame[Any], to: int) -> dict[str, Change]:
        """Post a batch's entries, and move all days before a later cut into the past."""
        posted = self.engine.persist(book.posted(entries, self.engine))
        closed = self.engine.persist(book.before(self.snapshot, to))
        parts = [book.opening(self.snapshot), closed, posted.filter(nw.col(SEGMENT) < to)]
        return {
            book.past.name: Change(overwrite=book.totals(parts, self.engine)),
            book.live.name: Change(
                merge=posted.filter(nw.col(SEGMENT) >= to), delete=closed.select(*book.names, SEGMENT)
            ),
        }

    def replaced(self, book: Book, past: nw.LazyFrame[Any], to: int) -> dict[str, Change]:
        """Put other totals in the past's place; the days before the cut are in them, and go."""
        return {
            book.past.name: Change(overwrite=book.totals([past], self.engine)),
            book.live.name: Change(delete=book.before(self.snapshot, to).select(*book.names, SEGMENT)),
        }


def merged(parts: Iterable[Mapping[str, Change]]) -> dict[str, Change]:
    """The changes of several books; no two share a table."""
    return {name: change for part in parts for name, change in part.items()}
