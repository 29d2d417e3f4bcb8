"""Ends a command on SIGINT and SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from ..api import Headwater
from .console import print_message


@contextmanager
def graceful_stop(headwater: Headwater, work: str) -> Iterator[None]:
    """On the first signal, finish the current piece of work and stop; on a second one, stop immediately.

    Args:
        headwater: the deployment to stop.
        work: names the piece of work, for display.
    """

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        print_message(f"headwater: stopping after {work}; send the signal again to stop immediately")
        headwater.stop()

    former = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)
