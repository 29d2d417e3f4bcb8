"""Signed sums by day, and the totals of the days before the cut. All measures are computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import narwhals as nw
from attrs import frozen

from ...ledger.ledger import Snapshot
from ...ports import FrameEngine
from ...table.change import Between, Change, Matching
from ...table.merge import Sum
from ...table.schema import Schema, column
from ...table.spec import TableSpec
from ..segments import SEGMENT

_BEGINNING = -(2**62)
"""Earlier than any day. Its neighbours can still be computed without an overflow."""


@frozen
class DailySums:
    """Two tables of sums: by key and day, and by key for all days before the cut.

    Args:
        live: key: the key and ``_segment``, the day. A row has the signed change of each sum on that day.
        past: key: the key. A row has the totals of all days before the cut.
        columns: the names of the columns that are summed.
    """

    live: TableSpec
    past: TableSpec
    columns: tuple[str, ...]

    @classmethod
    def of(cls, live: str, past: str, key: Schema, sums: Schema) -> DailySums:
        """Return the sums with these table names, key columns and sum columns."""
        rules = {name: Sum() for name in sums.names}
        day = column(SEGMENT, "bigint")
        return cls(
            TableSpec(
                live,
                Schema((*key.columns, day, *sums.columns)),
                key=(*key.names, SEGMENT),
                rules=rules,
                partition_by=(SEGMENT,),
            ),
            TableSpec(past, Schema((*key.columns, *sums.columns)), key=key.names, rules=rules),
            sums.names,
        )

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a sum, without the day."""
        return self.past.key

    def sum_by_day(self, entries: nw.LazyFrame[Any], engine: FrameEngine) -> nw.LazyFrame[Any]:
        """Sum a batch's entries by key and day. Rows whose sums are all 0 are left out."""
        return self._add_up(entries, (*self.key, SEGMENT), engine)

    def sum_totals(self, parts: list[nw.LazyFrame[Any]], engine: FrameEngine) -> nw.LazyFrame[Any]:
        """Sum the rows of all parts by key. Rows whose sums are all 0 are left out."""
        together = nw.concat([part.select(*self.key, *self.columns) for part in parts])
        return self._add_up(together, self.key, engine)

    def _add_up(self, rows: nw.LazyFrame[Any], by: tuple[str, ...], engine: FrameEngine) -> nw.LazyFrame[Any]:
        return self._drop_zeros(engine.add_up(rows, by, self.columns))

    def _drop_zeros(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return rows.filter(nw.any_horizontal(*(nw.col(name) != 0 for name in self.columns), ignore_nulls=True))

    def read_past(self, snapshot: Snapshot, keys: nw.LazyFrame[Any] | None = None) -> nw.LazyFrame[Any]:
        """Read the totals of the days before the cut; only of some keys if `keys` is set."""
        return snapshot.read(self.past.name, Matching(keys))

    def read_days(
        self, snapshot: Snapshot, cut: int | None, keys: nw.LazyFrame[Any] | None = None
    ) -> nw.LazyFrame[Any]:
        """Read the sums of each day at or after the cut, without zeros; only of some keys if `keys` is set."""
        within = {} if cut is None else {SEGMENT: Between(cut, -_BEGINNING)}
        return self._drop_zeros(snapshot.read(self.live.name, Matching(keys, within=within)))

    def read_days_before(self, snapshot: Snapshot, day: int) -> nw.LazyFrame[Any]:
        """Read the sums of each day before a day."""
        return snapshot.read(self.live.name, Matching(within={SEGMENT: Between(_BEGINNING, day - 1)}))


@frozen(eq=False)
class Update:
    """The update of daily sums by one batch.

    Args:
        engine: the engine of the frames.
        snapshot: the latest publication before the batch.
        absorbs: whether late changes (of days before the cut) are added to the past. If False, they stay in the live
            table until the past is replaced.
        cut: the first day that is not in the past; None if there is no past.
        days: the days of the batch's changes.
    """

    engine: FrameEngine
    snapshot: Snapshot
    absorbs: bool
    cut: int | None
    days: tuple[int, ...]

    def add(self, sums: DailySums, entries: nw.LazyFrame[Any]) -> dict[str, Change]:
        by_day = sums.sum_by_day(entries, self.engine)
        if not self.absorbs or self.cut is None or all(day >= self.cut for day in self.days):
            return {sums.live.name: Change(merge=by_day)}
        by_day = self.engine.persist(by_day)
        late = sums.sum_totals([by_day.filter(nw.col(SEGMENT) < self.cut)], self.engine)
        return {
            sums.past.name: Change(merge=late),
            sums.live.name: Change(merge=by_day.filter(nw.col(SEGMENT) >= self.cut)),
        }

    def roll(self, sums: DailySums, entries: nw.LazyFrame[Any], to: int) -> dict[str, Change]:
        """Add a batch's entries, and move all days before a later cut into the past."""
        by_day = self.engine.persist(sums.sum_by_day(entries, self.engine))
        closed = self.engine.persist(sums.read_days_before(self.snapshot, to))
        parts = [sums.read_past(self.snapshot), closed, by_day.filter(nw.col(SEGMENT) < to)]
        return {
            sums.past.name: Change(overwrite=sums.sum_totals(parts, self.engine)),
            sums.live.name: Change(
                merge=by_day.filter(nw.col(SEGMENT) >= to), delete=closed.select(*sums.key, SEGMENT)
            ),
        }

    def replace_past(self, sums: DailySums, past: nw.LazyFrame[Any], to: int) -> dict[str, Change]:
        """Replace the past by other totals, and delete the days before the cut, which the totals contain."""
        return {
            sums.past.name: Change(overwrite=sums.sum_totals([past], self.engine)),
            sums.live.name: Change(delete=sums.read_days_before(self.snapshot, to).select(*sums.key, SEGMENT)),
        }


def merge_changes(parts: Iterable[Mapping[str, Change]]) -> dict[str, Change]:
    """Merge the changes of several daily sums into one mapping; they have no table in common."""
    return {name: change for part in parts for name, change in part.items()}
