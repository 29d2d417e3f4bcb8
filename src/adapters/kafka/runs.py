"""Records of topics, many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from ..records.decoder import Record
from ..records.shapes.chunk import Chunk
from ..records.shapes.decoder import gather
from .plan import RECORD_POSITIONS, Slice


@frozen(eq=False)
class Run:
    """Some records of a slice, in their order.

    They are in Arrow's memory as soon as they have come. If tens of thousands were kept as objects of Python, reading
    them would take a third more processor time.

    Args:
        slice: the slice.
        offsets: their offsets, Int64.
        values: their bytes; null for a tombstone.
    """

    slice: Slice
    offsets: pl.Series
    values: pa.LargeBinaryArray

    @classmethod
    def of(cls, slice_: Slice, offsets: Sequence[int], values: Sequence[bytes | None]) -> Self:
        return cls(slice_, pl.Series(offsets, dtype=pl.Int64), pa.array(values, pa.large_binary()))

    @property
    def size(self) -> int:
        """How many bytes the records have."""
        return pc.sum(pc.binary_length(self.values)).as_py() or 0

    def records(self) -> Iterator[Record]:
        """The records, one by one."""
        place = self.slice.place
        for offset, value in zip(self.offsets.to_list(), self.values.to_pylist(), strict=True):
            yield Record(value, self.slice.position(offset), f"{place}{offset}")


def chunks(runs: Iterable[Run]) -> Iterator[Chunk]:
    """The records of runs in chunks; see `gather`."""
    return map(_chunk, gather(runs, lambda run: (len(run.values), run.size)))


def _chunk(runs: Sequence[Run]) -> Chunk:
    positions = pl.concat([_positions(run.slice, run.offsets) for run in runs])
    origins = pl.concat([run.slice.place + run.offsets.cast(pl.String) for run in runs])
    return Chunk.of_values(pa.concat_arrays([run.values for run in runs]), positions, origins)


def _positions(slice_: Slice, offsets: pl.Series) -> pl.Series:
    first = int(offsets[0])
    return (offsets - first) * RECORD_POSITIONS + slice_.position(first)
