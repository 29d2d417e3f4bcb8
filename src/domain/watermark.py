"""Event time up to which input is taken to be complete."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FIRST = datetime(1, 1, 1, tzinfo=UTC)


def advance(watermark: datetime | None, newest: datetime | None, delay: timedelta) -> datetime | None:
    """The watermark after a batch whose newest event time is `newest`: it never goes back.

    Args:
        watermark: the one so far (UTC), None before the first event time.
        newest: highest event time of the batch (UTC), None if it had none.
        delay: how far the newest event time runs ahead of completeness.
    """
    if newest is None:
        return watermark
    reached = earlier(newest, delay)
    return reached if watermark is None else max(watermark, reached)


def earlier(moment: datetime, by: timedelta) -> datetime:
    """A moment in UTC so much earlier, or the first that there is."""
    return moment - min(by, moment - _FIRST)


def furthest(so_far: Mapping[str, datetime], reached: Mapping[str, datetime | None]) -> dict[str, datetime]:
    """The watermark of each topic after a batch: none goes back, and those of topics that are gone are left out."""
    moved = {topic: advance(so_far.get(topic), each, timedelta()) for topic, each in reached.items()}
    return {topic: each for topic, each in moved.items() if each is not None}


def slowest(watermark: datetime | None, topics: Iterable[str], reached: Mapping[str, datetime]) -> datetime | None:
    """The watermark of a topic group: that of its slowest topic, once each has one; it never goes back.

    Args:
        watermark: of the group so far (UTC); None while some topic had none.
        topics: those that have an event time; one that brings nothing holds the others back.
        reached: the watermark of each.
    """
    known = [reached.get(topic) for topic in topics]
    there = [each for each in known if each is not None]
    if not there or len(there) < len(known):
        return watermark
    return advance(watermark, min(there), timedelta())


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
