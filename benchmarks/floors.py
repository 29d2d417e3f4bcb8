"""What an epoch is held against: a plain append of its rows, and a full recompute with its result written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl
from attrs import define, field

from headwater.domain.change import Change
from headwater.domain.epoch import Epoch, Mark, OffsetRange
from headwater.domain.schema import Schema
from headwater.domain.table import TableSpec

from .data import DDL

if TYPE_CHECKING:
    from pathlib import Path

_WINDOW = "*, dense_rank() OVER (PARTITION BY group_id ORDER BY event_time) AS rank"


class Floor(ABC):
    """The plain way, on one backend; every call returns its seconds."""

    @abstractmethod
    def append(self, file: Path) -> float:
        """Append a Parquet file's rows to a plain table."""

    @abstractmethod
    def recompute(self) -> float:
        """Rank all rows appended so far with a window, and write the result as a whole."""

    def jobs(self) -> int:
        """How many Spark jobs have been started so far."""
        return 0


@define(eq=False)
class DeltaFloor(Floor):
    """Spark's own Delta writer, on the session that is running."""

    folder: Path
    session: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        from pyspark.sql import SparkSession

        self.session = SparkSession.getActiveSession()

    def append(self, file: Path) -> float:
        began = perf_counter()
        self.session.read.parquet(str(file)).write.format("delta").mode("append").save(str(self.folder / "plain"))
        return perf_counter() - began

    def recompute(self) -> float:
        began = perf_counter()
        everything = self.session.read.format("delta").load(str(self.folder / "plain"))
        ranked = everything.selectExpr(*_columns(), _WINDOW.removeprefix("*, "))
        ranked.write.format("delta").mode("overwrite").save(str(self.folder / "ranked"))
        return perf_counter() - began

    def jobs(self) -> int:
        return max(self.session.sparkContext.statusTracker().getJobIdsForGroup(), default=-1) + 1


def _columns() -> tuple[str, ...]:
    return Schema.parse(DDL).names


@define(eq=False)
class MemoryFloor(Floor):
    """A table of the memory backend that is only appended to."""

    store: Any = field(init=False)
    commits: int = 0
    parts: list[pl.DataFrame] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        from headwater.adapters.memory.store import MemoryStore

        self.store = MemoryStore()
        self.store.ensure(TableSpec("bench.plain", Schema.parse(DDL)))

    def append(self, file: Path) -> float:
        began = perf_counter()
        rows = pl.read_parquet(file)
        self.commits += 1
        offsets = OffsetRange(None, {"files": self.commits})
        mark = Mark(Epoch("bench", self.commits), offsets, self.commits, "bench", "", "bench.plain")
        self.store.commit("bench.plain", Change(append=nw.from_native(rows.lazy())), mark)
        took = perf_counter() - began
        self.parts.append(rows)
        return took

    def recompute(self) -> float:
        began = perf_counter()
        everything = pl.concat(self.parts)
        everything.with_columns(pl.col("event_time").rank("dense").over("group_id").alias("rank"))
        return perf_counter() - began
