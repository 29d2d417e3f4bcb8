"""Dead letters to Arrow: records out of what was kept of them, and their rows once more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from attrs import frozen

from .records import Record, RecordDecoder

if TYPE_CHECKING:
    from ..domain.source import RecordSpec

COLUMNS = ("row_kind", "origin", "raw", "bytes")
"""Of `dead_letter.SCHEMA`, what reading again needs."""

ReadAgain: TypeAlias = Callable[[Iterable[pa.RecordBatch], int], Iterator[pa.RecordBatch]]
"""Letters in order, as batches of `COLUMNS`, and the first position -> batches of `records.batch_schema`."""


def records(letters: Iterable[pa.RecordBatch], first: int) -> Iterator[Record]:
    """The records of letters, positions counted from `first` with room for the rows of each."""
    at = first
    for batch in letters:
        for kind, origin, raw, original in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            record = raw.encode() if original is None and raw is not None else original
            yield Record(record, at, origin, kind)
            at += len(record or b"") + 1


@frozen
class JsonLetters:
    """Reads letters again that hold one JSON document each.

    Args:
        spec: what the records hold, as is known by now.
    """

    spec: RecordSpec

    def __call__(self, letters: Iterable[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
        return RecordDecoder(self.spec).batches(records(letters, first))
