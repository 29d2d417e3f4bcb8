"""The backends on which the feature files run. Their steps are those of `headwater.testing.steps`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from attrs import frozen
from pytest_bdd import given, parsers, then, when

from headwater.app.run.auto import AutoRunner
from headwater.testing.failing_store import Crash, Fault
from tests.failing_sink import FailingSink
from tests.kafka_reading import committed, replica
from tests.spark_fixtures import compact_few_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headwater.app.run.runner import Runner
    from headwater.testing.kafka_broker import KafkaBroker
    from headwater.testing.tables import Table
    from headwater.testing.trial import Trial
    from tests.kafka_reading import Found, Row

_PUBLISHING = {
    "before it publishes to the topic": Fault(before=True, commit=1),
    "right after the topic's commit": Fault(before=False, commit=1),
}


_BYTES = 60_000
"""What an epoch may hold on the local engine, with engine ``auto``; a file of a few rows counts as about 10,000."""


BACKENDS = [
    "memory",
    pytest.param("parquet", marks=pytest.mark.example),
    pytest.param("delta:local", marks=pytest.mark.local),
    pytest.param("delta", marks=pytest.mark.delta),
    pytest.param("delta:auto", marks=[pytest.mark.delta, pytest.mark.further]),
    pytest.param("hudi-mor:local", marks=pytest.mark.hudi),
    pytest.param("hudi-cow:local", marks=[pytest.mark.hudi, pytest.mark.slow]),
    pytest.param("hudi-mor", marks=[pytest.mark.hudi, pytest.mark.further]),
    pytest.param("hudi-mor:auto", marks=[pytest.mark.hudi, pytest.mark.slow]),
    pytest.param("hudi-cow", marks=[pytest.mark.hudi, pytest.mark.slow]),
]
CORE_ONLY = {"parquet", "hudi-mor", "hudi-mor:auto", "hudi-cow"}
"""Their engine runs all scenarios on Delta, and their store on the local engine: what is left is that they fit."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Drop what core scenarios cover, and mark all but the last example on Delta and Hudi as further.

    That holds for scenarios, and for other tests with parameters, each in its class. Slow ones do not count: they are
    further anyway.
    """
    items[:] = [each for each in items if _backend_of(each) not in CORE_ONLY or each.get_closest_marker("core")]
    seen: set[tuple[str, str]] = set()
    for item in reversed(items):
        if not isinstance(item, pytest.Function) or not hasattr(item, "callspec") or item.get_closest_marker("slow"):
            continue
        scenario = (item.nodeid.partition("[")[0], str(_backend_of(item)))
        if scenario in seen and _needs_one_example(item):
            item.add_marker("further")
        seen.add(scenario)


def _needs_one_example(item: pytest.Function) -> bool:
    """Without Spark, a crash is tried at each moment; other examples are about rows and settings, as on memory."""
    marks = {mark.name for mark in item.iter_markers()}
    crashes = "faults" in marks or "moment" in item.callspec.params.get("_pytest_bdd_example", {})
    return bool(marks & {"delta", "hudi"}) or ({"local", "scenario"} <= marks and not crashes)


def _backend_of(item: pytest.Item) -> str | None:
    return item.callspec.params.get("headwater_backend") if hasattr(item, "callspec") else None


@frozen
class Topic:
    """A topic of a real broker, which the ranks are published to."""

    broker: KafkaBroker
    name: str

    def records(self) -> list[Found]:
        """What readers of completed transactions find in it."""
        return committed(self.broker, self.name)


@pytest.fixture(params=BACKENDS, autouse=True)
def headwater_backend(request: pytest.FixtureRequest) -> str:
    """Every backend in turn."""
    if request.param == "parquet":
        request.getfixturevalue("parquet_backend")
    return request.param


@pytest.fixture
def headwater_trial(request: pytest.FixtureRequest, headwater_backend: str, headwater_trial: Trial) -> Trial:
    """The deployment that a scenario is about, in the program of all tests where it needs one."""
    name, _, engine = headwater_backend.partition(":")
    if name.startswith("hudi") or (name == "delta" and engine != "local"):
        request.getfixturevalue("program_session")
        headwater_trial.prepare = _prepare_auto if engine == "auto" else compact_few_files
    return headwater_trial


def _prepare_auto(runner: Runner) -> None:
    """Let the first epochs of a scenario run on one engine, and those after them on the other."""
    compact_few_files(runner)
    if isinstance(runner, AutoRunner):
        runner.limit = _BYTES


# ---- what becomes of a batch stage between a crash and the next run


@when("the tags are all blue")
def _(headwater_trial: Trial) -> None:
    (headwater_trial.folder / "tags.csv").write_text("project,tag\n1,blue\n", encoding="utf-8")


@when("the queries call all tags blue")
def _(headwater_trial: Trial) -> None:
    headwater_trial.set("pipelines.tagged.tables.projects", "\"SELECT project, 'blue' AS tag FROM tags\"")
    counts = "\"SELECT 'blue' AS tag, count(*) AS projects FROM tags\""
    headwater_trial.set("pipelines.tagged.tables.counts", counts)


# ---- a topic that a view is published to


@given("the ranks are published to a topic", target_fixture="topic")
@when("the ranks are published to a topic from now on", target_fixture="topic")
def _(headwater_trial: Trial, kafka: KafkaBroker) -> Topic:
    topic = Topic(kafka, f"ranks-{uuid4().hex[:8]}")
    kafka.create_topic(topic.name, partitions=2)
    _publish(headwater_trial, topic)
    return topic


@when(parsers.parse("contract_rank publishes to the same topic with {setting}"))
def _(headwater_trial: Trial, topic: Topic, setting: str) -> None:
    _publish(headwater_trial, topic, f", {setting}")


def _publish(trial: Trial, topic: Topic, more: str = "") -> None:
    where = f'servers = "{topic.broker.servers}", topic = "{topic.name}"'
    trial.set("pipelines.contract_rank.publish", f"{{ {where}{more} }}")


@when(parsers.re(rf"contract_rank crashes (?P<moment>{'|'.join(_PUBLISHING)})"))
def _(headwater_trial: Trial, moment: str) -> None:
    with pytest.raises(Crash):
        _run_publishing(headwater_trial, _PUBLISHING[moment])


@when("contract_rank runs until idle on a topic that cannot be reached once")
def _(headwater_trial: Trial) -> None:
    _run_publishing(headwater_trial, Fault(before=True, commit=1, passing=True))


def _run_publishing(trial: Trial, fault: Fault) -> None:
    """Run with a sink that has this fault."""
    deployment = trial.open()
    (runner,) = deployment.start(["contract_rank"])
    assert runner.publisher is not None
    runner.publisher.sink = FailingSink(runner.publisher.sink, fault)
    deployment.run(until_idle=True)


@then("a consumer of the topic has these rows")
def _(topic: Topic, datatable: Table) -> None:
    assert _shown(replica(topic.records()), datatable) == sorted(map(tuple, datatable[1:]))


@then("the topic has these records")
def _(topic: Topic, datatable: Table) -> None:
    values = [found.value for found in topic.records() if found.value is not None]
    assert _shown(values, datatable) == sorted(map(tuple, datatable[1:]))


def _shown(rows: Iterable[Row], table: Table) -> list[tuple[str, ...]]:
    """The fields of a topic's rows that a scenario's table names, as it writes them."""
    return sorted(tuple(str(row[name]) for name in table[0]) for row in rows)
