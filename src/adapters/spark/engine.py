"""The operations on Spark frames that narwhals does not offer in the same way on every engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import reduce
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from ...domain.ports import FrameEngine
from ...domain.table.schema import Schema
from .errors import explain_read_errors
from .executors import follow_cores
from .jvm import each_of
from .lost_jvm import explain_lost_jvm
from .master import is_one_process, master_of
from .order import SparkOrder
from .own_session import working_in
from .run_frames import frame_of_run
from .schema import bring_into, empty_frame, frame_of_plan, lazy, literals, named, quoted
from .sums import counted_or_total

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


_UTC = "UTC"
_NESTED = (spark_types.ArrayType, spark_types.StructType)
_EXPONENT_FROM = 7
"""Spark's text of a decimal with at least this many digits after the point may have an exponent."""
_PART = 10_000
_PARTITIONS = "spark.sql.shuffle.partitions"
_WHOLE_STAGE = "spark.sql.codegen.wholeStage"
_SMALL_ROWS = 200_000
_CACHED = "InMemoryRelation"
"""The plan leaf that reads a cached frame."""
_FOR_ALL = MappingProxyType(
    {
        # Each use of such a filter adds up to 8 MiB to every task, and cached frames build it where it saves nothing.
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    }
)
_FOR_LARGE = MappingProxyType(
    {
        **_FOR_ALL,
        # More than this in one partition of a table is written by several tasks.
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
        # Rows that fit are joined through a hash table, without a sort. Spark wants at least the size above.
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "16m",
        # A task writes at most this many partitions of a table side by side, without sorting its rows by them.
        "spark.sql.maxConcurrentOutputFileWriters": "8",
    }
)
_FOR_SMALL = MappingProxyType(
    {
        **_FOR_ALL,
        # Whole-stage code contains the epoch's literals, and compiling it takes longer than so few rows do; so does
        # adaptive planning.
        _WHOLE_STAGE: "false",
        "spark.sql.adaptive.enabled": "false",
        # Distributing so few rows costs more than parallel work saves.
        _PARTITIONS: "1",
    }
)


@define(eq=False)
class SparkEngine(SparkOrder, FrameEngine):
    """Frames on Spark.

    Args:
        session: Headwater's own session, in which they run.
        fixed: names of Spark settings that the user has set; they are left alone.
        program: the session of the user's program, which gets the frames handed out; `session` if None.
    """

    session: SparkSession
    fixed: Collection[str] = ()
    program: SparkSession | None = None
    _persisted: list[DataFrame] = field(init=False, factory=list)
    _usual: dict[str, str] = field(init=False, factory=dict)
    _forgets_origins: bool = field(init=False, default=False)

    def expect(self, rows: int) -> None:
        self._restore()
        small = rows <= _SMALL_ROWS
        self._forgets_origins = small and is_one_process(master_of(self.session.sparkContext))
        for name, value in (_FOR_SMALL if small else self._for_large()).items():
            if name not in self.fixed:
                self._usual[name] = str(self.session.conf.get(name))
                self.session.conf.set(name, value)

    def _for_large(self) -> dict[str, str]:
        """The settings for many rows; the cluster may have grown or shrunk since the last epoch."""
        cores = follow_cores(self.session)
        return dict(_FOR_LARGE) if cores is None else {**_FOR_LARGE, _PARTITIONS: cores}

    def persist(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        with self._whole_stages():
            kept = self._with_short_plan(frame.to_native()).persist(StorageLevel.MEMORY_AND_DISK)
        self._persisted.append(kept)
        cache = self.session._jsparkSession.sharedState().cacheManager()
        cached = cache.lookupCachedData(kept._jdf).get().cachedRepresentation()
        if self._forgets_origins:
            # A task carries the origins of all cached frames that it reads, tables and closures with them. They are for
            # the case that an executor is lost, and here there is one, in this process.
            cached.cacheBuilder().cachedColumnBuffers().localCheckpoint()
        # Start a new plan at the cache: a longer plan is analyzed again at every step on it.
        return lazy(frame_of_plan(self.session, cached))

    @contextmanager
    def _whole_stages(self) -> Iterator[None]:
        """Plan with whole-stage code while stored rows are read: only such plans read Parquet in batches."""
        if _WHOLE_STAGE in self._usual:
            self.session.conf.set(_WHOLE_STAGE, self._usual[_WHOLE_STAGE])
        try:
            yield
        finally:
            if _WHOLE_STAGE in self._usual:
                self.session.conf.set(_WHOLE_STAGE, _FOR_SMALL[_WHOLE_STAGE])

    def _with_short_plan(self, frame: DataFrame) -> DataFrame:
        """The same rows. If the plan uses cached frames, it is replaced by its rows.

        Spark writes a plan as text before it runs it, and adaptive planning again after each of its stages. The text
        contains the plan of each cached frame at each use, and that plan those of its own cached frames. Of an epoch of
        250,000 views the texts took 111 MB of the heap, and most of the epoch's time.
        """
        execution = frame._jdf.queryExecution()
        if all(leaf.nodeName() != _CACHED for leaf in each_of(execution.analyzed().collectLeaves())):
            return frame
        return frame_of_run(self.session, execution)

    def release(self) -> None:
        with explain_lost_jvm():
            while self._persisted:
                self._persisted.pop().unpersist()
            self._restore()

    def _restore(self) -> None:
        while self._usual:
            self.session.conf.set(*self._usual.popitem())

    def explaining(self) -> AbstractContextManager[None]:
        return explain_read_errors()

    @contextmanager
    def working(self) -> Iterator[None]:
        with working_in(self.session, self.program), explain_read_errors():
            yield

    def frame(self, rows: Sequence[Mapping[str, Any]], schema: Schema) -> nw.LazyFrame[Any]:
        one = self.session.range(1, numPartitions=1)
        frames = [one.select(*literals(row, schema)) for row in rows]
        return lazy(reduce(DataFrame.unionAll, frames) if frames else empty_frame(self.session, schema))

    def parts(self, frame: nw.LazyFrame[Any]) -> Iterator[nw.DataFrame[Any]]:
        """See `FrameExchange.parts`. At most two partitions are in the driver's memory."""
        import polars as pl

        schema = frame.collect_schema().to_polars()
        rows: Iterator[tuple[Any, ...]] = map(tuple, frame.to_native().toLocalIterator(prefetchPartitions=True))
        if any(each == pl.Binary or each.is_nested() for each in schema.dtypes()):
            rows = (tuple(map(_plain, row)) for row in rows)
        while some := list(islice(rows, _PART)):
            yield nw.from_native(pl.DataFrame(some, schema, orient="row"))

    def from_native(self, frame: DataFrame) -> nw.LazyFrame[Any]:
        return lazy(bring_into(self.session, frame))

    def to_native(self, frame: nw.LazyFrame[Any]) -> DataFrame:
        rows: DataFrame = frame.to_native()
        return rows if self.program is None else bring_into(self.program, rows)

    def wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        shown, kind = named(column), frame.to_native().schema[column].dataType
        if isinstance(kind, _NESTED):
            return lazy(frame.to_native().withColumn(into, _in_micros(shown, kind)))
        if zone != _UTC and frame.collect_schema()[column] == nw.Datetime("us", "UTC"):
            shown = F.from_utc_timestamp(shown, zone)
        return lazy(frame.to_native().withColumn(into, F.unix_micros(shown.cast("timestamp"))))

    def from_wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        wall = named(column)
        instant = F.timestamp_micros(wall) if zone == _UTC else _earliest_instant(wall, zone)
        return lazy(frame.to_native().withColumn(into, instant))

    def each_between(self, frame: nw.LazyFrame[Any], low: str, high: str, *, into: str) -> nw.LazyFrame[Any]:
        some = frame.filter(nw.col(low) <= nw.col(high)).to_native()  # Spark's sequence would count down if low > high
        return lazy(some.withColumn(into, F.explode(F.sequence(named(low), named(high)))))

    def digest(self, frame: nw.LazyFrame[Any], column: str, *, into: str) -> nw.LazyFrame[Any]:
        rows: DataFrame = frame.to_native()
        kind, text = rows.schema[column].dataType, named(column).cast("string")
        if isinstance(kind, spark_types.DecimalType) and kind.scale >= _EXPONENT_FROM:
            text = F.replace(F.format_number(named(column), kind.scale), F.lit(","), F.lit(""))
        return lazy(rows.withColumn(into, F.md5(text)))

    def add_up(
        self, frame: nw.LazyFrame[Any], by: Sequence[str], sums: Sequence[str], most: Sequence[str] = ()
    ) -> nw.LazyFrame[Any]:
        rows: DataFrame = frame.to_native()
        totals = {each: counted_or_total(rows, each, by) for each in sums}
        parts = {into: sql for each in totals.values() for into, sql in each.parts.items()}
        parts |= {each: f"max({quoted(each)})" for each in most}
        found = rows.groupBy(*map(named, by)).agg(*(F.expr(f"{sql} AS {quoted(into)}") for into, sql in parts.items()))
        answers = (f"{each.answer} AS {quoted(name)}" for name, each in totals.items())
        return lazy(found.selectExpr(*map(quoted, by), *answers, *map(quoted, most)))

    def running(
        self, frame: nw.LazyFrame[Any], sums: Sequence[str], over: Sequence[str], order_by: str
    ) -> nw.LazyFrame[Any]:
        rows: DataFrame = frame.to_native()
        group = ", ".join(map(quoted, over))
        window = f"(PARTITION BY {group} ORDER BY {quoted(order_by)} ROWS UNBOUNDED PRECEDING)"
        totals = {each: counted_or_total(rows, each, over) for each in sums}
        parts = [item for each in totals.values() for item in each.parts.items()]
        windowed = (f"{sql} OVER {window} AS {quoted(into)}" for into, sql in parts)
        found = rows.selectExpr("*", *windowed)
        answers = {name: each.answer for name, each in totals.items()}
        chosen = (f"{answers.get(each, quoted(each))} AS {quoted(each)}" for each in rows.columns)
        return lazy(found.selectExpr(*chosen))


def _earliest_instant(wall: Column, zone: str) -> Column:
    """The earlier instant of a wall-clock time, by the offset before any clock change near it.

    In a gap neither the offset before nor the one after gives that wall-clock time; then the offset before counts.
    """
    as_utc = F.timestamp_micros(wall)
    before, after = (_offset(as_utc + F.expr(f"interval {days} day"), zone) for days in (-1, 1))
    earlier, later = F.timestamp_micros(wall - before), F.timestamp_micros(wall - after)
    return (
        F.when(F.unix_micros(F.from_utc_timestamp(earlier, zone)) == wall, earlier)
        .when(F.unix_micros(F.from_utc_timestamp(later, zone)) == wall, later)
        .otherwise(earlier)
    )


def _offset(instant: Column, zone: str) -> Column:
    """Microseconds by which a zone's wall clock is ahead of UTC at an instant."""
    return F.unix_micros(F.from_utc_timestamp(instant, zone)) - F.unix_micros(instant)


def _in_micros(value: Column, kind: spark_types.DataType) -> Column:
    """A value in which instants are microseconds since 1970."""
    if isinstance(kind, spark_types.ArrayType):
        return F.transform(value, lambda each: _in_micros(each, kind.elementType))
    if isinstance(kind, spark_types.StructType):
        fields = (_in_micros(value[each.name], each.dataType).alias(each.name) for each in kind.fields)
        return F.when(value.isNotNull(), F.struct(*fields))
    return F.unix_micros(value) if isinstance(kind, spark_types.TimestampType) else value


def _plain(value: Any) -> Any:
    """A value as Polars takes it: Spark's bytearrays would become null, and its rows lists."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Row):
        return {name: _plain(each) for name, each in value.asDict().items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
