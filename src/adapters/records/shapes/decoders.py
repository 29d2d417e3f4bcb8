"""Decodes the parts of a backlog on several cores, and gives their rows in order."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import chain, islice
from queue import LifoQueue
from typing import TYPE_CHECKING, TypeAlias

import polars as pl
from attrs import define, field

from ....domain.source.record_spec import RecordSpec
from .decoder import ShapeDecoder

if TYPE_CHECKING:
    import pyarrow as pa

Part: TypeAlias = "Callable[[ShapeDecoder], pa.RecordBatch | None]"
"""Decodes a part of the records with a decoder; None if it has none."""

_MOST_THREADS = 4
"""With more of them, Python's own work between the decoder's steps is what takes the time."""


def _threads() -> int:
    return min(_MOST_THREADS, pl.thread_pool_size())


@define(eq=False)
class Decoders:
    """Decoders of one stream for all reads, which keep the shapes that they have learned.

    Args:
        spec: the spec of the records.
        threads: decode side by side, where there is more than one part.
    """

    spec: RecordSpec
    threads: int = field(factory=lambda: _threads())
    _all: Sequence[ShapeDecoder] = field(init=False)
    _free: LifoQueue[ShapeDecoder] = field(init=False, factory=LifoQueue)
    _pool: ThreadPoolExecutor = field(init=False)
    """Its threads start when they are first needed, and are kept: Polars compiles each pattern once a thread."""

    def __attrs_post_init__(self) -> None:
        self._all = [ShapeDecoder(self.spec, views=True) for _ in range(self.threads)]
        for each in self._all:
            self._free.put(each)
        self._pool = ThreadPoolExecutor(self.threads, "decode")

    def decode(self, parts: Iterable[Part]) -> Iterator[pa.RecordBatch]:
        """The batches of parts, in order, with texts that may be views; a few parts are taken ahead."""
        remaining = iter(parts)
        first = list(islice(remaining, 2))
        parts = chain(first, remaining)
        batches = map(self._work, parts) if self.threads == 1 or len(first) == 1 else self._side_by_side(parts)
        yield from (batch for batch in batches if batch is not None)

    def passed_over(self) -> Counter[str]:
        """The number of messages skipped since the last call, by table; not to be called during a read."""
        found = Counter[str]()
        for each in self._all:
            found.update(each.passed_over)
            each.passed_over.clear()
        return found

    def _side_by_side(self, parts: Iterable[Part]) -> Iterator[pa.RecordBatch | None]:
        begun = deque[Future["pa.RecordBatch | None"]]()
        try:
            for part in parts:
                begun.append(self._pool.submit(self._work, part))
                if len(begun) > self.threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for each in begun:
                each.cancel()
            wait(begun)  # a read after this one has all decoders

    def _work(self, part: Part) -> pa.RecordBatch | None:
        decoder = self._free.get()
        try:
            return part(decoder)
        finally:
            self._free.put(decoder)
