"""The rows of a table version: partitions of immutable runs that later versions share.

Removing a row marks it in its run and copies nothing; new rows start a new run. Small runs are merged like the
carries of a binary counter, so n commits leave about log2(n) runs and copy each row about log2(n) times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl
from attrs import define, evolve, frozen

from ...domain.table.schema import Schema
from ..polars.schema import stack

_ROW = "_headwater_row_number"
# Copying this many rows is faster than searching one more run.
_FEW = 1_000


@frozen(eq=False)
class Run:
    """Rows that were added together, and a mask of those removed since (None: none removed)."""

    frame: pl.DataFrame
    gone: pl.Series | None = None

    @property
    def rows(self) -> pl.DataFrame:
        """The rows that have not been removed."""
        return self.frame if self.gone is None else self.frame.filter(~self.gone)

    def split(self, keys: pl.DataFrame) -> tuple[pl.DataFrame, Run]:
        """The rows that have one of these (unique) keys, and the run without them."""
        hit = self._hits(keys)
        if not hit.any():
            return self.frame.clear(), self
        gone = hit if self.gone is None else hit | self.gone
        left = Run(self.frame, gone)
        return self.frame.filter(hit), Run(left.rows) if 2 * gone.sum() > self.frame.height else left

    def rows_missing_in(self, other: Run | None) -> pl.DataFrame:
        """The rows that another state of this run has removed; all rows if there is no other state."""
        if other is None or other.gone is None:
            return self.rows if other is None else self.frame.clear()
        return self.frame.filter(other.gone if self.gone is None else other.gone & ~self.gone)

    def _hits(self, keys: pl.DataFrame) -> pl.Series:
        numbered = self.frame.select(keys.columns).with_row_index(_ROW)
        found = numbered.join(keys, on=keys.columns, how="semi")[_ROW]  # a left join of one row with one row misses NaN
        hit = pl.repeat(value=False, n=self.frame.height, eager=True).scatter(found, values=True)
        return hit if self.gone is None else hit & ~self.gone


@frozen(eq=False)
class Partition:
    """All runs whose rows share their partition values, oldest first."""

    runs: tuple[Run, ...] = ()

    def split(self, keys: pl.DataFrame) -> tuple[list[pl.DataFrame], Partition]:
        """The rows that have one of these (unique) keys, and the partition without them."""
        halves = [run.split(keys) for run in self.runs]
        return [taken for taken, _ in halves], Partition(tuple(run for _, run in halves if run.frame.height))

    def plus(self, rows: pl.DataFrame, schema: Schema) -> Partition:
        """The partition with these rows added."""
        runs = [*self.runs, Run(rows)]
        while len(runs) > 1 and runs[-2].frame.height < max(2 * runs[-1].frame.height, _FEW):
            newer, older = runs.pop(), runs.pop()
            runs.append(Run(stack(schema, [older.rows, newer.rows])))
        return Partition(tuple(runs))

    def rows_missing_in(self, other: Partition) -> list[pl.DataFrame]:
        """Rows that the other partition may not have; the two may share runs."""
        theirs = {id(run.frame): run for run in other.runs}
        return [run.rows_missing_in(theirs.get(id(run.frame))) for run in self.runs]


PartitionValues: TypeAlias = tuple[Any, ...]
_NOTHING = Partition()


@define(eq=False)
class Content:
    """The partitions of one version by their partition values; ``()`` if a table has no partition columns."""

    by: Sequence[str]
    partitions: Mapping[PartitionValues, Partition]

    def rows(self) -> Iterator[pl.DataFrame]:
        """All rows, in several frames."""
        for partition in self.partitions.values():
            yield from (run.rows for run in partition.runs)

    def frames(self) -> dict[int, int]:
        """The frames that hold its rows, by id, with their size in memory, in bytes."""
        runs = (run for partition in self.partitions.values() for run in partition.runs)
        return {id(run.frame): int(run.frame.estimated_size()) for run in runs}

    def only(self, places: Iterable[PartitionValues]) -> Content:
        """The content of these partitions only."""
        return evolve(self, partitions={place: self.partitions[place] for place in places})

    def split(self, keys: pl.DataFrame) -> tuple[list[pl.DataFrame], Content]:
        """The rows that have one of these (unique) keys, and the content without them."""
        taken: list[pl.DataFrame] = []
        left = dict(self.partitions)
        for place, wanted in self._cut(keys):
            if place in left:
                found, left[place] = left[place].split(wanted)
                taken += found
        return taken, evolve(self, partitions={place: partition for place, partition in left.items() if partition.runs})

    def plus(self, rows: pl.DataFrame, schema: Schema) -> Content:
        """The content with these rows added."""
        grown = dict(self.partitions)
        for place, added in self._cut(rows):
            grown[place] = grown.get(place, _NOTHING).plus(added, schema)
        return evolve(self, partitions=grown)

    def rows_missing_in(self, other: Content) -> Iterator[pl.DataFrame]:
        """Rows that another content may lack; some may be equal to its rows."""
        for place, partition in self.partitions.items():
            yield from partition.rows_missing_in(other.partitions.get(place, _NOTHING))

    def _cut(self, rows: pl.DataFrame) -> Iterable[tuple[PartitionValues, pl.DataFrame]]:
        if not rows.height:
            return ()
        return rows.partition_by(self.by, as_dict=True).items() if self.by else (((), rows),)
