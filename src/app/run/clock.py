"""The machine's own clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from time import monotonic

from ...domain.ports import Clock


class SystemClock(Clock):
    """The machine's own clock; `wake` ends a sleep."""

    def __init__(self) -> None:
        # A signal handler may wake its own thread: unlike an event, a simple queue allows put inside get.
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> timedelta:
        return timedelta(seconds=monotonic())

    def sleep(self, duration: timedelta) -> None:
        """Wait; return early after `wake`. After the first `wake`, every sleep returns immediately."""
        try:
            self._wakes.get(timeout=duration.total_seconds())
        except Empty:
            return
        self.wake()

    def wake(self) -> None:
        """End this sleep and all later ones; safe in a signal handler."""
        self._wakes.put(None)
