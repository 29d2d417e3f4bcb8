"""Durations as they are written in the configuration: ``"90s" "5m" "1h" "1d"``."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from .errors import ConfigError

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHOWN = (("d", 864_000), ("h", 36_000), ("m", 600))
"""Tenths of a second in each unit."""
_CALENDAR = re.compile(r"month|year|quarter", re.IGNORECASE)
LONGEST = timedelta(days=365_000)
"""Longer than any use, and short enough to be added to a time."""
_SHOWN_LENGTH = 40
_PART = re.compile(r"(\d+)(ms|s|m|h|d|w)")


def parse_duration(text: str) -> timedelta:
    """Parse a duration. Several parts add up; a leading ``-`` makes it negative.

    Raises:
        ConfigError: the text is not a duration; the message shows the form.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text)
    body = body.replace(" ", "")
    parts = _PART.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise ConfigError(
            f"{text!r} is not a duration; write a number and one of {', '.join(_UNITS)}, such as '5m' or '1h30m'"
            + _hint(body)
        )
    try:
        length = sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
    except (OverflowError, ValueError):  # Python reads only numbers of some thousand digits
        length = timedelta.max
    if length > LONGEST:
        raise ConfigError(f"{_cut(text)!r} is too long: a duration is at most {LONGEST.days}d")
    return sign * length


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…"


def _hint(body: str) -> str:
    """A hint for a text that is not a duration: the text that was probably meant, or an empty text."""
    if body.isdecimal():
        return f"; seconds would be '{body}s'"
    if _CALENDAR.search(body):
        return "; months and years differ in length, so write days, such as '30d'"
    return ""


def show_duration(duration: timedelta) -> str:
    """A duration for display, in the form of the configuration: tenths of a second, below one second milliseconds.

    >>> show_duration(timedelta(minutes=75)), show_duration(timedelta(seconds=6.29)), show_duration(timedelta())
    ('1h15m', '6.2s', '0s')
    >>> show_duration(timedelta(microseconds=60_900))
    '60ms'
    """
    if timedelta() < duration < timedelta(seconds=1):
        return f"{duration // timedelta(milliseconds=1)}ms"
    sign, tenths = "-" if duration < timedelta() else "", abs(duration) // timedelta(milliseconds=100)
    parts = []
    for unit, size in _SHOWN:
        count, tenths = divmod(tenths, size)
        parts += [f"{count}{unit}"] if count else []
    seconds = f"{tenths / 10:g}s" if tenths or not parts else ""
    return sign + "".join(parts) + seconds


def microseconds(duration: timedelta) -> int:
    """The duration in whole microseconds."""
    return duration // timedelta(microseconds=1)


def micros_of(moment: datetime) -> int:
    """An instant in microseconds since 1970."""
    return microseconds(moment - EPOCH)


def moment_of(micros: int) -> datetime:
    """The instant (UTC) of microseconds since 1970."""
    return EPOCH + timedelta(microseconds=micros)


def nearest_moment(micros: int) -> datetime:
    """As `moment_of`, from 0001-01-03 to 9999-12-29: times in every zone, and no clock changes beyond them."""
    return moment_of(min(max(micros, -62_135_424_000_000_000), 253_402_041_600_000_000))


def offset_at(micros: int, zone: str) -> int:
    """The UTC offset of a zone's clock at an instant, both in microseconds."""
    return _utc_offset(nearest_moment(micros).astimezone(ZoneInfo(zone)))


def offset_of_wall(wall: int, zone: str, fold: int = 0) -> int:
    """The UTC offset of a zone's clock that shows a time, both in microseconds.

    If the clock changes at that time, it is the offset before the change; for a `fold` of 1 that after it.
    """
    return _utc_offset(nearest_moment(wall).replace(tzinfo=ZoneInfo(zone), fold=fold))


def _utc_offset(moment: datetime) -> int:
    return microseconds(moment.utcoffset() or timedelta())


def day_number(day: date) -> int:
    """The number of days from 1970-01-01 to a day."""
    return day.toordinal() - EPOCH.toordinal()


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WALL_EPOCH = EPOCH.replace(tzinfo=None)
"""1970-01-01 as a wall clock shows it."""
DAY_MICROS = microseconds(timedelta(days=1))
FIRST_MICRO = micros_of(datetime(1, 1, 1, tzinfo=UTC))
LAST_MICRO = micros_of(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
"""The first and the last timestamp that is accepted, in microseconds since 1970: 0001-01-01 and 9999-12-31, in UTC."""
