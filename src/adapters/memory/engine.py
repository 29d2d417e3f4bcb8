"""What narwhals does not offer on Polars."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from hashlib import md5
from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl

from ...domain.ports import FrameEngine
from . import sums as exact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

# No gap of a wall clock is longer: the longest skipped one whole day (Samoa, 30 December 2011).
_LONGEST_GAP = timedelta(days=1)


class PolarsEngine(FrameEngine):
    """Polars frames: persisted ones live as long as they are held."""

    def expect(self, rows: int) -> None:
        """Polars plans for itself."""

    def persist(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return frame.collect(backend="polars").lazy()

    def release(self) -> None:
        """Nothing to do: memory goes with the last reference."""

    def explaining(self) -> AbstractContextManager[None]:
        """Nothing to explain: a frame holds its rows."""
        return nullcontext()

    def wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        dtype = frame.collect_schema()[column]
        moment = pl.col(column)
        if isinstance(dtype, nw.Datetime) and dtype.time_zone:
            moment = moment.dt.convert_time_zone(zone).dt.replace_time_zone(None)
        return _with(frame, moment.cast(pl.Datetime("us")).cast(pl.Int64).alias(into))

    def from_wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        wall = pl.from_epoch(pl.col(column), time_unit="us")
        before_gap = _instant(wall - _LONGEST_GAP, zone) + _LONGEST_GAP
        return _with(frame, pl.coalesce(_instant(wall, zone), before_gap).alias(into))

    def each_between(self, frame: nw.LazyFrame[Any], low: str, high: str, *, into: str) -> nw.LazyFrame[Any]:
        native: pl.LazyFrame = nw.to_native(frame.filter(nw.col(low) <= nw.col(high)))
        return nw.from_native(native.with_columns(pl.int_ranges(low, pl.col(high) + 1).alias(into)).explode(into))

    def digest(self, frame: nw.LazyFrame[Any], column: str, *, into: str) -> nw.LazyFrame[Any]:
        digests = pl.col(column).map_batches(_digests, return_dtype=pl.String, is_elementwise=True)
        return _with(frame, digests.alias(into))

    def add_up(
        self, frame: nw.LazyFrame[Any], by: Sequence[str], sums: Sequence[str], most: Sequence[str] = ()
    ) -> nw.LazyFrame[Any]:
        return exact.add_up(frame, by, sums, most)

    def running(
        self, frame: nw.LazyFrame[Any], sums: Sequence[str], over: Sequence[str], order_by: str
    ) -> nw.LazyFrame[Any]:
        return exact.running(frame, sums, over, order_by)


def _digests(texts: pl.Series) -> pl.Series:
    known = {text: None if text is None else md5(text.encode(), usedforsecurity=False).hexdigest() for text in texts}
    return pl.Series([known[text] for text in texts], dtype=pl.String)


def _instant(wall: pl.Expr, zone: str) -> pl.Expr:
    """The moment a zone's clock shows `wall`, in UTC; the earlier of two, null if there is none."""
    local = wall.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return local.dt.convert_time_zone("UTC")


def _with(frame: nw.LazyFrame[Any], column: pl.Expr) -> nw.LazyFrame[Any]:
    native: pl.LazyFrame = nw.to_native(frame)
    return nw.from_native(native.with_columns(column))
