"""How a command ends when it is asked to."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .messages import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .api import Headwater


@contextmanager
def graceful_stop(headwater: Headwater, work: str) -> Iterator[None]:
    """On the first signal the work under way is ended, and nothing begun after it; a second one ends all at once.

    Args:
        headwater: what to stop.
        work: what is ended first, for people.
    """

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        say(f"headwater: stopping after {work}; once more to stop at once")
        headwater.stop()

    former = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
