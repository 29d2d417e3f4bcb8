"""How long a pipeline waits before it tries an epoch again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from attrs import frozen


@frozen
class Backoff:
    """Exponential backoff with a cap and full jitter.

    Each wait is a random share of a limit, so that runs that failed together do not all come back together. See
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter.

    Args:
        first: the limit of the first wait; it doubles with each retry.
        longest: the limit stops growing here.
        jitter: returns the share of the limit to wait, from 0 to 1; without chance by default, for tests.
    """

    first: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(seconds=60)
    jitter: Callable[[], float] = lambda: 1.0

    def waits(self) -> Iterator[timedelta]:
        """Yield the waits between the tries of one epoch, without end.

        >>> [wait.seconds for wait, _ in zip(Backoff(longest=timedelta(seconds=5)).waits(), range(5))]
        [1, 2, 4, 5, 5]
        """
        limit = min(self.first, self.longest)
        while True:
            yield limit * self.jitter()
            limit = min(limit * 2, self.longest)
