"""The costs with which an epoch is compared: a plain append of its rows, and a full recompute with a written result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl
from attrs import define, field

from headwater.domain.epoch.epoch import Epoch, Mark, OffsetRange
from headwater.domain.table.change import Change
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec

from .data import DDL
from .reading import drain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_WINDOW = "dense_rank() OVER (PARTITION BY group_id ORDER BY event_time) AS rank"
_PLAIN = "bench.plain"

_HUDI = {
    # The cheapest way to append small batches on Hudi: no metadata table, no timeline server, no index lookup, and no
    # table services.
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.compact.schedule.inline": "false",
}


class Floor(ABC):
    """Plain appends and recomputes on one backend; each call returns its seconds."""

    @abstractmethod
    def append(self, file: Path) -> float:
        """Append a Parquet file's rows to a plain table."""

    @abstractmethod
    def read(self) -> float:
        """Read all rows appended so far."""

    @abstractmethod
    def recompute(self) -> float:
        """Rank all rows appended so far with a window function, and write the whole result."""

    def jobs(self) -> int:
        """The number of Spark jobs started so far."""
        return 0


@define(eq=False)
class SparkFloor(Floor):
    """Spark's own writer of a table format, on the running session."""

    folder: Path
    form: str
    options: Mapping[str, str] = field(factory=dict)
    session: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        from pyspark.sql import SparkSession

        self.session = SparkSession.getActiveSession()

    def append(self, file: Path) -> float:
        began = perf_counter()
        self._write(self.session.read.parquet(str(file)), "plain", "append")
        return perf_counter() - began

    def read(self) -> float:
        began = perf_counter()
        drain(self._everything())
        return perf_counter() - began

    def recompute(self) -> float:
        began = perf_counter()
        self._write(self._everything().selectExpr(*_columns(), _WINDOW), "ranked", "overwrite")
        return perf_counter() - began

    def jobs(self) -> int:
        return max(self.session.sparkContext.statusTracker().getJobIdsForGroup(), default=-1) + 1

    def _everything(self) -> Any:
        return self.session.read.format(self.form).load(self._place("plain"))

    def _place(self, name: str) -> str:
        return str((self.folder / name).resolve())  # Hudi does not accept relative paths

    def _write(self, rows: Any, name: str, mode: str) -> None:
        writer = rows.write.format(self.form).options(**self.options).mode(mode)
        writer.option("hoodie.table.name", name).save(self._place(name))


@define(eq=False)
class LocalFloor(Floor):
    """The local engine's writer of Delta tables: a commit for each file."""

    folder: Path
    commits: int = 0
    store: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        from headwater.adapters.delta.local.store import LocalDeltaStore

        self.store = LocalDeltaStore(str(self.folder))

    def append(self, file: Path) -> float:
        began = perf_counter()
        for each in sorted(file.glob("*.parquet")) if file.is_dir() else [file]:
            rows = nw.from_native(pl.scan_parquet(each))
            if not self.commits:
                self.store.ensure(TableSpec(_PLAIN, Schema.of(rows)))
            self.store.commit(_PLAIN, Change(append=rows), _next_mark(self))
        return perf_counter() - began

    def read(self) -> float:
        began = perf_counter()
        self._everything().collect()
        return perf_counter() - began

    def recompute(self) -> float:
        began = perf_counter()
        _ranked(self._everything().collect()).write_parquet(self.folder / "ranked.parquet")
        return perf_counter() - began

    def _everything(self) -> pl.LazyFrame:
        return pl.scan_parquet(self.folder.joinpath(*_PLAIN.split("."), "*.parquet"))


def append_by_delta_rs(file: Path, folder: Path) -> float:
    """Append a Parquet file's rows as a program with Polars and the package deltalake does; return the seconds."""
    from deltalake import write_deltalake

    began = perf_counter()
    write_deltalake(str(folder / "delta-rs"), pl.read_parquet(file), mode="append")
    return perf_counter() - began


def _next_mark(floor: LocalFloor | MemoryFloor) -> Mark:
    """The mark of the next commit to the plain table."""
    floor.commits += 1
    offsets = OffsetRange(None, {"files": floor.commits})
    return Mark(Epoch("bench", floor.commits), offsets, floor.commits, "bench", "", _PLAIN)


def _ranked(everything: pl.DataFrame) -> pl.DataFrame:
    return everything.with_columns(pl.col("event_time").rank("dense").over("group_id").alias("rank"))


def floor_of(backend: str, folder: Path) -> Floor:
    """The floor of a backend; on Spark it uses the running session."""
    match backend:
        case "memory":
            return MemoryFloor()
        case "delta:local" | "delta:auto":
            return LocalFloor(folder)
        case "delta" | "delta:spark":
            return SparkFloor(folder, "delta")
        case _:
            kind = {"hudi-mor": "MERGE_ON_READ", "hudi-cow": "COPY_ON_WRITE"}[backend.partition(":")[0]]
            return SparkFloor(folder, "hudi", {**_HUDI, "hoodie.datasource.write.table.type": kind})


def _columns() -> tuple[str, ...]:
    return Schema.parse(DDL).names


@define(eq=False)
class MemoryFloor(Floor):
    """Appends to a table of the memory backend."""

    store: Any = field(init=False)
    commits: int = 0
    parts: list[pl.DataFrame] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        from headwater.adapters.memory.store import MemoryStore

        self.store = MemoryStore()
        self.store.ensure(TableSpec(_PLAIN, Schema.parse(DDL)))

    def append(self, file: Path) -> float:
        began = perf_counter()
        rows = pl.read_parquet(file)
        self.store.commit(_PLAIN, Change(append=nw.from_native(rows.lazy())), _next_mark(self))
        took = perf_counter() - began
        self.parts.append(rows)
        return took

    def read(self) -> float:
        began = perf_counter()
        pl.concat(self.parts, rechunk=True)
        return perf_counter() - began

    def recompute(self) -> float:
        began = perf_counter()
        _ranked(pl.concat(self.parts))
        return perf_counter() - began
