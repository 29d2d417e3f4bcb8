"""Times as ISO-8601 texts, those included that Python's `datetime` cannot hold."""

from __future__ import annotations

from datetime import timedelta

from ...domain.duration import DAY_MICROS, WALL_EPOCH

_CYCLE, _YEARS = 146_097 * DAY_MICROS, 400
"""The length of the cycle in which the calendar repeats itself, in microseconds and in years."""


def iso_wall_time(micros: int) -> str:
    """The text of a wall time before year 1 or after 9999, in microseconds since 1970: its year has a sign.

    A column of times refuses it; a column of texts takes it.

    >>> iso_wall_time(253_402_300_800_000_000), iso_wall_time(-62_135_596_800_000_001)
    ('+10000-01-01T00:00:00', '+0000-12-31T23:59:59.999999')
    """
    cycles, rest = divmod(micros, _CYCLE)
    moment = WALL_EPOCH + timedelta(microseconds=rest)
    return f"{moment.year + cycles * _YEARS:+05}{moment.isoformat()[4:]}"
