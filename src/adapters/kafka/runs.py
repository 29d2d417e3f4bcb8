"""Records of topics, many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import polars as pl
from attrs import field, frozen

from ..records.decoder import Record
from ..records.shapes.chunk import Chunk
from ..records.shapes.decoder import gather
from .plan import RECORD_POSITIONS, Slice


@frozen(eq=False)
class Run:
    """Some records of a slice, in their order.

    Args:
        slice: the slice.
        offsets: their offsets.
        values: their bytes; None for a tombstone.
    """

    slice: Slice
    offsets: list[int] = field(factory=list)
    values: list[bytes | None] = field(factory=list)

    @property
    def size(self) -> int:
        """How many bytes the records have."""
        return sum(map(len, filter(None, self.values)))

    def records(self) -> Iterator[Record]:
        """The records, one by one."""
        place = self.slice.place
        for offset, value in zip(self.offsets, self.values, strict=True):
            yield Record(value, self.slice.position(offset), f"{place}{offset}")


def chunks(runs: Iterable[Run]) -> Iterator[Chunk]:
    """The records of runs in chunks; see `gather`."""
    return map(_chunk, gather(runs, lambda run: (len(run.values), run.size)))


def _chunk(runs: Sequence[Run]) -> Chunk:
    offsets = [pl.Series(run.offsets, dtype=pl.Int64) for run in runs]
    pairs = list(zip(runs, offsets, strict=True))
    positions = pl.concat([(each - each[0]) * RECORD_POSITIONS + run.slice.position(each[0]) for run, each in pairs])
    origins = pl.concat([run.slice.place + each.cast(pl.String) for run, each in pairs])
    return Chunk.of_values([value for run in runs for value in run.values], positions, origins)
