"""Two engines over one Delta log: each operation runs on the other engine than the last one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import cycle, repeat
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest

from headwater.adapters.delta.compaction_policy import CompactionPolicy
from headwater.adapters.delta.local import compaction
from headwater.adapters.delta.local.folder import LocalFolder
from headwater.adapters.delta.local.log import LocalLog
from headwater.adapters.delta.local.store import LocalDeltaStore
from headwater.testing.frames import SparkFrames
from headwater.testing.store_contract import OperationsContract
from headwater.testing.store_harness import StoreHarness, bag, spec_of
from headwater.testing.store_merging import MergingContract
from headwater.testing.store_nested import NestedContract
from headwater.testing.store_reading import ValuesContract
from headwater.testing.store_whole import WholeContract

from .test_delta_expiring import NAMES, Crashes, Log, Races, SparkLake
from .test_delta_partial_compaction import SomeFiles, Twins
from .turns import TakingTurns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.domain.ports import KeptStore

pytestmark = [pytest.mark.delta, pytest.mark.contract]


class BothEngines(SparkFrames, StoreHarness):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path
        self.turns = cycle(["spark", "local"])

    def reopen(self) -> KeptStore:
        from headwater.adapters.delta.store import DeltaStore

        local, spark = LocalDeltaStore(str(self.root)), DeltaStore(self.spark, str(self.root))
        return cast("KeptStore", TakingTurns(local, spark, self.turns, self.spark))


class TestTurns(BothEngines, OperationsContract):
    pass


@pytest.mark.slow
class TestTurnsInFull(BothEngines, ValuesContract, MergingContract, NestedContract, WholeContract):
    pass


class TestCheckpoints(BothEngines):
    @pytest.mark.parametrize("writer", ["local", "spark"])
    def test_each_reads_the_checkpoint_of_the_other(self, writer: str) -> None:
        """The commits before it are gone, so nothing else tells what the table holds."""
        spec = spec_of("id bigint, day date, `a b` decimal(10,2)", ["id", "day"], partition_by=["day"])
        table = self.table(self.reopen(), spec)
        rows = [(number, date(2024, 1, number % 2 + 1), Decimal(number)) for number in range(6)]
        for row in rows:
            table.commit(append=[row])
        folder = self.root / "pipeline" / "items"
        deltas = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog
        deltas.clearCache()
        if writer == "local":
            log = LocalLog(str(folder))
            log.newest()
            log.checkpoint()
        else:
            deltas.forTable(self.spark._jsparkSession, str(folder)).checkpoint()
        for version in range(5):
            (folder / "_delta_log" / f"{version:020}.json").unlink()
        deltas.clearCache()
        self.turns = cycle(["spark", "local"] if writer == "local" else ["local", "spark"])
        again = self.table(self.reopen(), spec)
        again.sequence, again.newest = 6, table.newest
        for _ in range(2):
            assert again.rows() == bag(*rows)
        for number in (6, 7):
            rows.append((number, date(2024, 1, 1), Decimal(number)))
            again.commit(append=rows[-1:])
        for _ in range(2):
            assert again.rows() == bag(*rows)


class TestSlices(BothEngines):
    def test_spark_reads_a_file_that_was_written_in_slices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(compaction, "_SLICE", 3)
        types = "s string, c decimal(38,2), t timestamp, z timestamp_ntz, f double, b boolean, x binary, i int, d date"
        spec = spec_of(f"id bigint, day date, {types}", ["id", "day"], partition_by=["day"])
        moment = datetime(2024, 1, 1, 12, 30, 0, 123456)
        full = ("ä", Decimal("1.50"), moment.replace(tzinfo=UTC), moment, -0.5, True, b"\x00\xff", 7, date(1969, 1, 1))
        rows = [(number, date(2024, 1, 1 + number % 2), *full) for number in range(12)]
        rows += [(99, date(2024, 1, 1), *[None] * len(full))]
        self.turns = repeat("local")
        table = self.table(self.reopen(), spec)
        table.commit(merge=rows[:7])
        table.commit(merge=rows[7:])
        store = LocalDeltaStore(str(self.root), CompactionPolicy(min_files=2, min_share=0))
        store.ensure(spec)
        compacted = store.compact(spec.name)
        assert compacted is not None
        for engine in ("spark", "local"):
            self.turns = repeat(engine)
            assert self.table(self.reopen(), spec).rows_at(compacted) == bag(*rows)


class TestPartialCompaction(BothEngines):
    @pytest.mark.parametrize("kind", ["newest, partitioned", "sums, never deleted", "two groups"])
    def test_spark_brings_files_of_the_local_engine_together(self, kind: str) -> None:
        chance = Random(kind)
        twins = Twins(self, (self.opened("one", chance), self.opened("two", chance)), kind, chance)
        for reader in ("spark", "local"):
            self.turns = repeat("local")
            for _ in range(4):
                twins.commit()
            self.turns = repeat("spark")
            twins.both[0].compact()
            self.turns = repeat(reader)
            twins.check()

    def opened(self, folder: str, chance: Random) -> KeptStore:
        from headwater.adapters.delta.store import DeltaStore

        root, policy = str(self.root / folder), SomeFiles(chance=chance)
        stores = LocalDeltaStore(root, policy), DeltaStore(self.spark, root, policy)
        return cast("KeptStore", TakingTurns(*stores, self._turns(), self.spark))

    def _turns(self) -> Iterator[str]:
        while True:
            yield next(self.turns)


class TestOutsideReaders(BothEngines):
    @pytest.mark.parametrize("slices", [2, 100])
    def test_spark_of_its_own_settings_reads_dates_of_old(self, monkeypatch: pytest.MonkeyPatch, slices: int) -> None:
        """Without a word on the calendar in the file, Spark would refuse to read it."""
        monkeypatch.setattr(compaction, "_SLICE", slices)
        self.turns = repeat("local")
        spec = spec_of("id bigint, d date, t timestamp", ["id"])
        rows = [(number, date(1, 1, 1), datetime(1850, 1, 1, tzinfo=UTC)) for number in range(6)]
        table = self.table(self.reopen(), spec)
        for row in rows:
            table.commit(merge=[row])
        store = LocalDeltaStore(str(self.root), CompactionPolicy(min_files=2, min_share=0))
        store.ensure(spec)
        assert store.compact(spec.name) is not None
        session = self.spark.newSession()
        session.conf.set("spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION")
        session.conf.set("spark.sql.session.timeZone", "UTC")
        found = session.read.format("delta").load(str(self.root / "pipeline" / "items"))
        texts = found.selectExpr("id", "cast(d as string) d", "cast(t as string) t").collect()
        assert sorted(map(tuple, texts)) == [(number, "0001-01-01", "1850-01-01 00:00:00") for number in range(6)]


class TwoLakes(SparkLake):
    """One process on one engine, another process on the other."""

    @pytest.fixture(autouse=True, params=["spark", "local"])
    def _engine(self, request: pytest.FixtureRequest) -> None:
        self.engine = request.param

    def opened(self, **policies: Any) -> KeptStore:
        return self._on(self.engine, **policies)

    def another(self) -> KeptStore:
        self._deltas.clearCache()
        store = self._on("local" if self.engine == "spark" else "spark")
        store.ensure(NAMES)
        return store

    def _on(self, engine: str, **policies: Any) -> KeptStore:
        from headwater.adapters.delta.store import DeltaStore

        local, spark = LocalDeltaStore(str(self.root), **policies), DeltaStore(self.spark, str(self.root), **policies)
        return cast("KeptStore", TakingTurns(local, spark, repeat(engine), self.spark))

    @property
    def swept(self) -> type[Any]:
        return LocalFolder if self.engine == "local" else super().swept


class TestRacesOfTwo(TwoLakes, Races):
    pass


class TestCrashesOfOne(TwoLakes, Crashes):
    pass


class TestLogOfTwo(TwoLakes, Log):
    pass
