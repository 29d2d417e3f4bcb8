"""Event time up to which input is taken to be complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta


def advance(watermark: datetime | None, newest: datetime | None, delay: timedelta) -> datetime | None:
    """The watermark after a batch whose newest event time is `newest`: it never goes back.

    Args:
        watermark: the one so far (UTC), None before the first event time.
        newest: highest event time of the batch (UTC), None if it had none.
        delay: how far the newest event time runs ahead of completeness.
    """
    if newest is None:
        return watermark
    reached = newest - delay
    return reached if watermark is None else max(watermark, reached)
