"""Durations as the configuration writes them: ``"90s" "5m" "1h" "1d"``."""

from __future__ import annotations

import re
from datetime import timedelta

from .errors import ConfigError

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PART = re.compile(r"(\d+)(ms|s|m|h|d|w)")


def parse_duration(text: str) -> timedelta:
    """Read a duration; several parts add up, and a leading ``-`` turns it round.

    Raises:
        ConfigError: the text is no duration; the message shows the form.

    >>> parse_duration("1h30m")
    datetime.timedelta(seconds=5400)
    """
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text)
    body = body.replace(" ", "")
    parts = _PART.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise ConfigError(
            f"{text!r} is no duration; write a number and one of {', '.join(_UNITS)}, such as '5m' or '1h30m'"
        )
    return sign * sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in parts), timedelta())


def microseconds(duration: timedelta) -> int:
    """The duration in whole microseconds, exactly."""
    return duration // timedelta(microseconds=1)
