"""Decodes on several cores."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa
from attrs import define, field

from ....domain.source.record_spec import RecordSpec
from ..decoder import take_counts
from .decoder import Portion, ShapeDecoder

_MOST_THREADS = 4
"""More would wait for one another, because part of the work is in Python."""
_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_THREADS = min(_CORES, _MOST_THREADS)
_threads = ThreadPoolExecutor(_THREADS, "headwater-decode")

_Decoded = tuple[pa.RecordBatch, dict[str, int]]


@define(eq=False)
class ShapeDecoders:
    """As `ShapeDecoder`, for Polars; decodes several portions at the same time, each with a decoder of its own."""

    spec: RecordSpec
    passed_over: Counter[str] = field(factory=Counter)
    _idle: list[ShapeDecoder] = field(init=False, factory=list)

    def decode(self, portions: Iterable[Portion]) -> Iterator[pa.RecordBatch]:
        """Decode each portion into a batch, in order."""
        begun = deque[Future[_Decoded]]()
        for portion in portions:
            begun.append(_threads.submit(self._decode, portion))
            if len(begun) == _THREADS:
                yield self._take(begun.popleft())
        while begun:
            yield self._take(begun.popleft())

    def _decode(self, portion: Portion) -> _Decoded:
        try:
            decoder = self._idle.pop()
        except IndexError:
            decoder = ShapeDecoder(self.spec, views=True)
        batch = decoder.decode_one(portion)
        counts = take_counts(decoder.passed_over)
        self._idle.append(decoder)
        return batch, counts

    def _take(self, decoded: Future[_Decoded]) -> pa.RecordBatch:
        batch, counts = decoded.result()
        self.passed_over.update(counts)
        return batch
