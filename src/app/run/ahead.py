"""Reads the next epoch of a pipeline while the present one is computed and committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager

from attrs import define, evolve, field, frozen

from ...adapters.memory_limit import held_rows, hold_rows
from ...domain.epoch.batch import Batch
from ...domain.epoch.epoch import Epoch, OffsetRange, Offsets
from ...domain.errors import HeadwaterError
from ...domain.ports import FrameEngine, Now, Source

_log = logging.getLogger(__name__)


@frozen(eq=False)
class _Opened:
    """A batch that has been read.

    Args:
        batch: of the epoch that is expected to read it.
        holding: closes the batch.
        size: bytes of its rows in memory that the epoch itself has not counted.
    """

    batch: Batch
    holding: ExitStack
    size: int = 0


@define(eq=False)
class ReadAhead:
    """Reads epochs of one pipeline, each while the one before it is computed and committed.

    Only a backlog is read ahead: if nothing is waiting behind the next epoch, that epoch is planned when it begins,
    with all rows that have arrived by then. A batch that turns out to be that of another epoch is dropped, and read
    again.

    Args:
        source: of the pipeline.
        engine: of its frames.
        prepare: see `Service.prepare`.
        memory: limits what is read ahead.
        thread: reads.
    """

    source: Source
    engine: FrameEngine
    prepare: Callable[[Batch], Batch]
    memory: Callable[[], AbstractContextManager[None]]
    thread: ThreadPoolExecutor
    _next: Future[_Opened | None] | None = field(init=False, default=None)
    _planned_at: Now | None = field(init=False, default=None)

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:
        """See `Source.plan`; the range that has been read ahead, if it is the next one."""
        self._planned_at, opened = now, self._next.result() if self._next else None
        if opened and opened.batch.offsets.after == after:
            return opened.batch.offsets
        return self.source.plan(after, now)

    @contextmanager
    def open(self, epoch: Epoch, offsets: OffsetRange) -> Iterator[Batch]:
        """See `Source.open`; inside the block the next epoch is read."""
        opened = self._take()
        if opened and (opened.batch.epoch, opened.batch.offsets) != (epoch, offsets):
            opened.holding.close()
            opened = None
        opened = opened or self._open(epoch, offsets)
        with opened.holding:
            hold_rows(opened.size)
            if self._planned_at and self.source.eager:
                following = Epoch(epoch.pipeline, epoch.number + 1)
                self._next = self.thread.submit(self._read, following, offsets.until, self._planned_at)
            yield opened.batch

    def close(self) -> None:
        """Drop what has been read ahead."""
        if opened := self._take():
            opened.holding.close()

    def _take(self) -> _Opened | None:
        """What has been read ahead, which is then no longer kept; the source is not in use afterwards."""
        following, self._next = self._next, None
        return following.result() if following else None

    def _read(self, epoch: Epoch, after: Offsets, now: Now) -> _Opened | None:
        """Read the next epoch, if more is waiting behind it."""
        try:
            with self.engine.working(), self.memory():
                offsets = self.source.plan(after, now)
                if offsets is None or self.source.plan(offsets.until, now) is None:
                    return None
                return self._prepared(self._open(epoch, offsets))
        except HeadwaterError as fault:  # the epoch itself will meet it, and raise it or find another engine
            _log.debug("%s: epoch %d was not read ahead: %s", epoch.pipeline, epoch.number, fault)
            return None

    def _prepared(self, opened: _Opened) -> _Opened:
        with opened.holding as holding:
            batch = self.prepare(opened.batch)
            return _Opened(batch, holding.pop_all(), held_rows())

    def _open(self, epoch: Epoch, offsets: OffsetRange) -> _Opened:
        with ExitStack() as holding:
            batch = holding.enter_context(self.source.open(epoch, offsets))
            if self.source.eager:  # the next read of the source counts on
                passed_over = batch.passed_over()
                batch = evolve(batch, passed_over=lambda: passed_over)
            return _Opened(batch, holding.pop_all())
