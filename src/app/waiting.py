"""Waits for a pipeline's watermark, whoever runs the pipeline."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from ..domain.duration import show_duration
from ..domain.errors import Transient, WaitTimeout
from ..domain.watermark import told

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from ..domain.epoch import Publication
    from ..domain.ports import Clock

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
    """The newest publication, as soon as its watermark has reached a time.

    Args:
        newest: finds it, afresh each time.
        watermark: the event time (UTC) up to which input is wanted.
        clock: to wait by.
        poll: the time from one look to the next.
        timeout: after which to give up; None for never.
        stopping: whether the program was asked to end.

    Raises:
        WaitTimeout: it has not come in time, or the program was asked to end.
        HeadwaterError: a fault that does not pass; one that passes is waited out.
    """
    deadline = None if timeout is None else clock.now() + timeout
    while True:
        latest, fault = _look(newest)
        if latest and latest.watermark and latest.watermark >= watermark:
            return latest
        left = poll if deadline is None else deadline - clock.now()
        if timeout is not None and left <= _NO_TIME:
            raise WaitTimeout(_told(watermark, f"within {show_duration(timeout)}", latest, fault)) from fault
        if stopping():
            raise WaitTimeout(_told(watermark, "before the program was asked to end", latest, fault)) from fault
        clock.sleep(min(poll, left))


def _look(newest: Callable[[], Publication | None]) -> tuple[Publication | None, Transient | None]:
    try:
        return newest(), None
    except Transient as fault:
        return None, fault


def _told(watermark: datetime, when: str, latest: Publication | None, fault: Transient | None) -> str:
    if fault:
        why = f"the tables could not be read at last: {fault}"
    elif latest is None:
        why = "nothing is published yet; is the pipeline running?"
    elif latest.watermark is None:
        why = "it has no watermark: name the event_time of its source"
    else:
        pipeline, reached = latest.epoch.pipeline, told(latest.watermark)
        why = f"epoch {latest.epoch.number} of {pipeline} has reached {reached}; is the pipeline running?"
    return f"the watermark did not reach {told(watermark)} {when}: {why}"
