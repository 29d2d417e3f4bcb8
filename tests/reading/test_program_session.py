"""A program's Spark session may be set up as it likes: Headwater answers as in memory, and leaves the session alone."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.pandas.functions import pandas_udf

from headwater import Headwater
from headwater.adapters.spark.own_session import working_in
from tests.configurations import on_backend
from tests.spark_fixtures import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

CHANGES = """
[backend]
{backend}
compact_every = 1
[sources.orders]
kind = "files"
path = "in"
format = "maxwell-json"
schema = "id bigint, state string, m timestamp"
key = ["id"]
event_time = "m"
[pipelines.by_day]
service = "retraction"
source = "orders"
group = ["state"]
measures = {{ n = "count(*)", late = {{ measure = "count(*)", where = "hour(m) >= 3" }} }}
updated_at = "m"
[pipelines.at_hand]
service = "snapshots"
inputs = {{ days = "by_day" }}
every = "1m"
[pipelines.at_hand.tables]
days = "SELECT *, hour(timestamp '2024-03-02 03:30:00') AS hour, to_date('2024-03-02 23:00:00') AS cut FROM days"
odd = "SELECT CAST('x' AS int) AS none, 'a' AS A_, STATE FROM days"
"""
MESSAGES = [
    {"type": "insert", "data": {"id": 1, "state": "paid", "m": "2024-03-02 01:00:00"}},
    {"type": "insert", "data": {"id": 2, "state": "paid", "m": "2024-03-02 03:30:00"}},
    {
        "type": "update",
        "data": {"id": 1, "state": "sent", "m": "2024-03-02 23:59:00"},
        "old": {"state": "paid", "m": "2024-03-02 01:00:00"},
    },
]
VISITS = """
[backend]
name = "delta"
path = "lake"
[backend.spark]
"spark.sql.shuffle.partitions" = "3"
"spark.driver.memory" = "9g"
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
MOMENT = datetime(1890, 3, 2, 1, 0, tzinfo=UTC)


def settings(session: SparkSession) -> dict[str, str]:
    pairs = session._jsparkSession.conf().getAll().mkString("\x1e").split("\x1e")
    return dict(each.split(" -> ", 1) for each in pairs)


def active(session: SparkSession) -> Any:
    return session._jvm.org.apache.spark.sql.SparkSession.getActiveSession().get()


@pytest.fixture
def hostile(program_session: SparkSession) -> Iterator[SparkSession]:
    """A session of the program's that changes answers, active as the one that a program has made last."""
    session = program_session.newSession()
    for name, value in HOSTILE.items():
        session.conf.set(name, value)
    with working_in(session, program_session):
        session.createDataFrame([(1,)], "x int")
        before = settings(session)
        yield session
        assert settings(session) == before
        assert active(session).equals(session._jsparkSession)


def answers(folder: Path, backend: str) -> dict[str, list[Any]]:
    """The rows of every view, run to the end."""
    (folder / f"{backend}.toml").write_text(CHANGES.format(backend=on_backend(backend, backend)))
    with Headwater.from_config(folder / f"{backend}.toml", report=lambda _: None) as headwater:
        headwater.run(until_idle=True)
        found = {}
        for view in ("by_day", "by_day.deltas", "at_hand.days", "at_hand.odd", "by_day.dead_letters"):
            answer = headwater.answer(view)
            with answer.engine.working():
                found[view] = sorted(map(repr, answer.frame.collect("pyarrow").to_arrow().to_pylist()))
        return found


@pytest.mark.delta
@pytest.mark.contract
@pytest.mark.usefixtures("hostile")
class TestAnotherMind:
    def test_days_conditions_and_versions_are_those_of_memory(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        for number, message in enumerate(MESSAGES):
            full = {"database": "shop", "table": "orders", "ts": 1709340000 + number, **message}
            (tmp_path / "in" / f"{number}.json").write_text(json.dumps(full) + "\n")
        on_delta = answers(tmp_path, "delta")
        assert on_delta == answers(tmp_path, "memory")
        assert "2024, 3, 2" in on_delta["by_day.deltas"][0]

    def test_batches_of_the_session_come_in_and_views_go_out_to_it(
        self, hostile: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "deploy.toml").write_text(VISITS)
        rows = hostile.sql("SELECT 'x' page, 1L visit, timestamp_ltz '1890-03-02 01:00:00Z' at")
        with caplog.at_level(logging.WARNING), Headwater.from_config(tmp_path / "deploy.toml") as headwater:
            headwater.foreach_batch("visit_rank")(rows, 0)
            view = headwater.view("visit_rank")
        assert "\"spark.driver.memory\" = '9g' (it runs with '2g')" in caplog.text
        assert "shuffle" not in caplog.text
        (row,) = view.selectExpr("unix_micros(at) AS micros", "hour(at) AS hour").collect()
        assert row["micros"] == round(MOMENT.timestamp()) * 1_000_000
        assert row["hour"] == 20  # as the program's own zone has it
        view.createOrReplaceTempView("visits")
        assert hostile.sql("SELECT page FROM visits").collect()[0]["page"] == "x"

    def test_python_functions_of_a_frame_run_with_the_settings_of_the_session(
        self, hostile: SparkSession, tmp_path: Path
    ) -> None:
        pytest.importorskip("pandas", reason="the extra dev is not installed")
        (tmp_path / "deploy.toml").write_text(VISITS)
        hour: Any = pandas_udf(lambda times: times.dt.hour.astype("int64"), "bigint")  # type: ignore[call-overload]

        def hours(batches: Iterable[Any]) -> Iterator[Any]:
            for batch in batches:
                yield batch.assign(visit=100 + batch["at"].dt.hour.astype("int64"))

        rows = hostile.sql("SELECT 'x' page, 1L visit, timestamp_ltz '2024-03-02 01:00:00Z' at")
        with Headwater.from_config(tmp_path / "deploy.toml") as headwater:
            headwater.foreach_batch("visit_rank")(rows.withColumn("visit", hour("at")), 0)
            mapped = rows.mapInPandas(hours, "page string, visit bigint, at timestamp_ltz").orderBy("visit")
            headwater.foreach_batch("visit_rank")(mapped, 1)
            found = headwater.view("visit_rank").selectExpr("visit", "unix_seconds(at) at").collect()
        assert {row["visit"] for row in found} == {20, 120}
        assert {row["at"] for row in found} == {1709341200}
