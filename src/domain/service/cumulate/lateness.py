"""Finds late rows. Only the order of arrival decides, so the result does not depend on where epochs end.

Each row moves the watermark for the rows after it, as if each row were one epoch. No sort is needed: for each pane
it is enough to know the position of the first row that moves the watermark past the end of the pane.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import narwhals as nw
from attrs import evolve, frozen

from ...duration import microseconds
from ...epoch.batch import ERROR, lane
from ...ports import FrameEngine
from ...table.change import POSITION
from ...table.collect import collect_small
from .panes import PANE, WINDOW, Panes

LATE, ROUND = "_late", "_round"
"""boolean: whether the tick of a row's pane already existed when the row arrived; bigint: the end of the pane that the
watermark was in at that time."""

_MARK, _LANE, _PASSED, _AT, _BACK = "_mark", "_lane", "_passed", "_at", "_back"
_BEFORE_ALL, _NEVER = -(2**62), 2**62


@frozen(eq=False)
class LatenessResult:
    """Rows of a batch, each marked as late or not.

    Args:
        rows: with `LATE`; rows with an error are never late.
        watermark_pane: the end of the pane that the watermark was in before these rows.
        marks: the positions at which these rows moved the watermark to another pane. None if they did not, or if only
            the watermark before the batch decides.
    """

    rows: nw.LazyFrame[Any]
    watermark_pane: int
    marks: nw.LazyFrame[Any] | None = None

    def placed_at(self, watermark_pane: int | None) -> LatenessResult:
        """The same result for a watermark that was in a pane before these rows, none of which is late to it."""
        return self if watermark_pane is None else evolve(self, watermark_pane=watermark_pane)

    def select_late(self) -> nw.LazyFrame[Any]:
        """Return the late rows, with `ROUND`."""
        rows = self.rows.filter(nw.col(LATE))
        start = nw.lit(self.watermark_pane).cast(nw.Int64).alias(ROUND)
        if self.marks is None:
            return rows.with_columns(start)
        nowhere = nw.lit(None).cast(nw.Int64).alias(_AT)
        arrivals = rows.select(_LANE, POSITION, start, nowhere)
        moves = self.marks.select(_LANE, nw.col(_AT).alias(POSITION), nw.col(_MARK).alias(ROUND), _AT)
        both = nw.concat([arrivals, moves])
        both = both.with_columns(nw.col(ROUND).cum_max().over(_LANE, order_by=POSITION).alias(ROUND))
        both = both.filter(nw.col(_AT).is_null()).select(_LANE, POSITION, ROUND)
        return rows.join(both, on=[_LANE, POSITION], how="inner")


@frozen(eq=False)
class Lateness:
    """Finds the late rows of a pipeline."""

    panes: Panes
    event_time: str
    delay: timedelta
    engine: FrameEngine

    def add_panes(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add `WINDOW`, `PANE`, and the end of the pane that the row moves the watermark to."""
        if not self.delay:
            rows = self.panes.assign(rows, self.event_time, self.engine)
            return rows.with_columns(nw.col(PANE).alias(_MARK))
        behind = self.engine.wall_micros(rows, self.event_time, into=_AT, zone="UTC")
        behind = behind.with_columns(nw.col(_AT) - microseconds(self.delay))
        behind = self.engine.from_wall_micros(behind, _AT, into=_AT, zone="UTC")
        marked = self.panes.assign(behind, _AT, self.engine).with_columns(nw.col(PANE).alias(_MARK))
        return self.panes.assign(marked.drop(_AT, PANE, WINDOW), self.event_time, self.engine)

    def find_late(
        self, rows: nw.LazyFrame[Any], watermark_pane: int | None, *, in_order: bool, lanes: bool
    ) -> LatenessResult:
        """Mark the late rows of a batch.

        Args:
            rows: as `add_panes` returns them, persisted.
            watermark_pane: the end of the pane that the watermark is in before the batch; None if there is none yet.
            in_order: whether rows of the batch move the watermark for those after them. If not, only the watermark
                before the batch decides.
            lanes: whether the order of arrival is known only among rows of the same `lane`.
        """
        before = _BEFORE_ALL if watermark_pane is None else watermark_pane
        rows = rows.with_columns((lane() if lanes else nw.lit(0)).alias(_LANE))
        good = rows.filter(nw.col(ERROR).is_null()).select(_LANE, POSITION, PANE, _MARK)
        late = nw.col(ERROR).is_null() & (nw.col(PANE) < before)
        if not in_order:
            return LatenessResult(rows.with_columns(late.alias(LATE)), before)
        open_panes = nw.when(nw.col(PANE) >= before).then(nw.col(PANE))
        (bounds,) = collect_small(good.select(open_panes.min().alias(PANE), nw.col(_MARK).max()))
        if bounds[_MARK] is None or bounds[_MARK] <= before:  # the watermark stays in its pane
            return LatenessResult(rows.with_columns(late.alias(LATE)), before)
        marks = good.filter(nw.col(_MARK) > before).group_by(_LANE, _MARK).agg(nw.col(POSITION).min().alias(_AT))
        marks = self.engine.persist(marks)
        if bounds[PANE] is not None and bounds[PANE] < bounds[_MARK]:
            passed_panes = self.engine.persist(self._find_passed(good.filter(nw.col(PANE) >= before), marks))
            # Computed here, so that the engine can plan the join for a small frame.
            (found,) = collect_small(passed_panes.select(nw.len().alias("panes")))
            if found["panes"]:
                rows = rows.join(passed_panes, on=[_LANE, PANE], how="left")
                behind = (nw.col(POSITION) > nw.col(_PASSED)).fill_null(value=False)
                late = late | (nw.col(ERROR).is_null() & behind)
        return LatenessResult(rows.with_columns(late.alias(LATE)), before, marks)

    def _find_passed(self, good: nw.LazyFrame[Any], marks: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Find, by lane and passed pane, the position of the first row that moves the watermark past the pane."""
        panes = good.select(_LANE, PANE).unique()
        panes = panes.select(_LANE, PANE, nw.lit(_NEVER).cast(nw.Int64).alias(_AT))
        both = nw.concat([panes, marks.select(_LANE, nw.col(_MARK).alias(PANE), _AT)])
        both = both.group_by(_LANE, PANE).agg(nw.col(_AT).min()).with_columns((-nw.col(PANE)).alias(_BACK))
        both = both.with_columns(nw.col(_AT).cum_min().over(_LANE, order_by=_BACK).alias(_PASSED))
        both = both.with_columns(nw.col(_PASSED).shift(1).over(_LANE, order_by=_BACK).alias(_PASSED))
        return both.filter(nw.col(_PASSED) < _NEVER).select(_LANE, PANE, _PASSED)
