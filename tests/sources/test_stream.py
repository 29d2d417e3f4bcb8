"""A pipeline that reads a user-supplied Structured Streaming query."""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import udf

from headwater import Headwater
from headwater.adapters.delta.local.store import LocalDeltaStore
from headwater.adapters.delta.store import DeltaStore
from headwater.domain.errors import BadInput, ConfigError, NotSupported, SourceChanged, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

CONFIG = """
[backend]
name = "delta"
path = "lake"
[sources.visits]
kind = "stream"
schema = "page string, visit bigint, at timestamp"
[pipelines.visit_rank]
service = "ranking"
source = "visits"
group = ["page"]
id = ["visit"]
order_by = "at"
"""

AT = "timestamp_ltz '2024-03-01 09:00:00Z'"
AT_MINUTE = f"{AT} + make_interval(0, 0, 0, 0, 0, minute)"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "deploy.toml"
    file.write_text(CONFIG)
    return file


class Query:
    """A query over JSON files, one file a batch, that feeds a pipeline."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.inbox, self.checkpoint = spark, folder / "in", folder / "checkpoint"
        self.inbox.mkdir()

    def give(self, name: str, *rows: Sequence[Any]) -> None:
        lines = [f'{{"page": "{page}", "visit": {visit}, "at": "2024-03-01T{at}:00Z"}}\n' for page, visit, at in rows]
        (self.inbox / name).write_text("".join(lines))

    def run(self, headwater: Headwater) -> None:
        self.run_function(headwater.foreach_batch("visit_rank"))

    def push(self, headwater: Headwater, first: int = 0) -> None:
        """Push each batch from a function of the program; `first` is the number of the first one."""
        self.run_function(lambda rows, batch: headwater.push("visits", rows, number=batch + first))

    def run_function(self, function: Callable[[Any, int], Any]) -> None:
        files = self.spark.readStream.schema("page string, visit bigint, at timestamp").option("maxFilesPerTrigger", 1)
        writing = files.json(str(self.inbox)).writeStream.foreachBatch(function)
        query = writing.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()


on_both = pytest.mark.parametrize("engine", ["auto", "spark"])
"""The batches are small, so `auto` computes them without Spark."""


def set_engine(config: Path, engine: str) -> None:
    if engine != "auto":
        config.write_text(config.read_text().replace('path = "lake"', f'path = "lake"\nengine = "{engine}"'))


def fail_once(monkeypatch: pytest.MonkeyPatch, engine: str, fault: BaseException) -> None:
    """Let the second commit of an engine from now on fail."""
    store: Any = DeltaStore if engine == "spark" else LocalDeltaStore
    commit, commits = store.commit, count(1)

    def failing(self: Any, *args: Any) -> Any:
        if next(commits) == 2:
            raise fault
        return commit(self, *args)

    monkeypatch.setattr(store, "commit", failing)


def ranks(headwater: Headwater) -> dict[int, int]:
    return {row["visit"]: row["rank"] for row in headwater.view("visit_rank").collect()}


@pytest.mark.delta
@pytest.mark.contract
class TestStream:
    def test_batches_become_epochs_and_a_new_checkpoint_is_refused(
        self, spark: SparkSession, tmp_path: Path, config: Path
    ) -> None:
        query = Query(spark, tmp_path)
        query.give("a.json", ("x", 1, "09:00"), ("x", 2, "10:00"), ("y", 3, "09:00"))
        with Headwater.from_config(config) as headwater:
            query.run(headwater)
            query.give("b.json", ("x", 4, "08:00"))
            query.run(headwater)
            assert ranks(headwater) == {4: 1, 1: 2, 2: 3, 3: 1}
            assert headwater.epoch("visit_rank") == 1
            shutil.rmtree(query.checkpoint)
            with pytest.raises(Exception, match="old checkpoint"):
                query.run(headwater)
            assert ranks(headwater) == {4: 1, 1: 2, 2: 3, 3: 1}

    def test_a_batch_from_a_thread_of_the_function_is_refused(
        self, spark: SparkSession, tmp_path: Path, config: Path
    ) -> None:
        query = Query(spark, tmp_path)
        query.give("a.json", ("x", 1, "09:00"))
        with Headwater.from_config(config) as headwater, ThreadPoolExecutor(1) as pool:
            query.run(headwater)
            query.give("b.json", ("x", 2, "10:00"))
            function = headwater.foreach_batch("visit_rank")
            with pytest.raises(Exception, match=r"from no known query, .* not in one of your own"):
                query.run_function(lambda rows, batch: pool.submit(function, rows, batch).result())
            query.run(headwater)
            assert ranks(headwater) == {1: 1, 2: 2}

    def test_a_query_that_pushes_is_refused_with_a_new_checkpoint(
        self, spark: SparkSession, tmp_path: Path, config: Path
    ) -> None:
        query = Query(spark, tmp_path)
        query.give("a.json", ("x", 1, "09:00"))
        query.give("b.json", ("x", 2, "10:00"))
        with Headwater.from_config(config) as headwater:
            query.push(headwater)
            shutil.rmtree(query.checkpoint / "commits")  # as if it had died right after the last batch, which repeats
            query.push(headwater)
            assert ranks(headwater) == {1: 1, 2: 2}
            shutil.rmtree(query.checkpoint)
            query.give("c.json", ("x", 3, "08:00"))
            with pytest.raises(Exception, match=r"pushes number 0, which query .* has pushed"):
                query.push(headwater)
            assert ranks(headwater) == {1: 1, 2: 2}
            assert headwater.epoch("visit_rank") == 1

    @pytest.mark.parametrize(
        ("by", "behind", "message"),
        [("run", 1, "planned batch 2 a second time"), ("push", 2, "goes back to batch 1, .* up to 2")],
    )
    def test_a_query_with_an_older_checkpoint_is_refused(
        self, by: str, behind: int, message: str, spark: SparkSession, config: Path
    ) -> None:
        query, copies = Query(spark, config.parent), [config.with_name(f"copy-{number}") for number in range(3)]
        with Headwater.from_config(config) as headwater:
            feed = partial(getattr(query, by), headwater)
            for visit, copy in enumerate(copies, 1):
                query.give(f"{visit}.json", ("x", visit, f"09:0{visit}"))
                feed()
                shutil.copytree(query.checkpoint, copy)
            shutil.rmtree(query.checkpoint / "commits")  # as if it had died right after the last batch, which repeats
            feed()
            shutil.rmtree(query.checkpoint)
            shutil.copytree(copies[-1 - behind], query.checkpoint)
            query.give("4.json", ("x", 4, "09:04"))
            with pytest.raises(Exception, match=message):
                feed()
            shutil.rmtree(query.checkpoint)
            shutil.copytree(copies[-1], query.checkpoint)  # the remedy
            feed()
            assert ranks(headwater) == {1: 1, 2: 2, 3: 3, 4: 4}

    def test_a_query_that_pushes_after_the_program_is_not_taken_for_a_repeat(
        self, spark: SparkSession, tmp_path: Path, config: Path
    ) -> None:
        query = Query(spark, tmp_path)
        query.give("a.json", ("x", 3, "09:00"))
        rows = spark.range(1, 3).selectExpr("'x' page", "id visit", f"{AT} at")
        with Headwater.from_config(config) as headwater:
            headwater.push("visits", rows.limit(1))
            headwater.push("visits", rows.filter("visit = 2"))
            with pytest.raises(Exception, match=r"pushes number 0, but frames up to 1 were pushed.* number=batch \+ 2"):
                query.push(headwater)
            query.push(headwater, 2)
            assert ranks(headwater) == {1: 1, 2: 1, 3: 1}

    def test_a_repeated_batch_is_passed_over_and_a_wrong_one_refused(self, spark: SparkSession, config: Path) -> None:
        rows = spark.range(1, 3).selectExpr("'x' page", "id visit", "timestamp '2024-03-01 09:00:00' at")
        with Headwater.from_config(config) as headwater:
            epoch = headwater.foreach_batch("visit_rank")
            epoch(rows, 0)
            epoch(rows, 0)
            assert headwater.epoch("visit_rank") == 0
            assert ranks(headwater) == {1: 1, 2: 1}
            with pytest.raises(BadInput, match="column 'page' is missing"):
                epoch(rows.drop("page"), 1)

    def test_a_repeated_batch_moves_no_watermark_by_the_clock(self, spark: SparkSession, config: Path) -> None:
        windows = 'service = "cumulate"\nstep = "5m"\nticks = "dense"\nmeasures = { visits = "count(*)" }\n'
        text = CONFIG[: CONFIG.index("service =")] + windows + 'source = "visits"\n'
        config.write_text(text.replace("[pipelines", 'event_time = "at"\nidle_after = "1ms"\n[pipelines'))
        frame = spark.sql(f"SELECT 'x' AS page, 1L AS visit, {AT} AS at")
        with Headwater.from_config(config) as headwater:
            epoch = headwater.foreach_batch("visit_rank")
            epoch(frame, 0)
            time.sleep(0.01)  # longer than `idle_after`
            epoch(frame, 0)
            assert headwater.epoch("visit_rank") == 0
            epoch(spark.sql(f"SELECT 'x' AS page, 2L AS visit, {AT} + INTERVAL 1 HOUR AS at"), 1)
            (newest,) = headwater.view("visit_rank.ticks").orderBy("tick", ascending=False).limit(1).collect()
            assert newest["visits"] == 1
            assert headwater.view("visit_rank.dead_letters").count() == 0
            headwater.run(until_idle=True)
            assert headwater.epoch("visit_rank") > 1

    @on_both
    def test_a_batch_that_is_repeated_after_a_crash_has_the_rows_of_one_try(
        self, engine: str, spark: SparkSession, config: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_engine(config, engine)
        tries = [spark.range(4).selectExpr(f"'{page}' page", "id visit", f"{AT} at") for page in "ab"]
        fail_once(monkeypatch, engine, KeyboardInterrupt())
        with Headwater.from_config(config) as headwater, pytest.raises(KeyboardInterrupt):
            headwater.foreach_batch("visit_rank")(tries[0], 0)
        with Headwater.from_config(config) as headwater:
            headwater.foreach_batch("visit_rank")(tries[1], 0)
            assert ranks(headwater) == dict.fromkeys(range(4), 1)
            for table in ("visit_rank.ranked", "visit_rank.cells"):
                assert [row["page"] for row in headwater.view(table).select("page").distinct().collect()] == ["b"]

    @on_both
    def test_a_batch_whose_failure_the_program_hides_is_not_left_out(
        self, engine: str, spark: SparkSession, config: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        set_engine(config, engine)
        rows = spark.range(4).selectExpr("'x' page", "id visit", f"{AT} at")
        fail_once(monkeypatch, engine, KeyboardInterrupt())
        with Headwater.from_config(config) as headwater:
            epoch = headwater.foreach_batch("visit_rank")
            with pytest.raises(KeyboardInterrupt):
                epoch(rows, 0)
            with pytest.raises(SourceChanged, match="hands over batch 1, but batch 0 has failed"):
                epoch(rows, 1)
            epoch(rows, 0)
            assert ranks(headwater) == dict.fromkeys(range(4), 1)

    @pytest.mark.parametrize(
        ("by", "engine"), [("push", "spark"), ("push", "auto"), ("foreach_batch", "spark"), ("foreach_batch", "auto")]
    )
    def test_a_frame_that_differs_at_each_try_has_the_rows_of_one(
        self, by: str, engine: str, spark: SparkSession, config: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tries = config.parent / "tries"
        tries.write_text("")

        def minute(_: int) -> int:
            with tries.open("a") as file:
                return file.write("x") + tries.stat().st_size

        minute_now = udf(minute, "int").asNondeterministic()
        rows = (
            spark.range(1).withColumn("minute", minute_now("id")).selectExpr("'x' page", "id visit", f"{AT_MINUTE} at")
        )
        fail_once(monkeypatch, engine, StoreUnavailable("the disk is away"))
        config.write_text(CONFIG + '[run]\nretries = 1\nretry_wait = "10ms"\n')
        set_engine(config, engine)
        with Headwater.from_config(config) as headwater:
            if by == "push":
                headwater.push("visits", rows, number=0)
            else:
                headwater.foreach_batch("visit_rank")(rows, 0)
            assert tries.stat().st_size > 1
            (ranked,) = headwater.view("visit_rank.ranked").collect()
            (cell,) = headwater.view("visit_rank.cells").collect()
            assert cell["_newest"] == ranked["at"]


def test_memory_has_no_frames_of_spark(config: Path) -> None:
    config.write_text(CONFIG.replace('"delta"', '"memory"'))
    with Headwater.from_config(config) as headwater, pytest.raises(NotSupported, match="or compute on Spark"):
        headwater.foreach_batch("visit_rank")


def test_a_source_that_is_read_by_headwater(config: Path) -> None:
    files = CONFIG.replace('kind = "stream"', 'kind = "files"\npath = "in"').replace('"delta"', '"memory"')
    config.write_text(files)
    with Headwater.from_config(config) as headwater, pytest.raises(ConfigError, match='kind = "stream"'):
        headwater.foreach_batch("visit_rank")
