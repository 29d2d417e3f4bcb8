"""Decodes the records of dead letters again into Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TypeAlias

import pyarrow as pa
from attrs import frozen

from ...domain.source.record_spec import RecordSpec
from ...domain.table.schema import FLOATS
from .decoder import Record, RecordDecoder
from .parsing import parse_json

COLUMNS = ("row_kind", "origin", "raw", "bytes")
"""The columns of `dead_letter.SCHEMA` that decoding again needs."""

_NOT_FINITE = ("NaN", "Infinity", "-Infinity")

ReadAgain: TypeAlias = Callable[[Iterable[pa.RecordBatch], int], Iterator[pa.RecordBatch]]
"""Dead letters in order, as batches of `COLUMNS`, and the first position -> batches of `records.batch_schema`."""


def records(letters: Iterable[pa.RecordBatch], first: int) -> Iterator[Record]:
    """The records of dead letters; positions count from `first`, with room for the rows of each record."""
    at = first
    for batch in letters:
        for kind, origin, raw, original in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            record = raw.encode() if original is None and raw is not None else original
            yield Record(record, at, origin, kind)
            at += len(record or b"") + 1


@frozen
class JsonDeadLetters:
    """Decodes dead letters again that hold one JSON document each.

    Args:
        spec: the spec of the records, as declared now.
    """

    spec: RecordSpec

    def __call__(self, letters: Iterable[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
        return self._decoder().batches(records(letters, first))

    def _decoder(self) -> RecordDecoder:
        return RecordDecoder(self.spec)


@frozen
class FrameDeadLetters(JsonDeadLetters):
    """Decodes dead letters of pushed frames again: as JSON, with texts for NaN and infinities, which it lacks."""

    def _decoder(self) -> RecordDecoder:
        floats = [each.name for each in self.spec.schema.columns if each.type.name in FLOATS]
        return RecordDecoder(self.spec, partial(_parse_row, floats))


def _parse_row(floats: Collection[str], raw: bytes) -> object:
    row = parse_json(raw)
    if isinstance(row, dict):
        row |= {name: float(row[name]) for name in floats if row.get(name) in _NOT_FINITE}
    return row
