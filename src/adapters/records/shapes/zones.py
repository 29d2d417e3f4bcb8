"""Wall times of a zone as instants, by the offsets that Python's own zone data has."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl

_FIRST, _LAST = datetime(1, 1, 3), datetime(9999, 12, 30)  # noqa: DTZ001 - wall times
_MICRO = timedelta(microseconds=1)
_EDGES = (timedelta(0), timedelta(minutes=59, seconds=59, microseconds=999_999))


def to_utc(wall: pl.Series, zone: str) -> pl.Series:
    """Instants of wall times; null where an hour has two offsets, and in the first and last days that there are."""
    if zone == "UTC":
        return wall.dt.replace_time_zone("UTC")
    hours = wall.dt.truncate("1h")
    known = hours.unique().drop_nulls()
    offsets = pl.Series([_offset(hour, ZoneInfo(zone)) for hour in known], dtype=pl.Int64)
    micros = hours.replace_strict(known, offsets, default=None, return_dtype=pl.Int64)
    return (wall.cast(pl.Int64) - micros).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _offset(hour: datetime, zone: ZoneInfo) -> int | None:
    """The offset of a whole hour in microseconds; None if it has two, or is unknown."""
    if not _FIRST < hour < _LAST:
        return None
    moments = [(hour + edge).replace(tzinfo=zone, fold=fold) for fold in (0, 1) for edge in _EDGES]
    first, *others = {moment.utcoffset() for moment in moments}
    return None if others or first is None else first // _MICRO
