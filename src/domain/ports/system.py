"""The machine's clock."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """The time, as a port so that tests need not wait."""

    @abstractmethod
    def now(self) -> datetime:
        """The present time, in UTC."""

    @abstractmethod
    def elapsed(self) -> timedelta:
        """The time since some moment; to set the clock does not change it."""

    @abstractmethod
    def sleep(self, duration: timedelta) -> None:
        """Wait, or return early when the process has been asked to stop."""
