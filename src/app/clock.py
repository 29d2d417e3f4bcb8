"""The machine's own clock."""

from __future__ import annotations

from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from ..domain.ports import Clock

if TYPE_CHECKING:
    from datetime import timedelta


class SystemClock(Clock):
    """The machine's own clock, whose sleepers `wake` ends."""

    def __init__(self) -> None:
        # Unlike an event's, a simple queue's put may interrupt its own get: a signal handler wakes the very thread.
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def now(self) -> datetime:
        """The present moment, in UTC."""
        return datetime.now(UTC)

    def sleep(self, duration: timedelta) -> None:
        """Wait, or return early when woken; once woken, there is no more sleep."""
        try:
            self._wakes.get(timeout=duration.total_seconds())
        except Empty:
            return
        self.wake()

    def wake(self) -> None:
        """End this sleep and all later ones; safe in a signal handler."""
        self._wakes.put(None)
