"""A clock that tests move by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from attrs import define, field

from ..domain.ports import Clock


@define(eq=False)
class ManualClock(Clock):
    """Shows a moment that only sleeping, or the test, moves."""

    moment: datetime = field(default=datetime(2024, 1, 1, tzinfo=UTC))

    def now(self) -> datetime:
        """The moment it shows; a second passes with each look, so that no two publications share one."""
        self.moment += timedelta(seconds=1)
        return self.moment

    def sleep(self, duration: timedelta) -> None:
        """Move on at once."""
        self.moment += duration
