"""When further publications of a pipeline come: by its schedule, or by the pace of the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from attrs import frozen

from ..duration import show_duration
from ..epoch.epoch import Publication

if TYPE_CHECKING:
    from datetime import datetime

LATE = 10
"""On a schedule by the clock, a version that is late by up to one tenth of the interval does not delay the next one."""
FEW = 11
"""The number of latest publications from which the future is estimated."""


@frozen
class Upcoming:
    """When further publications come, at the earliest. All times count from now.

    Args:
        first: the time until the next publication.
        second: the time until the one after it.
        interval: the time from each later one to the next.
        basis: what this is taken from, for display.
    """

    first: timedelta
    second: timedelta
    interval: timedelta
    basis: str

    def until(self, number: int) -> timedelta:
        """The time until the n-th further publication; 1 is the next one."""
        return self.first if number == 1 else max(self.second + (number - 2) * self.interval, timedelta())


def estimate(publications: Sequence[Publication], now: datetime, most: timedelta | None = None) -> Upcoming:
    """Estimate further publications from the pace of the last ones; without a pace, they may come at any time.

    Args:
        publications: newest first, at least one.
        now: the present time (UTC).
        most: the longest interval to assume, whatever the pace is.
    """
    pace = pace_of(publications)
    interval = min((each for each in (pace, most) if each is not None), default=timedelta())
    basis = f"a publication every {show_duration(interval)}, recent average" if pace else "publications at any time"
    first = max(publications[0].published_at + interval - now, timedelta())
    return Upcoming(first, first + interval, interval, basis)


def pace_of(publications: Sequence[Publication]) -> timedelta | None:
    """The mean time from one publication to the next, over the last few; None if there are fewer than two."""
    some = publications[:FEW]
    return max((some[0].published_at - some[-1].published_at) / (len(some) - 1), timedelta()) if some[1:] else None
