"""The Delta backend under the contract."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest

from headwater.adapters.delta.compaction_policy import CompactionPolicy
from headwater.adapters.spark.schema import frame_of
from headwater.domain.errors import ConfigError
from headwater.domain.table.change import Change, Matching
from headwater.domain.table.schema import Schema
from headwater.testing.engine_contract import FrameEngineContract
from headwater.testing.frames import SparkFrames
from headwater.testing.query_contract import QueryEngineContract
from headwater.testing.store_contract import StoreContract
from headwater.testing.store_harness import StoreHarness, bag, both_layouts, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.adapters.delta.store import DeltaStore
    from headwater.adapters.spark.engine import SparkEngine
    from headwater.adapters.spark.queries import SparkQueries
    from headwater.domain.table.spec import Layout
    from headwater.testing.store_harness import TableDriver

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


class TestLargeTables(Delta):
    """Rows that do not fit into one task: what is read and looked up is the same, by other plans."""

    @pytest.fixture(autouse=True)
    def _large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("headwater.adapters.spark.size._ONE_TASK", 0)
        monkeypatch.setattr("headwater.adapters.delta.read._SMALL", 0)

    @both_layouts
    def test_rows_and_lookups(self, layout: Layout) -> None:
        store = self.reopen()
        table = self.table(store, spec_of("day int, id bigint, n int", ["day", "id"], layout=layout))
        table.commit(append=[(day, id_, id_) for day in (1, 2) for id_ in range(2_000)])
        table.commit(merge=[(1, 3, 30), (1, 4_000, 400)], delete=[(1, 4)])
        self._check(table, {**{id_: id_ for id_ in range(2_000) if id_ != 4}, 3: 30, 4_000: 400})
        # More rows in the log than were appended.
        table.commit(merge=[(1, id_, -id_) for id_ in range(6_000)], delete=[(1, 7_000)])
        table.commit(merge=[(1, id_, 7) for id_ in range(5_000, 6_000)], delete=[(1, 5)])
        found = self._check(table, {id_: -id_ if id_ < 5_000 else 7 for id_ in range(6_000) if id_ != 5})
        assert "LeftSemi" not in found.to_native()._jdf.queryExecution().optimizedPlan().toString()

    def _check(self, table: TableDriver, stored: dict[int, int]) -> nw.LazyFrame[Any]:
        """Read all rows of a day, look some up, and return these."""
        assert table.rows(table.matching(day=(1,))) == bag(*((1, id_, n) for id_, n in stored.items()))
        asked = [(1, id_) for id_ in (0, 3, 3, 4, 5, 1_999, 4_000, 5_500, 7_000)]
        rows = self.frame([*asked, (2, 1), (1, None)], Schema.parse("day int, id bigint"))
        found = table.store.look_up(table.spec.name, table.newest, rows, Matching(rows, {"day": (1,)}), {"found": "n"})
        expected = [(*each, stored.get(each[1])) for each in asked]
        assert bag(*self.rows(found)) == bag(*expected, (2, 1, None), (1, None, None))
        return found


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

    def test_a_version_in_the_path_of_a_delta_table_is_refused(self, queries: SparkQueries, tmp_path: Path) -> None:
        rows = self.frame([(1,)], Schema.parse("x bigint")).to_native()
        rows.write.format("delta").save(str(tmp_path / "d"))
        for at in ("@v0", "@V0", "@20240101000000000"):
            with pytest.raises(ConfigError, match=f"names a version of a Delta table .{at}.*; leave {at} out"):
                queries.scan(str(tmp_path / f"d{at}"), "delta")
        rows.write.format("delta").save(str(tmp_path / "of@v1"))
        assert queries.scan(str(tmp_path / "of@v1"), "delta").collect(backend="polars").rows() == [(1,)]


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

    @pytest.mark.parametrize("adaptive", ["true", "false"])
    def test_rows_of_a_key_that_are_together_stay_together(self, engine: SparkEngine, adaptive: str) -> None:
        engine.expect(1_000_000)
        with engine.working(), self._setting("spark.sql.adaptive.enabled", adaptive):
            rows = engine.persist(nw.from_native(self.spark.range(1_000).selectExpr("id % 7 AS k", "id % 3 AS j")))
            pairs = engine.persist(rows.group_by("k", "j").agg(nw.len().alias("n")))
            keys = engine.persist(pairs.group_by("k").agg(nw.col("n").sum()))
            plan = keys.group_by("k").agg(nw.col("n").max()).to_native()._jdf.queryExecution().executedPlan()
            assert "Exchange" not in plan.toString()
            # Rows that are together by the columns of one frame need not be so by those of another.
            both = pairs.join(rows.select("k", nw.col("j").alias("i")), on="k", how="inner")
            found = both.group_by("k", "i").agg(nw.col("n").sum()).join(keys, on="k", how="inner")
            of_key = {k: len(range(k, 1_000, 7)) for k in range(7)}
            expected = {
                (k, i): of_key[k] * sum(each % 3 == i for each in range(k, 1_000, 7)) for k in of_key for i in range(3)
            }
            assert {(k, i): (n, of) for k, i, n, of in found.collect(backend="polars").rows()} == {
                (k, i): (n, of_key[k]) for (k, i), n in expected.items()
            }
        engine.release()

    @contextmanager
    def _setting(self, name: str, value: str) -> Iterator[None]:
        usual = str(self.spark.conf.get(name))
        self.spark.conf.set(name, value)
        try:
            yield
        finally:
            self.spark.conf.set(name, usual)

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
