"""Segments: half-open intervals of the order value that limit the rows an epoch has to read.

The number of a segment is the floor of ``(order value - offset) / interval``, so equal values are in one segment. If
the interval is whole days, segments follow the zone's wall clock: a segment is a local day, 23 or 25 hours long when
clocks change; see `boundaries`. Shorter intervals follow UTC. Segment numbers never decrease as order values increase.
So the size of segments affects speed only, never the result.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import narwhals as nw
from attrs import frozen

from ..duration import FIRST_MICRO, micros_of, microseconds, parse_duration
from ..errors import ConfigError
from ..ports import FrameFunctions
from ..table.schema import INTEGERS, NUMBERS, TIMES, DataType
from .boundaries import Boundaries

SEGMENT = "_segment"
_WALL = "_wall"
_NULLS = 2**62  # beyond any real segment; small enough that neighbours can be computed
_FARTHEST = 2.0**61
"""Values beyond this number of segments share the first or the last one; NaN and infinite values are in the last."""


@frozen
class Segments:
    """How an order column is divided into segments.

    Args:
        column: the order column.
        interval: in microseconds for times, in the column's own unit for numbers.
        offset: where segment 0 starts, in the same unit.
        zone: IANA zone of the wall clock, for times; None for numbers.
        null_segment: the segment number of rows without an order value.
    """

    column: str
    interval: float
    offset: float
    zone: str | None
    null_segment: int

    @classmethod
    def of(cls, column: str, kind: DataType, *, interval: str, offset: str, zone: str, nulls_lowest: bool) -> Segments:
        """Segments from their configuration.

        Raises:
            ConfigError: the order column's type cannot be divided into segments, or interval or offset do not fit it.
        """
        null_segment = -_NULLS if nulls_lowest else _NULLS
        if kind.name in TIMES:
            every = parse_duration(interval)
            if every <= timedelta():
                raise ConfigError(f"segment {interval!r} must be longer than 0")
            wall = zone if every % timedelta(days=1) == timedelta() else "UTC"
            return cls(column, microseconds(every), microseconds(parse_duration(offset)), wall, null_segment)
        if kind.name in NUMBERS:
            return cls(column, _number(interval, "segment"), _number(offset, "offset"), None, null_segment)
        raise ConfigError(
            f"order_by {column!r} is a {kind.ddl}, which cannot be cut into segments; use a timestamp, date or number"
        )

    def assign(self, rows: nw.LazyFrame[Any], engine: FrameFunctions) -> nw.LazyFrame[Any]:
        """Add bigint `_segment` to rows with the order column."""
        if (times := self.times) is None:
            numbered = rows.with_columns(self._number_of(nw.col(self.column).cast(nw.Float64)).alias(SEGMENT))
        else:
            walled = times.floor(rows, self.column, engine, into=_WALL)
            numbered = walled.with_columns(times.number(nw.col(_WALL)).alias(SEGMENT)).drop(_WALL)
        return numbered.with_columns(nw.col(SEGMENT).fill_null(self.null_segment))

    def number_of(self, moment: datetime) -> int:
        """The number of the segment that holds an instant."""
        assert self.times is not None
        wall = self.times.floor_of(micros_of(moment))
        return (wall - self.times.offset) // self.times.every

    @property
    def times(self) -> Boundaries | None:
        """The boundaries of segments of times; None for numbers."""
        return None if self.zone is None else Boundaries(int(self.interval), int(self.offset), self.zone)

    def _number_of(self, value: nw.Expr) -> nw.Expr:
        # Each step keeps the order of values, rounding or not. The divisor is a column: Polars divides some rows by a
        # literal and multiplies others by its reciprocal, so equal values could have two numbers.
        exact = (value - self.offset if self.offset else value) / (value * 0 + self.interval)
        low, high = nw.lit(-_FARTHEST), nw.lit(_FARTHEST)
        near = nw.when(exact > high).then(high).otherwise(nw.when(exact < low).then(low).otherwise(exact))
        return near.floor().cast(nw.Int64)

    def is_corrected(self, kind: DataType) -> bool:
        """Whether tables of an earlier state can have other segment numbers, of which some are wrong.

        Some rows were multiplied by the reciprocal of the interval, which is rounded. If values, interval and offset
        are whole numbers (up to 2**51), only the first value of a segment can have the wrong number: if the reciprocal
        is too small by more than the rounding of the product makes up for.
        """
        if self.times is not None:
            return False
        reciprocal = 1 / self.interval
        if not math.isfinite(reciprocal):
            return True
        product = Fraction(reciprocal) * Fraction(self.interval)
        whole = kind.name in INTEGERS and self.interval.is_integer() and self.offset.is_integer()
        return product < 1 - Fraction(1, 2**54) if whole else product != 1

    def start(self, rows: nw.LazyFrame[Any], engine: FrameFunctions, number: str, into: str) -> nw.LazyFrame[Any]:
        """Add `into`: where the segment numbered by column `number` starts (timestamp, or double for numbers).

        A segment that would start before 0001-01-01 starts at that time. The lowest segment of numbers has no limit: it
        starts at -infinity.
        """
        if (times := self.times) is None:
            limit = (nw.col(number) * self.interval + self.offset).cast(nw.Float64)
            is_lowest = nw.col(number) <= -int(_FARTHEST)
            return rows.with_columns(nw.when(is_lowest).then(nw.lit(-math.inf)).otherwise(limit).alias(into))
        micros = (nw.col(number) * times.every + times.offset).alias(_WALL)
        started = times.start(rows.with_columns(micros), _WALL, engine, into=_WALL)
        clipped = nw.when(nw.col(_WALL) < FIRST_MICRO).then(nw.lit(FIRST_MICRO)).otherwise(nw.col(_WALL))
        started = started.with_columns(clipped.alias(_WALL))
        return engine.from_wall_micros(started, _WALL, into=into, zone="UTC").drop(_WALL)


def _number(text: str, what: str) -> float:
    try:
        number = float(text.removesuffix("s") if what == "offset" else text)
    except ValueError as error:
        raise ConfigError(f"{what} {text!r} must be a number, as the order column is one") from error
    if not math.isfinite(number):
        raise ConfigError(f"{what} {text!r} must be a finite number")
    if what == "segment" and not number > 0:
        raise ConfigError(f"segment {text!r} must be more than 0")
    return number
