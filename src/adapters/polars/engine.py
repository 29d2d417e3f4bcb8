"""The operations on Polars frames that narwhals does not offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import md5
from typing import Any

import narwhals as nw
import polars as pl

from ...domain.duration import offset_at, offset_of_wall
from ...domain.ports import FrameEngine
from ...domain.table.schema import Schema
from . import sums as exact
from .order import PolarsOrder
from .schema import collect, in_micros, lazy, polars_schema

_PART = 50_000
_KNOWN = (0, 4_070_908_800_000_000)  # 1970 to 2098
"""Microseconds since 1970 between which Polars has each zone's offsets as Python has them."""


class PolarsEngine(PolarsOrder, FrameEngine):
    """Polars frames; a persisted frame lives as long as it is referenced."""

    concurrent = True

    def expect(self, rows: int) -> None:
        """Nothing to do: Polars plans by itself."""

    def persist(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return lazy(collect(frame))

    def release(self) -> None:
        """Nothing to do: memory goes with the last reference."""

    def explaining(self) -> AbstractContextManager[None]:
        """Nothing to explain: a frame holds its rows."""
        return nullcontext()

    def frame(self, rows: Sequence[Mapping[str, Any]], schema: Schema) -> nw.LazyFrame[Any]:
        return lazy(pl.DataFrame(rows, polars_schema(schema)))

    def parts(self, frame: nw.LazyFrame[Any]) -> Iterator[nw.DataFrame[Any]]:
        return map(nw.from_native, collect(frame).iter_slices(_PART))

    def from_native(self, frame: Any) -> nw.LazyFrame[Any]:
        taken: nw.LazyFrame[Any] | nw.DataFrame[Any] = nw.from_native(frame)
        # In other libraries, a value such as a date may be an object without a type.
        return taken.lazy("polars") if isinstance(taken, nw.DataFrame) else taken

    def to_native(self, frame: nw.LazyFrame[Any]) -> pl.DataFrame:
        return collect(frame)

    def wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        dtype = frame.collect_schema()[column]
        if dtype.is_nested():
            there: pl.LazyFrame = nw.to_native(frame)
            return _with(frame, pl.col(column).cast(in_micros(there.collect_schema()[column])).alias(into))
        micros = pl.col(column).cast(pl.Datetime("us", getattr(dtype, "time_zone", None))).cast(pl.Int64)
        if zone != "UTC" and isinstance(dtype, nw.Datetime) and dtype.time_zone:
            micros += _offset(micros, zone)
        return _with(frame, micros.alias(into))

    def from_wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        micros = pl.col(column)
        if zone != "UTC":
            micros = micros.map_batches(lambda some: _instants(some, zone), return_dtype=pl.Int64, is_elementwise=True)
        return _with(frame, micros.cast(pl.Datetime("us")).dt.replace_time_zone("UTC").alias(into))

    def each_between(self, frame: nw.LazyFrame[Any], low: str, high: str, *, into: str) -> nw.LazyFrame[Any]:
        native: pl.LazyFrame = nw.to_native(frame.filter(nw.col(low) <= nw.col(high)))
        return nw.from_native(native.with_columns(pl.int_ranges(low, pl.col(high) + 1).alias(into)).explode(into))

    def digest(self, frame: nw.LazyFrame[Any], column: str, *, into: str) -> nw.LazyFrame[Any]:
        digests = pl.col(column).cast(pl.String).map_batches(_digests, return_dtype=pl.String, is_elementwise=True)
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


def _instants(walls: pl.Series, zone: str) -> pl.Series:
    """The earlier instant of each wall-clock time; in a gap, by the offset before it."""
    found = walls.drop_nulls().unique()
    offsets = [offset_of_wall(wall, zone) for wall in found]
    return walls - walls.replace_strict(found, pl.Series(offsets, dtype=pl.Int64), default=None, return_dtype=pl.Int64)


def _offset(micros: pl.Expr, zone: str) -> pl.Expr:
    """Microseconds by which a zone's wall clock is ahead of UTC at an instant."""
    near = micros.clip(*_KNOWN)
    shown = near.cast(pl.Datetime("us")).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    beyond = micros.map_batches(lambda some: _beyond(some, zone), return_dtype=pl.Int64, is_elementwise=True)
    return pl.coalesce(beyond, shown.dt.replace_time_zone(None).cast(pl.Int64) - near)


def _beyond(micros: pl.Series, zone: str) -> pl.Series:
    """The offsets of instants for which Polars and Python may differ; null for all others."""
    found = micros.filter(~micros.is_between(*_KNOWN)).unique()
    offsets = [offset_at(each, zone) for each in found]
    return micros.replace_strict(found, pl.Series(offsets, dtype=pl.Int64), default=None, return_dtype=pl.Int64)


def _with(frame: nw.LazyFrame[Any], column: pl.Expr) -> nw.LazyFrame[Any]:
    native: pl.LazyFrame = nw.to_native(frame)
    return nw.from_native(native.with_columns(column))
