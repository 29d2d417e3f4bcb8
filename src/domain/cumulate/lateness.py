"""Which rows come late: by the order of arrival alone, so that it does not matter where epochs end.

Every row moves the watermark for those behind it, as if it were an epoch of its own. Rows need not be sorted for that:
it is enough to know, for each pane, the place of the first row that moved the watermark past its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ..collect import collect_small
from ..duration import microseconds
from ..epoch import ERROR, POSITION, lane
from .panes import PANE, WINDOW

if TYPE_CHECKING:
    from datetime import timedelta

    from ..ports import FrameEngine
    from .panes import Panes

LATE, ROUND = "_late", "_round"
"""boolean: whether the tick of a row's pane had been made when it came; bigint: the end of the pane in which the
watermark stood then."""

_MARK, _LANE, _PASSED, _AT, _BACK = "_mark", "_lane", "_passed", "_at", "_back"
_BEFORE_ALL, _NEVER = -(2**62), 2**62


@frozen(eq=False)
class Told:
    """Rows that are known to be late or not.

    Args:
        rows: with `LATE`; those with an error are never late.
        standing: the end of the pane in which the watermark stood before them.
        marks: the places at which they moved it; None if they did not, or are late to it alone.
    """

    rows: nw.LazyFrame[Any]
    standing: int
    marks: nw.LazyFrame[Any] | None = None

    def late(self) -> nw.LazyFrame[Any]:
        """The late rows, with `ROUND`."""
        rows = self.rows.filter(nw.col(LATE))
        stood = nw.lit(self.standing).cast(nw.Int64).alias(ROUND)
        if self.marks is None:
            return rows.with_columns(stood)
        nowhere = nw.lit(None).cast(nw.Int64).alias(_AT)
        came = rows.select(_LANE, POSITION, stood, nowhere)
        moved = self.marks.select(_LANE, nw.col(_AT).alias(POSITION), nw.col(_MARK).alias(ROUND), _AT)
        both = nw.concat([came, moved])
        both = both.with_columns(nw.col(ROUND).cum_max().over(_LANE, order_by=POSITION).alias(ROUND))
        both = both.filter(nw.col(_AT).is_null()).select(_LANE, POSITION, ROUND)
        return rows.join(both, on=[_LANE, POSITION], how="inner")


@frozen(eq=False)
class Lateness:
    """Tells the late rows of a pipeline.

    Args:
        panes: how time is cut.
        event_time: the column that places a row in time.
        delay: how far the watermark stays behind it.
        engine: of the frames.
    """

    panes: Panes
    event_time: str
    delay: timedelta
    engine: FrameEngine

    def placed(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Add to rows `WINDOW`, `PANE`, and the end of the pane into which they move the watermark."""
        if not self.delay:
            placed = self.panes.assign(rows, self.event_time, self.engine)
            return placed.with_columns(nw.col(PANE).alias(_MARK))
        behind = self.engine.wall_micros(rows, self.event_time, into=_AT, zone="UTC")
        behind = behind.with_columns(nw.col(_AT) - microseconds(self.delay))
        behind = self.engine.from_wall_micros(behind, _AT, into=_AT, zone="UTC")
        marked = self.panes.assign(behind, _AT, self.engine).with_columns(nw.col(PANE).alias(_MARK))
        return self.panes.assign(marked.drop(_AT, PANE, WINDOW), self.event_time, self.engine)

    def told(self, rows: nw.LazyFrame[Any], standing: int | None, *, in_order: bool, lanes: bool) -> Told:
        """Find the late ones among rows.

        Args:
            rows: of a batch, as `placed` gives them, persisted.
            standing: the end of the pane in which the watermark stands before them; None where there is none yet.
            in_order: whether rows come late to those before them; else to what was published alone.
            lanes: whether the order of arrival is known among rows of one `lane` alone.
        """
        before = _BEFORE_ALL if standing is None else standing
        rows = rows.with_columns((lane() if lanes else nw.lit("")).alias(_LANE))
        good = rows.filter(nw.col(ERROR).is_null()).select(_LANE, POSITION, PANE, _MARK)
        late = nw.col(ERROR).is_null() & (nw.col(PANE) < before)
        if not in_order:
            return Told(rows.with_columns(late.alias(LATE)), before)
        open_ = nw.when(nw.col(PANE) >= before).then(nw.col(PANE))
        (bounds,) = collect_small(good.select(open_.min().alias(PANE), nw.col(_MARK).max()))
        if bounds[_MARK] is None or bounds[_MARK] <= before:  # the watermark stays where it stands
            return Told(rows.with_columns(late.alias(LATE)), before)
        marks = good.filter(nw.col(_MARK) > before).group_by(_LANE, _MARK).agg(nw.col(POSITION).min().alias(_AT))
        marks = self.engine.persist(marks)
        if bounds[PANE] is not None and bounds[PANE] < bounds[_MARK]:
            passed = self.engine.persist(self._passed(good.filter(nw.col(PANE) >= before), marks))
            # Computed now, it is known to be small, and an engine that plans by size hands it to every task.
            (found,) = collect_small(passed.select(nw.len().alias("panes")))
            if found["panes"]:
                rows = rows.join(passed, on=[_LANE, PANE], how="left")
                behind = (nw.col(POSITION) > nw.col(_PASSED)).fill_null(value=False)
                late = late | (nw.col(ERROR).is_null() & behind)
        return Told(rows.with_columns(late.alias(LATE)), before, marks)

    def _passed(self, good: nw.LazyFrame[Any], marks: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """For each pane that was passed, by lane, the place of the first row that moved the watermark past it."""
        there = good.select(_LANE, PANE).unique()
        there = there.select(_LANE, PANE, nw.lit(_NEVER).cast(nw.Int64).alias(_AT))
        both = nw.concat([there, marks.select(_LANE, nw.col(_MARK).alias(PANE), _AT)])
        both = both.group_by(_LANE, PANE).agg(nw.col(_AT).min()).with_columns((-nw.col(PANE)).alias(_BACK))
        both = both.with_columns(nw.col(_AT).cum_min().over(_LANE, order_by=_BACK).alias(_PASSED))
        both = both.with_columns(nw.col(_PASSED).shift(1).over(_LANE, order_by=_BACK).alias(_PASSED))
        return both.filter(nw.col(_PASSED) < _NEVER).select(_LANE, PANE, _PASSED)
