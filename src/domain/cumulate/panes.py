"""Windows cut into panes: in which of them a moment lies, and which pane ends a moment has passed.

Windows of whole days are days of the zone's wall clock, 23 or 25 hours long when clocks change; shorter ones are cut in
UTC. Panes of whole days are days as well; shorter ones are counted in elapsed time from their window's start, so that
an hour that the clock shows twice has twice its panes. Windows and panes hold their start, and not their end.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import narwhals as nw
from attrs import frozen

from ..duration import microseconds
from ..errors import ConfigError

if TYPE_CHECKING:
    from ..ports import FrameEngine

WINDOW, PANE = "_window", "_pane"
"""bigint: where a window starts, and where a pane ends: microseconds from 1970 in UTC."""

_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WALL, _MOMENT, _STEPS, _START, _END = "_wall", "_moment", "_steps", "_start_wall", "_end_of_window"


@frozen
class Panes:
    """The panes of one configuration.

    Args:
        size, step, offset: in microseconds; the offset is that of the windows from midnight.
        zone: IANA zone of the wall clock that windows are cut by.
        daily: whether panes are days of that clock.
    """

    size: int
    step: int
    offset: int
    zone: str
    daily: bool

    @classmethod
    def of(cls, *, size: timedelta, step: timedelta, offset: timedelta, zone: str) -> Panes:
        """Panes from their configuration.

        Raises:
            ConfigError: the size is not a multiple of the step.
        """
        if step <= timedelta():
            raise ConfigError("step must be longer than nothing")
        if not size or size % step:
            raise ConfigError(f"size ({_told(size)}) must be a multiple of step ({_told(step)})")
        wall = "UTC" if size % _DAY else zone
        daily = wall != "UTC" and not step % _DAY
        return cls(microseconds(size), microseconds(step), microseconds(offset), wall, daily)

    def assign(self, rows: nw.LazyFrame[Any], column: str, engine: FrameEngine) -> nw.LazyFrame[Any]:
        """Add `WINDOW` and `PANE` to rows, by a timestamp column; null where it is null."""
        rows = engine.wall_micros(rows, column, into=_WALL, zone=self.zone)
        rows = rows.with_columns(self._floor(_WALL, self.size).alias(_START), self._floor(_WALL, self.step).alias(PANE))
        rows = rows.with_columns(nw.col(PANE) + self.step)
        if self.zone == "UTC":
            return rows.with_columns(nw.col(_START).alias(WINDOW)).drop(_WALL, _START)
        rows = self._instant(rows, _START, WINDOW, engine)
        if self.daily:
            return self._instant(rows, PANE, PANE, engine).drop(_WALL, _START)
        rows = self._instant(rows.with_columns(nw.col(_START) + self.size), _START, _END, engine)
        rows = engine.wall_micros(rows, column, into=_MOMENT, zone="UTC")
        passed = (nw.col(_MOMENT) - nw.col(WINDOW)).alias(_STEPS)
        end = nw.col(WINDOW) + nw.col(_STEPS) - _remainder(nw.col(_STEPS), self.step) + self.step
        rows = rows.with_columns(passed).with_columns(end.alias(PANE))
        ended = nw.min_horizontal(nw.col(PANE), nw.col(_END)).alias(PANE)
        return rows.with_columns(ended).drop(_WALL, _START, _END, _MOMENT, _STEPS)

    @staticmethod
    def micros(moment: datetime) -> int:
        """A moment as `WINDOW` and `PANE` have it."""
        return microseconds(moment - _EPOCH)

    @staticmethod
    def moment(micros: int) -> datetime:
        """The moment that `micros` gives back."""
        return _EPOCH + timedelta(microseconds=micros)

    def reached(self, moment: datetime) -> int:
        """The newest end of a pane at or before a moment."""
        micros = self.micros(moment)
        if self.daily:
            return self._instant_of(self._floored(self._wall_of(micros), self.step))
        start = self.window_of(micros)
        return start + (micros - start) // self.step * self.step

    def ahead(self, moment: datetime) -> int:
        """The end of the pane in which a moment lies."""
        wall = self._wall_of(self.micros(moment))
        if self.daily:
            return self._instant_of(self._floored(wall, self.step) + self.step)
        return min(self.reached(moment) + self.step, self._instant_of(self._floored(wall, self.size) + self.size))

    def window_of(self, micros: int) -> int:
        """The start of the window in which an instant lies."""
        return self._instant_of(self._floored(self._wall_of(micros), self.size))

    def each(
        self, rows: nw.LazyFrame[Any], first: str, last: str, engine: FrameEngine, *, into: str
    ) -> nw.LazyFrame[Any]:
        """Each row once for every end of a pane of its window from one to another, both included.

        Args:
            rows: with `WINDOW`.
            first: column of a number, as `number` gives it.
            last: likewise.
            engine: of the frame.
            into: takes the ends.
        """
        numbered = engine.each_between(rows, first, last, into=_STEPS)
        if self.daily:
            start = self._wall(numbered, WINDOW, _START, engine)
            start = start.with_columns(self._floor(_START, self.step).alias(_START))
            end = start.with_columns((nw.col(_START) + nw.col(_STEPS) * self.step).alias(_START))
            return self._instant(end, _START, into, engine).drop(_STEPS, _START)
        ended = numbered.with_columns((nw.col(WINDOW) + nw.col(_STEPS) * self.step).alias(into))
        ended = self._with_end(ended, engine)
        return ended.with_columns(nw.min_horizontal(nw.col(into), nw.col(_END)).alias(into)).drop(_STEPS, _END)

    def number(
        self, rows: nw.LazyFrame[Any], column: str, engine: FrameEngine, *, into: str, more: int = 0
    ) -> nw.LazyFrame[Any]:
        """Add how many panes of their window have ended at an instant that ends one, of this window or another.

        Args:
            rows: with `WINDOW`.
            column: the instants, in microseconds.
            engine: of the frame.
            into: takes the number; 0 for an instant before the window, null for none.
            more: is added to the number.
        """
        rows = self._with_end(rows, engine)
        within = nw.min_horizontal(nw.max_horizontal(nw.col(column), nw.col(WINDOW)), nw.col(_END))
        # A pane may be shorter than the others, or days of other than 24 hours.
        rounding = self.step // 2 if self.daily else self.step - 1
        passed = nw.when(~nw.col(column).is_null()).then(within - nw.col(WINDOW) + rounding)
        rows = rows.with_columns(passed.alias(_STEPS))
        whole = nw.col(_STEPS) - _remainder(nw.col(_STEPS), self.step)
        number = (whole / self.step).cast(nw.Int64) + more
        return rows.with_columns(number.alias(into)).drop(_STEPS, _END)

    def within(self, rows: nw.LazyFrame[Any], column: str, engine: FrameEngine) -> nw.LazyFrame[Any]:
        """The rows whose `WINDOW` is not over at an instant, or ends with it; in microseconds, in a column."""
        rows = self._with_end(rows, engine)
        return rows.filter(nw.col(column) <= nw.col(_END)).drop(_END)

    def _with_end(self, rows: nw.LazyFrame[Any], engine: FrameEngine) -> nw.LazyFrame[Any]:
        if self.zone == "UTC":
            return rows.with_columns((nw.col(WINDOW) + self.size).alias(_END))
        rows = self._wall(rows, WINDOW, _WALL, engine)
        # Where clocks skip midnight, the day starts later than the wall clock would have it.
        rows = rows.with_columns((self._floor(_WALL, self.size) + self.size).alias(_WALL))
        return self._instant(rows, _WALL, _END, engine).drop(_WALL)

    def _wall(self, rows: nw.LazyFrame[Any], column: str, into: str, engine: FrameEngine) -> nw.LazyFrame[Any]:
        moment = engine.from_wall_micros(rows, column, into=_MOMENT, zone="UTC")
        return engine.wall_micros(moment, _MOMENT, into=into, zone=self.zone).drop(_MOMENT)

    def _instant(self, rows: nw.LazyFrame[Any], column: str, into: str, engine: FrameEngine) -> nw.LazyFrame[Any]:
        moment = engine.from_wall_micros(rows, column, into=_MOMENT, zone=self.zone)
        return engine.wall_micros(moment, _MOMENT, into=into, zone="UTC").drop(_MOMENT)

    def _floor(self, column: str, unit: int) -> nw.Expr:
        wall = nw.col(column)
        return wall - _remainder(wall - self.offset, unit)

    def _floored(self, wall: int, unit: int) -> int:
        return wall - (wall - self.offset) % unit

    def _wall_of(self, micros: int) -> int:
        shown = self.moment(micros).astimezone(ZoneInfo(self.zone))
        return microseconds(shown.replace(tzinfo=UTC) - _EPOCH)

    def _instant_of(self, wall: int) -> int:
        shown = self.moment(wall).replace(tzinfo=ZoneInfo(self.zone))
        return microseconds(shown - _EPOCH)


def _remainder(value: nw.Expr, unit: int) -> nw.Expr:
    """What is left over of whole units, never negative: engines differ about the sign."""
    return (value % unit + unit) % unit


def _told(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"
