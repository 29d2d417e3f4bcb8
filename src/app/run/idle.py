"""What a pipeline does when its source has nothing new."""

from __future__ import annotations

from datetime import datetime

from ...domain.ledger.ledger import Snapshot
from ...domain.service.base import Service, Step
from .options import RunOptions


def find_idle_step(
    service: Service, snapshot: Snapshot, options: RunOptions, now: datetime, last_rows: datetime
) -> Step | None:
    """Return the changes that are due without new rows; None if there are none.

    Args:
        service: the service.
        snapshot: the newest publication.
        options: of the run.
        now: the time (UTC).
        last_rows: when the last rows were read (UTC).
    """
    if step := service.catch_up(snapshot):
        return step
    after = options.idle_after
    if after is None or now - last_rows < after:
        return None
    return service.idle(now - after - options.watermark_delay, snapshot)
