"""A clock that tests set by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from attrs import define, field

from ..domain.ports import Clock, Now

NOW = Now(datetime(2024, 1, 1, tzinfo=UTC))
"""A moment, for the plans of sources to which the time does not matter."""


@define(eq=False)
class ManualClock(Clock):
    """A clock that shows `moment`. Only the test, `sleep` and each look at the clock move it.

    It is `wrong` by a time, as a clock is that is set while no time passes.
    """

    moment: datetime = field(default=datetime(2024, 1, 1, tzinfo=UTC))
    wrong: timedelta = timedelta()

    def now(self) -> datetime:
        """Advance by one second and return the moment, so that no two publications have the same time."""
        self.moment += timedelta(seconds=1)
        return self.moment + self.wrong

    def elapsed(self) -> timedelta:
        return self.moment - NOW.time

    def sleep(self, duration: timedelta) -> None:
        """Advance by the duration without waiting."""
        self.moment += duration
