"""Epochs on two engines over one set of tables, as `backend.engine = "auto"` runs them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, cast

import narwhals as nw
import pytest
from attrs import evolve
from pyspark.sql.functions import lit, udf

from headwater import Headwater
from headwater.app.run.auto import AutoRunner
from headwater.testing.failing_store import Crash, Fault
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.app.run.report import EpochReport
    from headwater.app.run.runner import Runner

pytestmark = [pytest.mark.delta, pytest.mark.contract]

STREAM = 'kind = "stream"\n'
NEVER, ALWAYS = 1, 10**12
DEPLOYMENT = """
[backend]
name = "memory"
compact_every = 3
[sources.orders]
kind = "files"
path = "in"
schema = "id bigint, shop string, day timestamp, amount decimal(12,2)"
event_time = "day"
[pipelines.ranked]
service = "ranking"
source = "orders"
group = ["shop"]
id = ["id"]
order_by = "day"
materialize = ["ranks"]
[pipelines.sums]
service = "retraction"
source = "orders"
group = ["shop"]
measures = { orders = "count(*)", amount = "sum(amount)", most = "max(amount)", ids = "count(distinct id)" }
updated_at = "day"
[pipelines.curve]
service = "cumulate"
source = "orders"
step = "6h"
size = "1d"
dimensions = [["shop"], []]
measures = { amount = "sum(amount)", visitors = "count(distinct id)" }
late = "revise"
[pipelines.joined]
service = "materialized_view"
inputs = { ranks = "ranked.ranks", sums = "sums.totals" }
key = ["id"]
sql = "SELECT ranks.id, ranks.rank, sums.amount FROM ranks JOIN sums ON sums.shop = ranks.shop"
align = "newest"
"""
PIPELINES = ["ranked", "sums", "curve", "joined"]
SHOWN = {
    "ranked.ranks": ["shop", "id", "rank"],
    "sums.totals": ["shop", "orders", "amount", "most", "ids"],
    "curve.ticks": ["shop", "amount", "visitors"],
    "joined.rows": ["id", "rank", "amount"],
    "ranked.dead_letters": ["epoch", "raw"],
}


def order(random: Random) -> str:
    if random.random() < 0.05:
        return '{"id": "x"}'
    day = f"2024-03-{random.randint(1, 3):02}T{random.randint(0, 23):02}:00:00Z"
    amount = f"{random.randint(0, 9999) / 100:.2f}"
    return json.dumps({"id": random.randint(1, 60), "shop": random.choice("abc"), "day": day, "amount": amount})


def shown(trial: Trial) -> dict[str, list[tuple[Any, ...]]]:
    opened, found = trial.open(), {}
    for view, columns in SHOWN.items():
        rows: nw.LazyFrame[Any] = nw.from_native(opened.view(view)).lazy()
        found[view] = sorted(rows.select(*columns).collect(backend="polars").rows(), key=repr)
    return found


@pytest.fixture
def exits() -> Iterator[ExitStack]:
    with ExitStack() as exits:
        yield exits


def trial_on(folder: Path, backend: str, exits: ExitStack) -> Trial:
    folder.mkdir()
    trial = Trial(folder, backend, exits)
    trial.deploy(DEPLOYMENT)
    return trial


@pytest.mark.usefixtures("program_session")
@pytest.mark.parametrize(
    ("backend", "pipelines", "epochs"),
    [
        ("delta:auto", ["ranked"], 3),
        pytest.param("delta:auto", PIPELINES, 20, marks=pytest.mark.slow),
        pytest.param("hudi-mor:auto", PIPELINES, 10, marks=[pytest.mark.hudi, pytest.mark.slow]),
        pytest.param("hudi-cow:auto", PIPELINES, 10, marks=[pytest.mark.hudi, pytest.mark.slow]),
    ],
)
def test_epochs_in_any_turn_make_the_same_tables(
    tmp_path: Path, exits: ExitStack, backend: str, pipelines: list[str], epochs: int
) -> None:
    """Each epoch on an engine by chance, some of them after a crash of the other one."""
    random = Random(1)
    mixed, alone = (
        trial_on(tmp_path / name, backend, exits) for name, backend in (("mixed", backend), ("alone", "memory"))
    )
    engines: set[str | None] = set()

    def turn(runner: Runner) -> None:
        if isinstance(runner, AutoRunner):
            runner.limit = random.choice([NEVER, ALWAYS])

    mixed.prepare = turn
    for number in range(epochs):
        lines = [order(random) for _ in range(20)]
        for trial in (mixed, alone):
            trial.feed("orders", lines)
        if random.random() < 0.5:
            with pytest.raises(Crash):
                mixed.run(pipelines, fault=Fault(before=False, commit=random.randint(1, 2)))
        mixed.run(pipelines)
        alone.run(pipelines)
        if number in {2, epochs - 1}:
            assert shown(mixed) == shown(alone)
        engines |= {each.engine for each in mixed.reader.status()}
    assert engines - {None} == {"local", "spark"}


@pytest.mark.usefixtures("program_session")
def test_a_step_that_grows_beyond_its_memory_is_done_again_on_spark(tmp_path: Path, exits: ExitStack) -> None:
    """The source is small; the limit is met by what the step reads of the tables."""
    trial = trial_on(tmp_path / "grown", "delta:auto", exits)
    random, limit = Random(7), ALWAYS

    def limited(runner: Runner) -> None:
        if isinstance(runner, AutoRunner):
            runner.limit = limit

    trial.prepare = limited
    found = []
    for limit in (ALWAYS, 30_000, ALWAYS):  # noqa: B007 - `limited` reads it
        trial.feed("orders", [order(random) for _ in range(20)])
        trial.run(["ranked"])
        found.append(next(each.engine for each in trial.open().status() if each.pipeline == "ranked"))
    assert found == ["local", "spark", "local"]


_WIDE = """
[backend]
name = "delta"
path = "lake"
engine = "auto"
[sources.contracts]
kind = "stream"
row_kind = "kind"
schema = '''
    project bigint, contract bigint, kind string, signed timestamp, day date, wall timestamp_ntz, price decimal(20,4),
    share double, name string, picture binary, tags array<string>, place struct<city string, at timestamp>
'''
[pipelines.ranked]
service = "ranking"
source = "contracts"
group = ["project"]
id = ["contract"]
order_by = "signed"
"""
_WIDE_ROWS = """
    SELECT id % 7 AS project, id AS contract, if(id % 11 = 5, 'wrong', if(id % 13 = 5, '-D', '+I')) AS kind,
        if(id % 17 = 3, NULL, timestamp_micros(1709283600000000 + id * 1234567)) AS signed,
        date_add(DATE '1969-12-30', CAST(id AS int)) AS day, timestamp_ntz '2024-03-31 02:30:00.000001' AS wall,
        CAST(id / 8 AS decimal(20,4)) AS price, if(id % 5 = 0, double('NaN'), -0.0D * id) AS share,
        if(id % 19 = 2, CAST(X'C328' AS string), concat('n\u00fc', id)) AS name, unhex('00ff') AS picture,
        if(id % 3 = 0, array(), array('a', NULL, CAST(id AS string))) AS tags,
        if(id % 4 = 0, NULL, struct('x' AS city, timestamp_micros(id) AS at)) AS place
"""


@pytest.mark.parametrize("by", ["foreach_batch", "push"])
def test_small_frames_of_spark_run_without_it(by: str, tmp_path: Path, program_session: SparkSession) -> None:
    """They have the same rows, and the same dead letters, as those that are too large for that."""
    ends = ((0, 0), (0, 40), (20, 300), (300, 301))
    batches = [program_session.sql(f"{_WIDE_ROWS} FROM range({low}, {high})") for low, high in ends]
    found, engines = [], []
    for limit in (2**30, 0):
        folder = tmp_path / str(limit)
        folder.mkdir()
        (folder / "deploy.toml").write_text(_WIDE)
        reports: list[EpochReport] = []
        with Headwater.from_config(folder / "deploy.toml", report=reports.append) as headwater:
            (runner,) = headwater.start()
            assert isinstance(runner, AutoRunner)
            runner.limit = limit
            epoch = headwater.foreach_batch("ranked") if by == "foreach_batch" else partial(_push, headwater)
            for number, batch in enumerate(batches):
                epoch(batch, number)
                epoch(batch, number)
            views = [
                nw.from_native(headwater.view(f"ranked.{each}")).lazy().collect("polars").to_native()
                for each in ("ranks", "dead_letters")
            ]
        engines.append({report.engine for report in reports})
        assert [report.epoch.number for report in reports] == [0, 1, 2, 3]
        found.append([sorted(map(repr, each.drop("epoch", "time", strict=False).rows())) for each in views])
    assert engines == [{"local"}, {"spark"}]
    assert found[0] == found[1]
    assert all(found[0])


def _push(headwater: Headwater, frame: Any, number: int) -> None:
    (source,) = headwater.deployment.sources
    headwater.push(source, frame, number=number)


@pytest.mark.parametrize("by", ["foreach_batch", "push"])
def test_a_frame_of_spark_is_computed_once(by: str, tmp_path: Path, program_session: SparkSession) -> None:
    """Also if it turns out to be too large for the local engine."""
    config = tmp_path / "deploy.toml"
    config.write_text(ranked_contracts(backend='name = "delta"\npath = "lake"\nengine = "auto"\n', source=STREAM))
    seen = program_session.sparkContext.accumulator(0)

    def count(contract: int) -> int:
        seen.add(1)
        return contract

    counted = udf(count, "bigint")
    with Headwater.from_config(config) as headwater:
        assert [each.engine for each in headwater.status()] == [None]
        (runner,) = headwater.start()
        rows = program_session.createDataFrame([(1, 11)], "project bigint, contract bigint")
        batch = rows.select(
            "project", counted("contract").alias("contract"), lit(datetime(2024, 3, 1, 9, tzinfo=UTC)).alias("signed")
        )
        epoch = headwater.foreach_batch("ranked") if by == "foreach_batch" else partial(_push, headwater)
        for number, limit in enumerate((2**30, 0)):
            cast("AutoRunner", runner).limit = limit
            epoch(batch, number)
            assert seen.value == number + 1
        assert [each.engine for each in headwater.status()] == ["spark"]
        assert headwater.view("ranked.ranks")["contract"].to_list() == [11]


def test_a_program_that_names_no_engine_gets_frames_of_spark(tmp_path: Path, program_session: SparkSession) -> None:
    """The epoch is run without Spark."""
    (tmp_path / "in").mkdir()
    row = {"project": 1, "contract": 11, "signed": "2024-03-01T09:00:00Z"}
    (tmp_path / "in" / "a.json").write_text(json.dumps(row))
    config = tmp_path / "deploy.toml"
    config.write_text(ranked_contracts(backend='name = "delta"\npath = "lake"\n'))
    reports: list[EpochReport] = []
    with Headwater.from_config(config, report=reports.append) as headwater, headwater.explaining():
        headwater.run(until_idle=True)
        assert [report.engine for report in reports] == ["local"]
        for frame in (headwater.view("ranked"), headwater.diff("ranked"), headwater.changes("ranked", after=-1)):
            assert type(frame).__module__.startswith("pyspark.")
            assert [each["contract"] for each in frame.collect()] == [11]
        assert headwater.answer("ranked").frame.collect("polars")["contract"].to_list() == [11]


@pytest.mark.usefixtures("program_session")
def test_a_lease_of_one_engine_is_kept_by_the_other(tmp_path: Path, exits: ExitStack) -> None:
    trial = trial_on(tmp_path / "leased", "delta:auto", exits)
    trial.set("backend.retain", "{ versions = 1 }")
    random = Random(7)
    trial.feed("orders", [order(random) for _ in range(5)])
    trial.run(["ranked"])
    (runner,) = trial.open().start(["ranked"])
    pin = trial.open().pin("ranked", at=0, hold="1h")
    for _ in range(2):
        trial.feed("orders", [order(random) for _ in range(5)])
        trial.run(["ranked"])
    large = runner.for_large()
    large.upkeep.expire(dry_run=False)
    assert large.keeper.leases("ranked.ranked") == runner.upkeep.keeper.leases("ranked.ranked")
    assert len(trial.open().view("ranked.ranks", at=0)) <= 5
    pin.release()
    large.upkeep.expire(dry_run=False)
    assert "0" in runner.keeper.expired("ranked.ranked")
    assert "0" in large.keeper.expired("ranked.ranked")


@pytest.mark.usefixtures("program_session")
def test_tables_are_moved_by_spark(tmp_path: Path, exits: ExitStack) -> None:
    trial = trial_on(tmp_path / "moved", "delta:auto", exits)
    trial.feed("orders", [order(Random(7)) for _ in range(5)])
    trial.run(["ranked"])
    backend = evolve(trial.deployment().backend, path=str(tmp_path / "there"))
    there = Headwater(evolve(trial.deployment(), backend=backend), report=lambda _report: None)
    exits.callback(there.close)
    assert list(trial.open().move(there)) == ["ranked"]
    (status,) = (each for each in there.status() if each.pipeline == "ranked")
    assert status.publication is not None
    assert (status.publication.epoch.number, status.engine) == (0, "spark")
    rows = [found.view("ranked.ranks").sort("id").rows() for found in (there, trial.open())]
    assert rows[0] == rows[1] != []
