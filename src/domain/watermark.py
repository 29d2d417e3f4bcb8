"""Event time up to which input is taken to be complete."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import timedelta


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


def told(watermark: datetime) -> str:
    """A watermark in ISO-8601, in UTC with ``Z``, with a fraction only where it is not zero.

    >>> told(datetime(2024, 3, 1, 9, tzinfo=UTC)), told(datetime(2024, 3, 1, 9, 0, 0, 500000, tzinfo=UTC))
    ('2024-03-01T09:00:00Z', '2024-03-01T09:00:00.5Z')
    """
    moment = watermark.astimezone(UTC)
    fraction = f"{moment:.%f}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def newest_of(moments: Iterable[date | datetime | None]) -> datetime | None:
    """The latest of some collected event times, as an instant; a date is its midnight in UTC."""
    return max((instant(each) for each in moments if each is not None), default=None)


def instant(moment: date | datetime) -> datetime:
    """An event time as an instant in UTC; one without a zone is in UTC, a date is its midnight."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
