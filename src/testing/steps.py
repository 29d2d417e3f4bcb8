"""A pytest plugin with fixtures and pytest-bdd steps, to specify a user's deployment in plain words.

To load it, write ``pytest_plugins = ["headwater.testing.steps"]`` in the conftest.py at the root of the tests. A
scenario runs on the backend that the option ``--headwater-backend`` names (default: memory). A conftest.py may override
this with its own fixture `headwater_backend`, which returns a backend's name. If that fixture has `params` and
`autouse=True`, each scenario runs on each of these backends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date, timedelta
from pathlib import Path

import pytest
from pytest_bdd import given, parsers, step, then, when

from ..app.api import Headwater
from ..domain.duration import parse_duration
from ..domain.errors import ConfigError
from ..domain.ledger.upkeep import Pin
from .expected import crashing, failing_with, missing, utc
from .failing_store import Fault
from .tables import Table
from .trial import Trial

pytest_plugins = ["headwater.testing.rebuild_steps", "headwater.testing.view_steps"]

_MOMENTS = {
    "before the first commit": Fault(before=True, commit=1),
    "after the first commit": Fault(before=False, commit=1),
    "before the publication": Fault(before=True),
    "after the publication": Fault(before=False),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the backend."""
    parser.addoption(
        "--headwater-backend", default="memory", metavar="NAME", help="the backend that Headwater's scenarios run on"
    )


@pytest.fixture
def headwater_backend(request: pytest.FixtureRequest) -> str:
    """The name of the backend that a scenario runs on."""
    return str(request.config.getoption("--headwater-backend"))


@pytest.fixture
def headwater_folder(request: pytest.FixtureRequest) -> Path:
    """The folder to which the paths of deployment files in scenarios are relative: that of the test module."""
    return request.path.parent


@pytest.fixture(scope="session")
def headwater_exits() -> Iterator[ExitStack]:
    """Closes all deployments after the last test, because engines that start slowly are shared by all tests."""
    with ExitStack() as exits:
        yield exits


@pytest.fixture
def headwater_trial(headwater_backend: str, headwater_exits: ExitStack, tmp_path: Path) -> Trial:
    """The deployment that a scenario is about."""
    return Trial(tmp_path, headwater_backend, headwater_exits)


headwater_pin = missing("Given a reader leases PIPELINE")
headwater_second = missing("Given a second run has opened PIPELINE")


# ---- the deployment


@given(parsers.parse("the deployment {file:S}"))
def deployment_file(headwater_trial: Trial, headwater_folder: Path, file: str) -> None:
    headwater_trial.deploy((headwater_folder / file).read_text(encoding="utf-8"))


@given("the deployment")
def deployment_text(headwater_trial: Trial, docstring: str) -> None:
    headwater_trial.deploy(docstring)


@given(parsers.parse("the file {name:S}"))
@when(parsers.parse("the file {name:S} is"))
def write_file(headwater_trial: Trial, name: str, docstring: str) -> None:
    """Write a file into the deployment's folder, such as a user-supplied table."""
    (headwater_trial.folder / name).write_text(docstring + "\n", encoding="utf-8")


@step(parsers.parse("the setting {key:S} = {value}"))
def setting(headwater_trial: Trial, key: str, value: str) -> None:
    headwater_trial.set(key, value)


@step(parsers.parse("the setting {key:S} is taken out"))
def setting_taken_out(headwater_trial: Trial, key: str) -> None:
    headwater_trial.unset(key)


# ---- what arrives, and runs


@step(parsers.parse("these rows arrive at {source:S}"))
def rows_arrive(headwater_trial: Trial, source: str, datatable: Table) -> None:
    headwater_trial.feed_table(source, datatable)


@step(parsers.parse("these lines arrive at {source:S}"))
def lines_arrive(headwater_trial: Trial, source: str, docstring: str) -> None:
    headwater_trial.feed(source, docstring.splitlines())


@step(parsers.parse("the last record of {source:S} is gone"))
def record_is_gone(headwater_trial: Trial, source: str) -> None:
    headwater_trial.lose_last_record(source)


@step(parsers.parse("an epoch of {source:S} brings"))
def epoch_brings(headwater_trial: Trial, source: str, datatable: Table) -> None:
    headwater_trial.feed_table(source, datatable)
    headwater_trial.run()


@step("all pipelines run until idle")
def all_run(headwater_trial: Trial) -> None:
    headwater_trial.run()


@step(parsers.parse("{pipeline:S} runs until idle"))
def one_runs(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.run([pipeline])


@step(parsers.parse("{pipeline:S} runs one epoch"))
def one_epoch(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.advance(pipeline)


@when(parsers.re(rf"(?P<pipeline>\S+) crashes (?P<moment>{'|'.join(_MOMENTS)})"))
def crashes(headwater_trial: Trial, pipeline: str, moment: str) -> None:
    with crashing():
        headwater_trial.run([pipeline], fault=_MOMENTS[moment])


@then(parsers.parse("running {pipeline:S} fails with {name:S}"))
def running_fails(headwater_trial: Trial, pipeline: str, name: str) -> None:
    with failing_with(name):
        headwater_trial.run([pipeline])


@step(parsers.parse("the clock shows {moment}"))
def clock_shows(headwater_trial: Trial, moment: str) -> None:
    headwater_trial.clock.moment = utc(moment)


@when(parsers.parse("{pipeline:S} runs until idle on a store that cannot be reached once"))
def runs_through_a_fault(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.run([pipeline], fault=Fault(before=True, passing=True))


@when(parsers.parse("the tables of {pipeline:S} are compacted"))
def compacted(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.compact(pipeline)


@when(parsers.parse("{pipeline:S} runs until idle while its tables are compacted beside it"))
def runs_beside_compaction(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.run_beside_compaction(pipeline)


@when(parsers.parse("{pipeline:S} is cut at {day:S}"))
def is_cut(headwater_trial: Trial, pipeline: str, day: str) -> None:
    headwater_trial.roll(pipeline, date.fromisoformat(day))


@when(parsers.parse("{duration:S} passes"))
def time_passes(headwater_trial: Trial, duration: str) -> None:
    if (span := parse_duration(duration)) <= timedelta():
        raise ConfigError(f"{duration!r} passes: the clock only goes forward; give a duration such as 10m or 1d")
    headwater_trial.clock.sleep(span)


@when(parsers.parse("the dead letters of {pipeline:S} are read again"))
def replayed(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.open().replay(pipeline)


@when(parsers.re(rf"reading the dead letters of (?P<pipeline>\S+) again crashes (?P<moment>{'|'.join(_MOMENTS)})"))
def replay_crashes(headwater_trial: Trial, pipeline: str, moment: str) -> None:
    with crashing():
        headwater_trial.open(fault=_MOMENTS[moment]).replay(pipeline)


@when(parsers.parse("{pipeline:S} expires its old versions"))
@when(parsers.parse("{pipeline:S} gives up its past"))
def expires(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.open().upkeep(pipeline).expire(dry_run=False)


@given(parsers.parse("a reader leases {pipeline:S}"), target_fixture="headwater_pin")
def reader_leases(headwater_trial: Trial, pipeline: str) -> Pin:
    return headwater_trial.open().pin(pipeline, hold=timedelta(hours=1), holder="a reader")


@when("the reader releases its lease")
@when("the reader gives its lease back")
def lease_ends(headwater_pin: Pin) -> None:
    headwater_pin.release()


# ---- history, loaded before the stream


@given(parsers.parse("a file of the history of {source:S}"))
@when(parsers.parse("a file comes into the history of {source:S}"))
def history_file(headwater_trial: Trial, source: str, datatable: Table) -> None:
    headwater_trial.remember(source, datatable)


@given(parsers.parse("a chunk of {pipeline:S}"))
@when(parsers.parse("a chunk of {pipeline:S} is"))
def chunk(headwater_trial: Trial, pipeline: str, datatable: Table) -> None:
    """Write one chunk of a pipeline's bulk load; the pipeline must load JSON files."""
    headwater_trial.fill(pipeline, datatable)


@when(parsers.parse("the first chunk of {pipeline:S} is removed, and another one comes in its place"))
def chunk_replaced(headwater_trial: Trial, pipeline: str, datatable: Table) -> None:
    headwater_trial.replace_first_chunk(pipeline, datatable)


@step(parsers.parse("the history of {pipeline:S} is loaded"))
def history_loaded(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.load(pipeline)


@when(parsers.parse("the history of {pipeline:S} is loaded, its stream from now"))
def history_loaded_from_now(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.load(pipeline, stream_from="now")


@when(parsers.parse("loading the history of {pipeline:S} crashes after commit {number:d}"))
def history_crashes(headwater_trial: Trial, pipeline: str, number: int) -> None:
    with crashing():
        headwater_trial.load(pipeline, fault=Fault(before=False, commit=number))


@then(parsers.re(r"loading the history of (?P<pipeline>\S+) fails with (?P<name>\S+): (?P<words>.+)"))
def history_refused(headwater_trial: Trial, pipeline: str, name: str, words: str) -> None:
    with failing_with(name, words):
        headwater_trial.load(pipeline)


@then(parsers.re(r"running (?P<pipeline>\S+) fails with (?P<name>\S+): (?P<words>.+)"))
def run_refused(headwater_trial: Trial, pipeline: str, name: str, words: str) -> None:
    with failing_with(name, words):
        headwater_trial.run([pipeline])


@then(parsers.parse("{pipeline:S} cannot run: {reason}"))
def cannot_run(headwater_trial: Trial, pipeline: str, reason: str) -> None:
    """The deployment is refused with a `ConfigError` whose message contains the reason."""
    with pytest.raises(ConfigError) as caught:
        headwater_trial.run([pipeline])
    assert reason in str(caught.value)


# ---- a second writer


@given(parsers.parse("a second run has opened {pipeline:S}"), target_fixture="headwater_second")
def second_opens(headwater_trial: Trial, pipeline: str) -> Headwater:
    second = headwater_trial.open()
    second.epoch(pipeline)
    return second


@then(parsers.parse("the second run fails with {name:S}"))
def second_fails(headwater_second: Headwater, name: str) -> None:
    with failing_with(name):
        headwater_second.run(until_idle=True)
