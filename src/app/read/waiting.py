"""Waits for a pipeline's watermark; any process may run the pipeline."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from ...domain.duration import show_duration
from ...domain.epoch.epoch import Publication
from ...domain.epoch.watermark import format_time
from ...domain.errors import Transient, WaitTimeout
from ...domain.ports import Clock

_NO_TIME = timedelta()


def wait_for(
    newest: Callable[[], Publication | None],
    watermark: datetime,
    *,
    complete_to: Callable[[Publication], datetime | None],
    clock: Clock,
    poll: timedelta,
    timeout: timedelta | None,
    stopping: Callable[[], bool],
) -> Publication:
    """Wait until the watermark of the newest publication has reached a time, and return that publication.

    Args:
        newest: reads the newest publication again at each call.
        watermark: the event time (UTC) to wait for.
        complete_to: see `Service.complete_to`.
        clock: measures the wait.
        poll: the time between two checks.
        timeout: the longest wait; None for no limit.
        stopping: whether the program was asked to end.

    Raises:
        WaitTimeout: the watermark was not reached in time, or the program was asked to end.
        HeadwaterError: a permanent fault; a transient one does not end the wait.
    """
    deadline = None if timeout is None else clock.elapsed() + timeout
    while True:
        latest, fault = _look(newest)
        reached = complete_to(latest) if latest else None
        if latest and reached and reached >= watermark:
            return latest
        left = poll if deadline is None else deadline - clock.elapsed()
        if timeout is not None and left <= _NO_TIME:
            raise _timed_out(watermark, f"within {show_duration(timeout)}", _why(latest, reached, fault)) from fault
        if stopping():
            raise _timed_out(watermark, "before the program was asked to end", _why(latest, reached, fault)) from fault
        clock.sleep(min(poll, left))


def _look(newest: Callable[[], Publication | None]) -> tuple[Publication | None, Transient | None]:
    try:
        return newest(), None
    except Transient as fault:
        return None, fault


def _timed_out(watermark: datetime, when: str, why: str) -> WaitTimeout:
    return WaitTimeout(f"the watermark did not reach {format_time(watermark)} {when}: {why}")


def _why(latest: Publication | None, reached: datetime | None, fault: Transient | None) -> str:
    """Why the wait ended in vain, for display."""
    if fault:
        return f"the tables could not be read in the end: {fault}"
    if latest is None:
        return "nothing is published yet; is the pipeline running?"
    if reached is None:
        return "it has no watermark: name the event_time of its source"
    place = f"epoch {latest.epoch.number} of {latest.epoch.pipeline}"
    return f"{place} has reached {format_time(reached)}; is the pipeline running?"
