"""What narwhals does not offer alike on every engine, for Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from ...domain.ports import FrameEngine
from .schema import named

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@define(eq=False)
class SparkEngine(FrameEngine):
    """Frames on Spark."""

    session: SparkSession
    _persisted: list[DataFrame] = field(init=False, factory=list)

    def persist(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        kept = frame.to_native().persist(StorageLevel.MEMORY_AND_DISK)
        self._persisted.append(kept)
        return nw.from_native(kept)

    def release(self) -> None:
        while self._persisted:
            self._persisted.pop().unpersist()

    def wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        shown = named(column)
        if frame.collect_schema()[column] == nw.Datetime("us", "UTC"):
            shown = F.from_utc_timestamp(shown, zone)
        return nw.from_native(frame.to_native().withColumn(into, F.unix_micros(shown.cast("timestamp"))))

    def from_wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        return nw.from_native(frame.to_native().withColumn(into, _earliest_instant(named(column), zone)))


def _earliest_instant(wall: Column, zone: str) -> Column:
    """The earlier instant of a wall clock time, by the offset in force before any change of the clocks near it.

    In a gap neither the offset before nor the one after shows that time: the one before stands.
    """
    as_utc = F.timestamp_micros(wall)
    before, after = (_offset(as_utc + F.expr(f"interval {days} day"), zone) for days in (-1, 1))
    earlier, later = F.timestamp_micros(wall - before), F.timestamp_micros(wall - after)
    return F.when(F.unix_micros(F.from_utc_timestamp(earlier, zone)) == wall, earlier).when(
        F.unix_micros(F.from_utc_timestamp(later, zone)) == wall, later
    ).otherwise(earlier)


def _offset(instant: Column, zone: str) -> Column:
    """Microseconds by which a zone's wall clock is ahead of UTC at an instant."""
    return F.unix_micros(F.from_utc_timestamp(instant, zone)) - F.unix_micros(instant)
