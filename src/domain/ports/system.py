"""The machine's clock."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class Clock(Protocol):
    """The time, as a port so that tests need not wait."""

    @abstractmethod
    def now(self) -> datetime:
        """The present time, in UTC."""

    @abstractmethod
    def sleep(self, duration: timedelta) -> None:
        """Wait, or return early when the process has been asked to stop."""
