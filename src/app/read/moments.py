"""Parses times, durations and versions, for the command line and the Python API."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from numbers import Integral
from typing import TypeAlias

from ...domain.duration import LONGEST, parse_duration
from ...domain.epoch.watermark import instant
from ...domain.errors import ConfigError
from ...domain.ledger.label import Label

Time: TypeAlias = str | datetime | date
"""An instant: ISO-8601 text, a datetime or a date; in UTC if it has no zone."""
Duration: TypeAlias = str | timedelta
"""A span of time: a text such as ``2h``, or a timedelta."""
Moment: TypeAlias = int | str | datetime | date | Label
"""A publication: the number of its epoch, a time (the newest publication by then), or a label (``label:…``)."""

_LABEL = "label:"
_DIGITS = 18
"""Digits of the number of an epoch, at most."""


def read_time(given: Time) -> datetime:
    """Parse an instant; return it in UTC.

    Raises:
        ConfigError: the text is not ISO-8601, or the value is of another type.

    >>> read_time("2024-03-01"), read_time("2024-03-01T09:00:00+01:00").hour
    (datetime.datetime(2024, 3, 1, 0, 0, tzinfo=datetime.timezone.utc), 8)
    """
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError as error:
            raise ConfigError(f"{given!r} is not an ISO-8601 time such as 2024-03-01T09:00:00Z") from error
    if not isinstance(given, date):
        raise ConfigError(f"{given!r} is not a time; give a datetime, or ISO-8601 text such as 2024-03-01T09:00:00Z")
    try:
        return instant(given)
    except OverflowError as error:
        raise ConfigError(f"{given} is not a time between the years 1 and 9999 in UTC") from error


def read_duration(given: Duration) -> timedelta:
    """Parse a span of time.

    Raises:
        ConfigError: the text is not a duration, the value is of another type, or it is too long.
    """
    duration = parse_duration(given) if isinstance(given, str) else given
    if not isinstance(duration, timedelta):
        raise ConfigError(f"{given!r} is not a duration; give a timedelta, or a text such as '2h'")
    if duration > LONGEST:
        raise ConfigError(f"{given} is too long: a duration is at most {LONGEST.days}d")
    return duration


def read_day(given: date) -> date:
    """Return a day. A time is refused: its day depends on the zone.

    Raises:
        ConfigError: the value is not a date.
    """
    if isinstance(given, datetime) or not isinstance(given, date):
        raise ConfigError(f"{given!r} is not a day; give a date, such as date(2024, 3, 1)")
    return given


def read_moment(given: Moment) -> int | datetime | Label:
    """Parse a version: the number of an epoch, a time in UTC, or a label.

    Raises:
        ConfigError: see `read_time` and `Label.parse`.
    """
    if isinstance(given, Label):
        return given
    if isinstance(given, bool):
        raise ConfigError(f"{given} is not a version; give the number of an epoch, a time or a label")
    if isinstance(given, int | Integral):  # Integral: those of NumPy
        return int(given)
    if not isinstance(given, str):
        return read_time(given)
    if given.startswith(_LABEL):
        return Label.parse(given.removeprefix(_LABEL))
    number = given.removeprefix("-")
    if number.isdecimal() and len(number) > _DIGITS:
        raise ConfigError(f"there is no epoch {given[:_DIGITS]}…; give the number of an epoch, a time or a label")
    return int(given) if number.isdecimal() else read_time(given)
