"""Boundaries: the instants that divide time into intervals of equal length on a zone's wall clock.

A boundary is one instant: the first one at which the wall clock shows the boundary's time or a later time. If the clock
shows the time twice, the first instant is the boundary. If the clock skips the time, the jump is the boundary. An
interval contains the instants from its boundary up to the next one. So interval numbers never decrease, even if the
clock is set back. The interval of a local day that the zone skipped is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import narwhals as nw
from attrs import field, frozen

from ..duration import DAY_MICROS, WALL_EPOCH, microseconds, offset_at, offset_of_wall
from ..ports import FrameFunctions

_LOOKED_AT = (datetime(1840, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC))
"""No clock changed before 1840. In the future clocks change by rules that repeat every 28 years, long before 2120."""
_AT, _NEXT, _STARTED = "_boundary_at", "_boundary_next", "_boundary_started"
_SHOWN, _MOMENT = "_boundary_shown", "_boundary_moment"


@frozen
class Boundaries:
    """Boundaries that are `every` microseconds apart on the wall clock.

    Args:
        every: microseconds between two boundaries; whole days if the zone is not UTC.
        offset: microseconds from midnight, 1970-01-01, to a boundary.
        zone: IANA zone of the wall clock.
    """

    every: int
    offset: int
    zone: str
    _oddities: _Oddities = field(init=False, eq=False, repr=False)

    @_oddities.default
    def _looked_up(self) -> _Oddities:
        return _NONE if self.zone == "UTC" else _oddities(self.every, self.offset % self.every, self.zone)

    def floor(self, rows: nw.LazyFrame[Any], column: str, engine: FrameFunctions, *, into: str) -> nw.LazyFrame[Any]:
        """Add bigint `into`: the wall time, in microseconds since 1970, of the last boundary at or before `column`.

        Args:
            rows: the rows.
            column: a timestamp; a date or a timestamp without a zone is a wall time already.
            engine: the engine of `rows`.
            into: the column for the wall time; null if `column` is null.
        """
        is_instant = rows.collect_schema()[column] == nw.Datetime("us", "UTC")
        rows = engine.wall_micros(rows, column, into=_AT, zone=self.zone)
        rows = rows.with_columns((nw.col(_AT) - self._past(_AT)).alias(into)).drop(_AT)
        if not (is_instant and self._oddities.repeats):
            return rows
        rows = self.start(rows.with_columns((nw.col(into) + self.every).alias(_NEXT)), _NEXT, engine, into=_STARTED)
        rows = engine.wall_micros(rows, column, into=_AT, zone="UTC")
        floor = nw.when(nw.col(_AT) >= nw.col(_STARTED)).then(nw.col(_NEXT)).otherwise(nw.col(into))
        return rows.with_columns(floor.alias(into)).drop(_AT, _NEXT, _STARTED)

    def start(self, rows: nw.LazyFrame[Any], column: str, engine: FrameFunctions, *, into: str) -> nw.LazyFrame[Any]:
        """Add bigint `into`: the instant of a boundary in UTC, from its wall time, both in microseconds from 1970."""
        if self.zone == "UTC":
            return rows.with_columns(nw.col(column).alias(into))
        rows = engine.from_wall_micros(rows, column, into=_MOMENT, zone=self.zone)
        if not self._oddities.skipped:
            return engine.wall_micros(rows, _MOMENT, into=into, zone="UTC").drop(_MOMENT)
        rows = engine.wall_micros(rows, _MOMENT, into=_SHOWN, zone=self.zone)
        skipped = (nw.col(_SHOWN) != nw.col(column)).alias(_SHOWN)
        depth = nw.when(nw.col(_SHOWN)).then(self._depth(nw.col(column))).otherwise(0)
        rows = engine.wall_micros(rows.with_columns(skipped), _MOMENT, into=into, zone="UTC")
        return rows.with_columns((nw.col(into) - depth).alias(into)).drop(_SHOWN, _MOMENT)

    @property
    def skips(self) -> bool:
        """Whether some interval is empty, so that two boundaries are one instant."""
        return self._oddities.empties

    def number(self, wall: nw.Expr) -> nw.Expr:
        """The number of the interval that starts at the boundary with this wall time; exact."""
        return quotient(wall - self.offset, self.every)

    def floor_of(self, micros: int) -> int:
        """As `floor`, for one instant in microseconds since 1970, UTC."""
        wall = micros + offset_at(micros, self.zone)
        floor = wall - (wall - self.offset) % self.every
        return floor + self.every if micros >= self.start_of(floor + self.every) else floor

    def start_of(self, wall: int) -> int:
        """As `start`, for one boundary."""
        return _first_shown(wall, self.zone)[0]

    def _past(self, wall: str) -> nw.Expr:
        return remainder(nw.col(wall) - self.offset, self.every)

    def _depth(self, wall: nw.Expr) -> nw.Expr:
        """How far a skipped boundary is after the start of the jump over it, in microseconds."""
        *earlier, (_last, depth) = self._oddities.skipped
        depth_: nw.Expr = nw.lit(depth)
        for until, each in reversed(earlier):
            depth_ = nw.when(wall <= until).then(nw.lit(each)).otherwise(depth_)
        return depth_


@frozen
class _Oddities:
    """The effects of a zone's clock changes on boundaries.

    Args:
        repeats: whether the clock is ever set back across a boundary.
        empties: whether the clock ever skips a whole interval.
        skipped: for boundaries that the clock jumps over, pairs of the last boundary's wall time and the distance of
            the boundaries up to it from the start of their jump; empty if all distances are 0.
    """

    repeats: bool
    empties: bool
    skipped: tuple[tuple[int, int], ...]


_NONE = _Oddities(repeats=False, empties=False, skipped=())


@lru_cache(maxsize=64)
def _oddities(every: int, offset: int, zone: str) -> _Oddities:
    near = {wall for day in _days_of_change(zone) for wall in range(day - DAY_MICROS, day + 3 * DAY_MICROS, DAY_MICROS)}
    walls = sorted({wall - (wall - offset) % every for wall in near})
    walls = [wall for wall in walls if len(set(_offsets(wall, zone))) > 1]
    skipped = (wall for wall in walls if _is_skipped(wall, zone))
    depths = [*_runs([(wall, _first_shown(wall, zone)[1]) for wall in skipped])]
    empties = any(_first_shown(wall, zone)[0] == _first_shown(wall + every, zone)[0] for wall in walls)
    return _Oddities(
        any(_goes_back(wall, zone) for wall in walls),
        empties,
        tuple(depths if any(depth for _, depth in depths) else ()),
    )


@lru_cache(maxsize=64)
def _days_of_change(zone: str) -> tuple[int, ...]:
    """The midnights (wall time) of the days at whose end the clock's UTC offset differs from that at their start."""
    tz, day = ZoneInfo(zone), timedelta(days=1)
    midnight, last = (each.replace(tzinfo=None) for each in _LOOKED_AT)
    found, offset = [], tz.utcoffset(midnight)
    while midnight < last:
        if (now := tz.utcoffset(midnight + day)) != offset:
            found.append(microseconds(midnight - WALL_EPOCH))
            offset = now
        midnight += day
    return tuple(found)


def _is_skipped(wall: int, zone: str) -> bool:
    early, late = _offsets(wall, zone)
    return early < late


def _goes_back(wall: int, zone: str) -> bool:
    """Whether a clock is set back across a wall time, and not only to it."""
    early, late = _offsets(wall, zone)
    return early > late and offset_at(wall - late - 1, zone) == late


def _runs(depths: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The last of each run of boundaries with the same depth."""
    for at, (wall, depth) in enumerate(depths):
        if at + 1 == len(depths) or depths[at + 1][1] != depth:
            yield wall, depth


def _first_shown(wall: int, zone: str) -> tuple[int, int]:
    """The first instant at which a clock shows a time or a later one, and how far inside a jump that time is."""
    early, late = _offsets(wall, zone)
    if early >= late:
        return wall - early, 0
    # With the offset from before the jump, the time is after the jump; with the offset from after it, before.
    before, after = wall - late, wall - early
    while after - before > 1:
        between = (before + after) // 2
        if between + offset_at(between, zone) >= wall:
            after = between
        else:
            before = between
    return after, wall - early - after


def _offsets(wall: int, zone: str) -> tuple[int, int]:
    """The UTC offsets of a clock that shows a time, before and after a change at that time; equal if there is none."""
    return offset_of_wall(wall, zone), offset_of_wall(wall, zone, fold=1)


def remainder(value: nw.Expr, unit: int) -> nw.Expr:
    """The remainder of a division, never negative: engines differ in its sign."""
    return (value % unit + unit) % unit


def quotient(value: nw.Expr, unit: int) -> nw.Expr:
    """The quotient, rounded down. It is exact up to 2**51, which a plain division is not."""
    return ((value - remainder(value, unit)) / unit + 0.5).floor().cast(nw.Int64)
