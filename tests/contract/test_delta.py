"""The Delta backend under the contract."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import narwhals as nw
import pytest

from headwater.adapters.delta.compaction_policy import CompactionPolicy
from headwater.adapters.spark.schema import frame_of
from headwater.domain.errors import ConfigError
from headwater.domain.table.change import Change
from headwater.domain.table.schema import Schema
from headwater.testing.engine_contract import FrameEngineContract
from headwater.testing.frames import SparkFrames
from headwater.testing.query_contract import QueryEngineContract
from headwater.testing.store_contract import StoreContract
from headwater.testing.store_harness import StoreHarness, both_layouts, spec_of

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.adapters.delta.store import DeltaStore
    from headwater.adapters.spark.engine import SparkEngine
    from headwater.adapters.spark.queries import SparkQueries
    from headwater.domain.table.spec import Layout

pytestmark = [pytest.mark.delta, pytest.mark.contract]


class Delta(SparkFrames, StoreHarness):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def reopen(self) -> DeltaStore:
        from headwater.adapters.delta.store import DeltaStore

        return DeltaStore(self.spark, str(self.root))


class TestDeltaStore(Delta, StoreContract):
    pass


class TestLoads(Delta):
    """A load is written in files of one size, whose keys do not overlap."""

    @both_layouts
    def test_files_are_sized(self, layout: Layout) -> None:
        store = self.reopen()
        store.compaction = CompactionPolicy(target_bytes=1024 * 1024)
        table = self.table(store, spec_of("id bigint, name string", ["id"], layout=layout))
        rows = self.spark.range(150_000).selectExpr("id", "sha2(CAST(id AS string), 256) AS name")
        version = table.commit_change(Change(load=nw.from_native(rows)))
        files = sorted(
            store._tables[table.spec.name].log.files(int(version)).values(), key=lambda file: file.lowest["id"]
        )
        assert 3 < len(files) < 15
        assert max(file.size for file in files) < 3 * 1024 * 1024
        assert all(one.highest["id"] < next_.lowest["id"] for one, next_ in pairwise(files))
        assert table.frame().to_native().count() == 150_000
        assert table.rows(table.matching([(7,)], ["id"])).total() == 1


class TestSparkQueries(SparkFrames, QueryEngineContract):
    @pytest.fixture
    def queries(self) -> SparkQueries:
        from headwater.adapters.spark.queries import SparkQueries

        return SparkQueries(self.spark)

    def test_no_view_is_left_behind(self, queries: SparkQueries) -> None:
        schema = Schema.parse("x bigint")
        queries.query("select x from t", {"t": self.frame([(1,)], schema)})
        with pytest.raises(ConfigError):
            queries.query("select y from t", {"t": self.frame([(1,)], schema)})
        assert [each.name for each in self.spark.catalog.listTables() if each.name.startswith("headwater")] == []

    def test_frames_of_another_session(self, queries: SparkQueries) -> None:
        other = frame_of(self.spark.newSession(), Schema.parse("x bigint"), [(1,)])
        own = self.frame([(1,), (2,)], Schema.parse("x bigint"))
        found = queries.query("select x from own except select x from other", {"own": own, "other": other})
        assert found.collect(backend="polars").rows() == [(2,)]

    def test_delta_tables_are_read(self, queries: SparkQueries, tmp_path: Path) -> None:
        self.frame([(1,)], Schema.parse("x bigint")).to_native().write.format("delta").save(str(tmp_path / "d"))
        assert queries.scan(str(tmp_path / "d"), "delta").collect(backend="polars").rows() == [(1,)]


class TestSparkEngine(SparkFrames, FrameEngineContract):
    @pytest.fixture
    def engine(self) -> SparkEngine:
        from headwater.adapters.spark.engine import SparkEngine

        return SparkEngine(self.spark)

    def test_a_plan_on_top_of_many_cached_frames_is_short(self, engine: SparkEngine) -> None:
        """Spark keeps each plan as text. Of an epoch of 250,000 views it once was 111 MB, and the heap ran out."""
        frame = engine.persist(self.frame([(1, 2)], Schema.parse("x bigint, y bigint")))
        with engine.working():
            for _ in range(12):
                more = frame.select("x", nw.col("y").alias("z"))
                frame = engine.persist(frame.join(more, on="x", how="inner").select("x", "y"))
            assert frame.collect(backend="polars").rows() == [(1, 2)]
            assert len(str(frame.to_native()._jdf.queryExecution().toString())) < 10_000
        engine.release()

    @pytest.mark.parametrize(("rows", "checkpoints"), [(1, 1), (1_000_000, 0)])
    def test_a_small_epochs_cached_frame_forgets_what_it_was_made_of(
        self, engine: SparkEngine, rows: int, checkpoints: int
    ) -> None:
        """Each task carries the origins of what it reads; with Hudi's tables among them that was half of an epoch."""
        engine.expect(rows)
        with engine.working():
            kept = engine.persist(self.frame([(1, 2)], Schema.parse("x bigint, y bigint")))
            assert kept.collect(backend="polars").rows() == [(1, 2)]
            origins = kept.to_native()._jdf.queryExecution().toRdd().toDebugString()
        assert origins.count("LocalCheckpointRDD") == checkpoints
        engine.release()
