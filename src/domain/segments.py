"""Segments: half-open intervals of the order value that bound what an epoch has to look at.

A segment is numbered by the floor of ``(order value - offset) / interval``, so equal values are never split. Times are
counted in microseconds of the zone's wall clock where the interval is whole days (so that a segment is a local day, 23
or 25 hours long when clocks change), and of UTC where it is shorter: wall clocks repeat hours, and numbers must grow
with time. Where segments are cut never changes an answer, only its cost.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from .duration import microseconds, parse_duration
from .errors import ConfigError
from .schema import NUMBERS, TIMES

if TYPE_CHECKING:
    from .ports import FrameEngine
    from .schema import DataType

SEGMENT = "_segment"
_WALL = "_wall"
_NULLS = 2**62  # beyond any real segment; small enough that neighbours can be computed
_FARTHEST = 2.0**61  # what lies beyond, NaN too, shares the last segment: it only has to have a number
_SHORT = 8  # microseconds: no time is beyond the farthest segment where they are longer


@frozen
class Segments:
    """How an order column is cut.

    Args:
        column: the order column.
        interval: in microseconds for times, in the column's own unit for numbers.
        offset: where segment 0 starts, in the same unit.
        zone: IANA zone of the wall clock that times are cut by; None for numbers.
        null_segment: the number under which rows without an order value are kept.
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
            ConfigError: the order column has a type that cannot be cut, or interval or offset do not fit it.
        """
        null_segment = -_NULLS if nulls_lowest else _NULLS
        if kind.name in TIMES:
            every = parse_duration(interval)
            if every <= timedelta():
                raise ConfigError(f"segment {interval!r} must be longer than nothing")
            wall = zone if every % timedelta(days=1) == timedelta() else "UTC"
            return cls(column, microseconds(every), microseconds(parse_duration(offset)), wall, null_segment)
        if kind.name in NUMBERS:
            return cls(column, _number(interval, "segment"), _number(offset, "offset"), None, null_segment)
        raise ConfigError(
            f"order_by {column!r} is a {kind.ddl}, which cannot be cut into segments; use a timestamp, date or number"
        )

    def assign(self, rows: nw.LazyFrame[Any], engine: FrameEngine) -> nw.LazyFrame[Any]:
        """Add bigint `_segment` to rows with the order column."""
        if self.zone is None:
            return rows.with_columns(self._number_of(nw.col(self.column).cast(nw.Float64)).alias(SEGMENT))
        timed = engine.wall_micros(rows, self.column, into=_WALL, zone=self.zone)
        return timed.with_columns(self._number_of(nw.col(_WALL)).alias(SEGMENT)).drop(_WALL)

    def _number_of(self, value: nw.Expr) -> nw.Expr:
        exact = (value - self.offset if self.offset else value) / self.interval
        if self.zone is None or self.interval < _SHORT:
            low, high = nw.lit(-_FARTHEST), nw.lit(_FARTHEST)
            exact = nw.when(exact > high).then(high).otherwise(nw.when(exact < low).then(low).otherwise(exact))
        return exact.floor().cast(nw.Int64).fill_null(self.null_segment)

    def start(self, rows: nw.LazyFrame[Any], engine: FrameEngine, number: str, into: str) -> nw.LazyFrame[Any]:
        """Add `into`: where the segment numbered by column `number` starts (timestamp, or double for numbers)."""
        if self.zone is None:
            return rows.with_columns((nw.col(number) * self.interval + self.offset).cast(nw.Float64).alias(into))
        micros = (nw.col(number) * int(self.interval) + int(self.offset)).alias(_WALL)
        return engine.from_wall_micros(rows.with_columns(micros), _WALL, into=into, zone=self.zone).drop(_WALL)


def _number(text: str, what: str) -> float:
    try:
        number = float(text.removesuffix("s") if what == "offset" else text)
    except ValueError as error:
        raise ConfigError(f"{what} {text!r} must be a number, as the order column is one") from error
    if what == "segment" and not number > 0:
        raise ConfigError(f"segment {text!r} must be more than nothing")
    return number
