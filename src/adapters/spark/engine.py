"""What narwhals does not offer alike on every engine, for Spark."""

from __future__ import annotations

from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field
from pyspark import StorageLevel
from pyspark.sql import functions as F

from ...domain.ports import FrameEngine
from .executors import follow_cores
from .faults import explained
from .jvm import each_of, java_class, option, sequence
from .own_session import working_in
from .schema import bring_into, frame_of_plan, lazy, named, quoted
from .sums import counted_or_total

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import Column, DataFrame, SparkSession


_UTC = "UTC"
_PARTITIONS = "spark.sql.shuffle.partitions"
_WHOLE_STAGE = "spark.sql.codegen.wholeStage"
_SMALL_ROWS = 200_000
_KEPT = "InMemoryRelation"
"""The leaf of a plan that reads a kept frame."""
_MOST_TOLD = 100
"""Leaves that a plan may tell of."""
_FOR_ALL = MappingProxyType(
    {
        # A mention of such a filter is up to 8 MiB of every task, and kept frames have it made where it saves nothing.
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    }
)
_FOR_SMALL = MappingProxyType(
    {
        **_FOR_ALL,
        # Whole stages have the epoch's literals in their code, and compiling one takes longer than these rows do; so
        # does a second look at the plan on the way.
        _WHOLE_STAGE: "false",
        "spark.sql.adaptive.enabled": "false",
        # Sharing so few rows out costs more than working on them side by side saves.
        _PARTITIONS: "1",
    }
)


@define(eq=False)
class SparkEngine(FrameEngine):
    """Frames on Spark.

    Args:
        session: where they run, Headwater's own.
        fixed: names of Spark settings that the user has chosen, and that are left alone.
        program: the session of the program around, which frames are handed out to; `session` if None.
    """

    session: SparkSession
    fixed: Collection[str] = ()
    program: SparkSession | None = None
    _persisted: list[DataFrame] = field(init=False, factory=list)
    _told: dict[int, int] = field(init=False, factory=dict)
    """Of the kept frames how many leaves are told of each; see `_told_in_brief`."""
    _usual: dict[str, str] = field(init=False, factory=dict)

    def expect(self, rows: int) -> None:
        self._restore()
        for name, value in (_FOR_SMALL if rows <= _SMALL_ROWS else self._for_large()).items():
            if name not in self.fixed:
                self._usual[name] = str(self.session.conf.get(name))
                self.session.conf.set(name, value)

    def _for_large(self) -> dict[str, str]:
        """The cluster may have grown or shrunk since the last epoch."""
        cores = follow_cores(self.session)
        return dict(_FOR_ALL) if cores is None else {**_FOR_ALL, _PARTITIONS: cores}

    def persist(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        with self._whole_stages():
            plain, told = self._told_in_brief(frame.to_native())
            kept = plain.persist(StorageLevel.MEMORY_AND_DISK)
        self._persisted.append(kept)
        cache = self.session._jsparkSession.sharedState().cacheManager()
        cached = cache.lookupCachedData(kept._jdf).get().cachedRepresentation()
        self._told[self._identity(cached)] = told
        # A plan that starts at the cache: a longer one is analysed again at every step on it.
        return lazy(frame_of_plan(self.session, cached))

    @contextmanager
    def _whole_stages(self) -> Iterator[None]:
        """Plan in whole stages what reads stored rows: only these read Parquet in batches."""
        if _WHOLE_STAGE in self._usual:
            self.session.conf.set(_WHOLE_STAGE, self._usual[_WHOLE_STAGE])
        try:
            yield
        finally:
            if _WHOLE_STAGE in self._usual:
                self.session.conf.set(_WHOLE_STAGE, _FOR_SMALL[_WHOLE_STAGE])

    def _told_in_brief(self, frame: DataFrame) -> tuple[DataFrame, int]:
        """The same rows, and how many leaves Spark tells of when it writes down what is to be run.

        It writes down the plans of the kept frames that are read too, with those that they read, as often as they are
        mentioned: of twenty frames one upon the other that takes minutes. A plan of too many leaves gives way to its
        rows.
        """
        execution = frame._jdf.queryExecution()
        leaves = each_of(execution.analyzed().collectLeaves())
        told = sum(self._told.get(self._identity(leaf), 1) if leaf.nodeName() == _KEPT else 1 for leaf in leaves)
        if told <= _MOST_TOLD:
            return frame, told
        rows = java_class(self.session, "org.apache.spark.sql.execution.LogicalRDD")(
            execution.analyzed().output(),
            execution.toRdd(),
            execution.executedPlan().outputPartitioning(),
            sequence(self.session, ()),  # the order may be by columns that it does not have
            False,  # it is no stream
            self.session._jsparkSession,
            option(self.session, execution.optimizedPlan().stats()),
            option(self.session),
        )
        return frame_of_plan(self.session, rows), 1

    def _identity(self, kept: Any) -> int:
        """What a kept frame is known by, wherever a plan mentions it."""
        return int(java_class(self.session, "java.lang.System").identityHashCode(kept.cacheBuilder()))

    def release(self) -> None:
        while self._persisted:
            self._persisted.pop().unpersist()
        self._told.clear()
        self._restore()

    def _restore(self) -> None:
        while self._usual:
            self.session.conf.set(*self._usual.popitem())

    def explaining(self) -> AbstractContextManager[None]:
        return explained()

    @contextmanager
    def working(self) -> Iterator[None]:
        with working_in(self.session, self.program), explained():
            yield

    def take_in(self, frame: DataFrame) -> nw.LazyFrame[Any]:
        return lazy(bring_into(self.session, frame))

    def hand_out(self, frame: nw.LazyFrame[Any]) -> DataFrame:
        rows: DataFrame = frame.to_native()
        return rows if self.program is None else bring_into(self.program, rows)

    def wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        shown = named(column)
        if zone != _UTC and frame.collect_schema()[column] == nw.Datetime("us", "UTC"):
            shown = F.from_utc_timestamp(shown, zone)
        return lazy(frame.to_native().withColumn(into, F.unix_micros(shown.cast("timestamp"))))

    def from_wall_micros(self, frame: nw.LazyFrame[Any], column: str, *, into: str, zone: str) -> nw.LazyFrame[Any]:
        wall = named(column)
        instant = F.timestamp_micros(wall) if zone == _UTC else _earliest_instant(wall, zone)
        return lazy(frame.to_native().withColumn(into, instant))

    def each_between(self, frame: nw.LazyFrame[Any], low: str, high: str, *, into: str) -> nw.LazyFrame[Any]:
        some = frame.filter(nw.col(low) <= nw.col(high)).to_native()  # a sequence would go down where there are none
        return lazy(some.withColumn(into, F.explode(F.sequence(named(low), named(high)))))

    def digest(self, frame: nw.LazyFrame[Any], column: str, *, into: str) -> nw.LazyFrame[Any]:
        return lazy(frame.to_native().withColumn(into, F.md5(named(column))))

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
    """The earlier instant of a wall clock time, by the offset in force before any change of the clocks near it.

    In a gap neither the offset before nor the one after shows that time: the one before stands.
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
