"""Watermarks: the event time up to which input is assumed to be complete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta

_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def advance(watermark: datetime | None, newest: datetime | None, delay: timedelta) -> datetime | None:
    """The watermark after a batch. It never goes back.

    Args:
        watermark: the watermark before (UTC); None before the first event time.
        newest: the highest event time of the batch (UTC); None if it has none.
        delay: how late rows may be.
    """
    if newest is None:
        return watermark
    reached = subtract(newest, delay)
    return reached if watermark is None else max(watermark, reached)


def subtract(moment: datetime, by: timedelta) -> datetime:
    """A UTC time minus a duration, but not before 0001-01-01."""
    return moment - min(by, moment - _FIRST)


def add(moment: datetime, by: timedelta) -> datetime:
    """A UTC time plus a duration, but not after the end of 9999-12-31."""
    return moment + min(by, _LAST - moment)


def advance_topics(so_far: Mapping[str, datetime], reached: Mapping[str, datetime | None]) -> dict[str, datetime]:
    """The watermark of each topic after a batch. It never goes back; topics that are not in `reached` are dropped."""
    advanced = {topic: advance(so_far.get(topic), each, timedelta()) for topic, each in reached.items()}
    return {topic: each for topic, each in advanced.items() if each is not None}


def advance_group(
    watermark: datetime | None, topics: Iterable[str], reached: Mapping[str, datetime]
) -> datetime | None:
    """The watermark of a topic group: the minimum over its topics, once each has one. It never goes back.

    Args:
        watermark: the group's watermark before (UTC); None until each topic has one.
        topics: the topics with an event time; one without new rows holds the group back.
        reached: the watermark of each topic.
    """
    return advance(watermark, lowest(reached.get(topic) for topic in topics), timedelta())


def lowest(watermarks: Iterable[datetime | None]) -> datetime | None:
    """The lowest of some watermarks (UTC); None if there are none, or if one of them does not exist yet."""
    all_ = list(watermarks)
    known = [each for each in all_ if each is not None]
    return min(known, default=None) if len(known) == len(all_) else None


def format_time(moment: datetime) -> str:
    """A time in ISO 8601, in UTC with ``Z``; a fraction is shown only if it is not zero.

    >>> format_time(datetime(2024, 3, 1, 9, tzinfo=UTC))
    '2024-03-01T09:00:00Z'
    >>> format_time(datetime(2024, 3, 1, 9, 0, 0, 500000, tzinfo=UTC))
    '2024-03-01T09:00:00.5Z'
    """
    fraction = f"{moment:.%f}".rstrip("0").rstrip(".")
    return f"{format_second(moment)[:-1]}{fraction}Z"


def format_second(moment: datetime) -> str:
    """A time in ISO 8601, to the second, in UTC with ``Z``.

    >>> format_second(datetime(999, 12, 31, 9, 0, 0, 500000, tzinfo=UTC))
    '0999-12-31T09:00:00Z'
    """
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def newest_of(moments: Iterable[date | datetime | None]) -> datetime | None:
    """The latest of some event times as an instant, None if there is none; a date is its midnight in UTC."""
    return max((instant(each) for each in moments if each is not None), default=None)


def instant(moment: date | datetime) -> datetime:
    """An event time as an instant in UTC. A time without a zone is taken as UTC, a date as its midnight in UTC."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
