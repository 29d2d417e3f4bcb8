"""Windows cut into panes: the window and pane of an instant, and the pane ends before and after it.

Windows of whole days are days of the zone's wall clock, 23 or 25 hours long when clocks change; shorter windows are cut
in UTC. Panes of whole days are such days as well. Shorter panes are counted in elapsed time from the start of their
window, so an hour that the clock shows twice has twice as many panes. Windows and panes include their start and exclude
their end. For clock changes, see `boundaries`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import narwhals as nw
from attrs import field, frozen

from ...duration import micros_of, microseconds
from ...errors import ConfigError
from ...ports import FrameFunctions
from ..boundaries import Boundaries, quotient, remainder

WINDOW, PANE = "_window", "_pane"
"""bigint: the start of a window, and the end of a pane, in microseconds from 1970 in UTC."""

_DAY = timedelta(days=1)
_WALL, _MOMENT, _STEPS, _START, _END = "_wall", "_moment", "_steps", "_start_wall", "_end_of_window"
_NEXT_WALL = "_wall_of_next"


@frozen
class Panes:
    """The panes of one configuration.

    Args:
        size, step: the lengths of a window and of a pane, in microseconds.
        offset: from midnight to the start of a window, in microseconds.
        zone: IANA zone of the wall clock that windows follow.
        daily: whether panes are days of that clock.
    """

    size: int
    step: int
    offset: int
    zone: str
    daily: bool
    _windows: Boundaries = field(init=False, eq=False, repr=False)
    _days: Boundaries = field(init=False, eq=False, repr=False)
    """The ends of panes, if they are days."""

    @_windows.default
    def _bound_windows(self) -> Boundaries:
        return Boundaries(self.size, self.offset, self.zone)

    @_days.default
    def _bound_days(self) -> Boundaries:
        return Boundaries(self.step, self.offset, self.zone if self.daily else "UTC")

    @classmethod
    def of(cls, *, size: timedelta, step: timedelta, offset: timedelta, zone: str) -> Panes:
        """Return the panes of a configuration.

        Raises:
            ConfigError: the step is not positive, or the size is not a multiple of the step.
        """
        if step <= timedelta():
            raise ConfigError("step must be longer than 0")
        if not size or size % step:
            raise ConfigError(f"size ({_in_seconds(size)}) must be a multiple of step ({_in_seconds(step)})")
        wall = "UTC" if size % _DAY else zone
        daily = wall != "UTC" and not step % _DAY
        return cls(microseconds(size), microseconds(step), microseconds(offset), wall, daily)

    def assign(self, rows: nw.LazyFrame[Any], column: str, engine: FrameFunctions) -> nw.LazyFrame[Any]:
        """Add `WINDOW` and `PANE` to rows, by a timestamp column; null where it is null."""
        if self.zone == "UTC":
            rows = engine.wall_micros(rows, column, into=_WALL, zone="UTC")
            rows = rows.with_columns(self._floor(self.size).alias(WINDOW), self._floor(self.step).alias(PANE))
            return rows.with_columns(nw.col(PANE) + self.step).drop(_WALL)
        rows = self._windows.floor(rows, column, engine, into=_START)
        rows = self._windows.start(rows, _START, engine, into=WINDOW)
        if self.daily:
            rows = self._days.floor(rows.drop(_START), column, engine, into=_WALL)
            rows = rows.with_columns((nw.col(_WALL) + self.step).alias(_WALL))
            return self._days.start(rows, _WALL, engine, into=PANE).drop(_WALL)
        rows = self._windows.start(rows.with_columns(nw.col(_START) + self.size), _START, engine, into=_END)
        rows = engine.wall_micros(rows.drop(_START), column, into=_MOMENT, zone="UTC")
        rows = rows.with_columns((nw.col(_MOMENT) - nw.col(WINDOW)).alias(_STEPS))
        end = nw.col(_MOMENT) - remainder(nw.col(_STEPS), self.step) + self.step
        rows = rows.with_columns(end.alias(PANE))
        ends = nw.min_horizontal(nw.col(PANE), nw.col(_END)).alias(PANE)
        return rows.with_columns(ends).drop(_END, _MOMENT, _STEPS)

    def find_last_end(self, moment: datetime) -> int:
        """Return the latest end of a pane at or before an instant."""
        micros = micros_of(moment)
        if self.daily:
            return self._days.start_of(self._days.floor_of(micros))
        start = self.find_window(micros)
        return start + (micros - start) // self.step * self.step

    def find_next_end(self, moment: datetime) -> int:
        """Return the end of the pane that contains an instant."""
        micros = micros_of(moment)
        if self.daily:
            return self._days.start_of(self._days.floor_of(micros) + self.step)
        return min(self.find_last_end(moment) + self.step, self.find_window_end(micros))

    def find_window(self, micros: int) -> int:
        """Return the start of the window that contains an instant, both in microseconds."""
        return self._windows.start_of(self._windows.floor_of(micros))

    def find_window_end(self, micros: int) -> int:
        """Return the end of the window that contains an instant, both in microseconds."""
        return self._windows.start_of(self._windows.floor_of(micros) + self.size)

    def expand(
        self, rows: nw.LazyFrame[Any], first: str, last: str, engine: FrameFunctions, *, into: str
    ) -> nw.LazyFrame[Any]:
        """Return each row once for every pane of its window from one to another, both included.

        Args:
            rows: with `WINDOW`.
            first: the column of the first pane's number, as `number` counts.
            last: the column of the last pane's number.
            engine: works on the frame.
            into: the new column, with the ends of the panes.
        """
        numbered = engine.each_between(rows, first, last, into=_STEPS)
        if self.daily:
            rows = self._floor_of(self._windows, numbered, WINDOW, engine, into=_START)
            rows = rows.with_columns((nw.col(_START) + nw.col(_STEPS) * self.step).alias(_START)).drop(_STEPS)
            rows = self._days.start(rows, _START, engine, into=into)
            return self._last_of_equal(rows, into, engine).drop(_START)
        ends = numbered.with_columns((nw.col(WINDOW) + nw.col(_STEPS) * self.step).alias(into))
        ends = self._with_end(ends, engine)
        return ends.with_columns(nw.min_horizontal(nw.col(into), nw.col(_END)).alias(into)).drop(_STEPS, _END)

    def number(
        self, rows: nw.LazyFrame[Any], column: str, engine: FrameFunctions, *, into: str, more: int = 0
    ) -> nw.LazyFrame[Any]:
        """Add the number of panes of the row's window that end at or before an instant.

        Args:
            rows: with `WINDOW`.
            column: the column of the instants, in microseconds; each is the end of a pane, of this window or another.
            engine: works on the frame.
            into: the new column: the number, 0 for an instant before the window, null for a null.
            more: added to the number.
        """
        rows = self._with_end(rows, engine)
        within = nw.min_horizontal(nw.max_horizontal(nw.col(column), nw.col(WINDOW)), nw.col(_END))
        within = nw.when(~nw.col(column).is_null()).then(within).alias(_STEPS)
        if not self.daily:  # the last pane of a window may be shorter than the others
            rows = rows.with_columns(within).with_columns(
                (nw.col(_STEPS) - nw.col(WINDOW) + self.step - 1).alias(_STEPS)
            )
            return rows.with_columns((quotient(nw.col(_STEPS), self.step) + more).alias(into)).drop(_STEPS, _END)
        rows = self._floor_of(self._windows, rows.with_columns(within), WINDOW, engine, into=_START)
        rows = self._floor_of(self._days, rows, _STEPS, engine, into=_WALL)
        number = quotient(nw.col(_WALL) - nw.col(_START), self.step) + more
        return rows.with_columns(number.alias(into)).drop(_STEPS, _END, _START, _WALL)

    def filter_open(self, rows: nw.LazyFrame[Any], column: str, engine: FrameFunctions) -> nw.LazyFrame[Any]:
        """Return the rows whose window ends at or after the instant in a column (in microseconds)."""
        rows = self._with_end(rows, engine)
        return rows.filter(nw.col(column) <= nw.col(_END)).drop(_END)

    def _with_end(self, rows: nw.LazyFrame[Any], engine: FrameFunctions) -> nw.LazyFrame[Any]:
        if self.zone == "UTC":
            return rows.with_columns((nw.col(WINDOW) + self.size).alias(_END))
        rows = self._floor_of(self._windows, rows, WINDOW, engine, into=_WALL)
        rows = rows.with_columns((nw.col(_WALL) + self.size).alias(_WALL))
        return self._windows.start(rows, _WALL, engine, into=_END).drop(_WALL)

    def _last_of_equal(self, rows: nw.LazyFrame[Any], ends: str, engine: FrameFunctions) -> nw.LazyFrame[Any]:
        """Drop panes that are empty, as the zone skipped their day; `_START` has the wall times."""
        if not self._days.skips:
            return rows
        rows = rows.with_columns((nw.col(_START) + self.step).alias(_NEXT_WALL))
        rows = self._days.start(rows, _NEXT_WALL, engine, into=_END)
        return rows.filter(nw.col(_END) > nw.col(ends), nw.col(ends) > nw.col(WINDOW)).drop(_NEXT_WALL, _END)

    @staticmethod
    def _floor_of(
        boundaries: Boundaries, rows: nw.LazyFrame[Any], column: str, engine: FrameFunctions, *, into: str
    ) -> nw.LazyFrame[Any]:
        """Apply `Boundaries.floor` to instants in microseconds."""
        moment = engine.from_wall_micros(rows, column, into=_MOMENT, zone="UTC")
        return boundaries.floor(moment, _MOMENT, engine, into=into).drop(_MOMENT)

    def _floor(self, unit: int) -> nw.Expr:
        return nw.col(_WALL) - remainder(nw.col(_WALL) - self.offset, unit)


def _in_seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"
