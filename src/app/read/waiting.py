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
    clock: Clock,
    poll: timedelta,
    timeout: timedelta | None,
    stopping: Callable[[], bool],
) -> Publication:
    """Wait until the watermark of the newest publication has reached a time, and return that publication.

    Args:
        newest: reads the newest publication again at each call.
        watermark: the event time (UTC) to wait for.
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
        if latest and latest.watermark and latest.watermark >= watermark:
            return latest
        left = poll if deadline is None else deadline - clock.elapsed()
        if timeout is not None and left <= _NO_TIME:
            raise WaitTimeout(_timeout_message(watermark, f"within {show_duration(timeout)}", latest, fault)) from fault
        if stopping():
            raise WaitTimeout(
                _timeout_message(watermark, "before the program was asked to end", latest, fault)
            ) from fault
        clock.sleep(min(poll, left))


def _look(newest: Callable[[], Publication | None]) -> tuple[Publication | None, Transient | None]:
    try:
        return newest(), None
    except Transient as fault:
        return None, fault


def _timeout_message(watermark: datetime, when: str, latest: Publication | None, fault: Transient | None) -> str:
    if fault:
        why = f"the tables could not be read in the end: {fault}"
    elif latest is None:
        why = "nothing is published yet; is the pipeline running?"
    elif latest.watermark is None:
        why = "it has no watermark: name the event_time of its source"
    else:
        pipeline, reached = latest.epoch.pipeline, format_time(latest.watermark)
        why = f"epoch {latest.epoch.number} of {pipeline} has reached {reached}; is the pipeline running?"
    return f"the watermark did not reach {format_time(watermark)} {when}: {why}"
