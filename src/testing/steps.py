"""A pytest plugin with fixtures and pytest-bdd steps, to specify a user's deployment in plain words.

To load it, write ``pytest_plugins = ["headwater.testing.steps"]`` in the conftest.py at the root of the tests. A
scenario runs on the backend that the option ``--headwater-backend`` names (default: memory). A conftest.py may override
this with its own fixture `headwater_backend`, which returns a backend's name. If that fixture has `params` and
`autouse=True`, each scenario runs on each of these backends.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from attrs import frozen
from pytest_bdd import given, parsers, then, when

from ..domain.duration import parse_duration
from ..domain.errors import ConfigError, HeadwaterError, VersionExpired
from .failing_store import Crash, Fault
from .tables import assert_shows
from .trial import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import narwhals as nw

    from ..app.api import Answer, Headwater
    from ..domain.ledger.upkeep import Pin
    from ..domain.table.schema import Schema
    from .tables import Table

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


@frozen(eq=False)
class _Held:
    """Rows that a reader has asked for and not computed yet."""

    frame: nw.LazyFrame[Any]
    schema: Schema

    @classmethod
    def of(cls, answer: Answer) -> _Held:
        return cls(answer.frame, answer.view.schema)


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


@given(parsers.parse("the setting {key:S} = {value}"))
@when(parsers.parse("the setting {key:S} = {value}"))
def setting(headwater_trial: Trial, key: str, value: str) -> None:
    headwater_trial.set(key, value)


@given(parsers.parse("the setting {key:S} is taken out"))
@when(parsers.parse("the setting {key:S} is taken out"))
def setting_taken_out(headwater_trial: Trial, key: str) -> None:
    headwater_trial.unset(key)


# ---- what arrives, and runs


@given(parsers.parse("these rows arrive at {source:S}"))
@when(parsers.parse("these rows arrive at {source:S}"))
def rows_arrive(headwater_trial: Trial, source: str, datatable: Table) -> None:
    headwater_trial.feed_table(source, datatable)


@given(parsers.parse("these lines arrive at {source:S}"))
@when(parsers.parse("these lines arrive at {source:S}"))
def lines_arrive(headwater_trial: Trial, source: str, docstring: str) -> None:
    headwater_trial.feed(source, docstring.splitlines())


@given(parsers.parse("an epoch of {source:S} brings"))
@when(parsers.parse("an epoch of {source:S} brings"))
def epoch_brings(headwater_trial: Trial, source: str, datatable: Table) -> None:
    headwater_trial.feed_table(source, datatable)
    headwater_trial.run()


@given("all pipelines run until idle")
@when("all pipelines run until idle")
def all_run(headwater_trial: Trial) -> None:
    headwater_trial.run()


@given(parsers.parse("{pipeline:S} runs until idle"))
@when(parsers.parse("{pipeline:S} runs until idle"))
def one_runs(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.run([pipeline])


@given(parsers.parse("{pipeline:S} runs one epoch"))
@when(parsers.parse("{pipeline:S} runs one epoch"))
def one_epoch(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.advance(pipeline)


@when(parsers.re(rf"(?P<pipeline>\S+) crashes (?P<moment>{'|'.join(_MOMENTS)})"))
def crashes(headwater_trial: Trial, pipeline: str, moment: str) -> None:
    with pytest.raises(Crash):
        headwater_trial.run([pipeline], fault=_MOMENTS[moment])


@then(parsers.parse("running {pipeline:S} fails with {name:S}"))
def running_fails(headwater_trial: Trial, pipeline: str, name: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        headwater_trial.run([pipeline])
    assert type(caught.value).__name__ == name


@given(parsers.parse("the clock shows {moment}"))
@when(parsers.parse("the clock shows {moment}"))
def clock_shows(headwater_trial: Trial, moment: str) -> None:
    headwater_trial.clock.moment = _utc(moment)


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
    headwater_trial.clock.sleep(parse_duration(duration))


@when(parsers.parse("the dead letters of {pipeline:S} are read again"))
def replayed(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.open().replay(pipeline)


@when(parsers.re(rf"reading the dead letters of (?P<pipeline>\S+) again crashes (?P<moment>{'|'.join(_MOMENTS)})"))
def replay_crashes(headwater_trial: Trial, pipeline: str, moment: str) -> None:
    with pytest.raises(Crash):
        headwater_trial.open(fault=_MOMENTS[moment]).replay(pipeline)


@when(parsers.parse("{pipeline:S} gives up its past"))
def expires(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.open().upkeep(pipeline).expire(dry_run=False)


@given(parsers.parse("a reader leases {pipeline:S}"), target_fixture="headwater_pin")
def reader_leases(headwater_trial: Trial, pipeline: str) -> Pin:
    return headwater_trial.open().pin(pipeline, hold=timedelta(hours=1), holder="a reader")


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


@given(parsers.parse("the history of {pipeline:S} is loaded"))
@when(parsers.parse("the history of {pipeline:S} is loaded"))
def history_loaded(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.load(pipeline)


@when(parsers.parse("the history of {pipeline:S} is loaded, its stream from now"))
def history_loaded_from_now(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.load(pipeline, stream_from="now")


@when(parsers.parse("loading the history of {pipeline:S} crashes after commit {number:d}"))
def history_crashes(headwater_trial: Trial, pipeline: str, number: int) -> None:
    with pytest.raises(Crash):
        headwater_trial.load(pipeline, fault=Fault(before=False, commit=number))


@then(parsers.re(r"loading the history of (?P<pipeline>\S+) fails with (?P<name>\S+): (?P<words>.+)"))
def history_refused(headwater_trial: Trial, pipeline: str, name: str, words: str) -> None:
    with pytest.raises(HeadwaterError, match=words) as caught:
        headwater_trial.load(pipeline)
    assert type(caught.value).__name__ == name


@then(parsers.re(r"running (?P<pipeline>\S+) fails with (?P<name>\S+): (?P<words>.+)"))
def run_refused(headwater_trial: Trial, pipeline: str, name: str, words: str) -> None:
    with pytest.raises(HeadwaterError, match=words) as caught:
        headwater_trial.run([pipeline])
    assert type(caught.value).__name__ == name


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
    with _failing_with(name):
        headwater_second.run(until_idle=True)


# ---- what is seen


@given(parsers.parse("a reader holds {view:S}"), target_fixture="headwater_held")
def reader_holds(headwater_trial: Trial, view: str) -> _Held:
    return _Held.of(headwater_trial.reader.answer(view))


@then("the reader still sees exactly")
def reader_still_sees(headwater_held: _Held, datatable: Table) -> None:
    assert_shows(headwater_held.frame, headwater_held.schema, datatable)


@then(parsers.parse("{view:S} shows exactly"))
def shows(headwater_trial: Trial, view: str, datatable: Table) -> None:
    _assert_answer(headwater_trial.reader.answer(view), datatable)


@then(parsers.parse("{view:S} shows nothing"))
def shows_nothing(headwater_trial: Trial, view: str) -> None:
    answer = headwater_trial.reader.answer(view)
    _assert_answer(answer, [answer.view.schema.names])


@then(parsers.parse("{pipeline:S} has passed over {count:d} repeats"))
def passed_over(headwater_trial: Trial, pipeline: str, count: int) -> None:
    repeats = {status.pipeline: status.repeats for status in headwater_trial.open().status()}
    assert repeats[pipeline] == count


@then(parsers.parse("{view:S} as of {moment} shows exactly"))
def shows_as_of(headwater_trial: Trial, view: str, moment: str, datatable: Table) -> None:
    _assert_answer(headwater_trial.reader.answer(view, as_of=_utc(moment)), datatable)


@then(parsers.parse("{view:S} as known at epoch {epoch:d} shows exactly"))
def shows_as_known(headwater_trial: Trial, view: str, epoch: int, datatable: Table) -> None:
    _assert_answer(headwater_trial.reader.answer(view, at=epoch), datatable)


@then(parsers.parse("{view:S} as known at epoch {epoch:d} has expired"))
def has_expired(headwater_trial: Trial, view: str, epoch: int) -> None:
    with pytest.raises(VersionExpired):
        headwater_trial.open().answer(view, at=epoch)


@then(parsers.parse("{view:S} since epoch {epoch:d} shows exactly"))
def shows_since(headwater_trial: Trial, view: str, epoch: int, datatable: Table) -> None:
    _assert_answer(headwater_trial.reader.answer(view, since=epoch), datatable)


@then(parsers.parse("{view:S} of label {label:S} shows exactly"))
def shows_of_label(headwater_trial: Trial, view: str, label: str, datatable: Table) -> None:
    _assert_answer(headwater_trial.reader.answer(view, label=label), datatable)


@then(parsers.parse("asking {view:S} of label {label:S} fails with {name:S}"))
def asking_fails(headwater_trial: Trial, view: str, label: str, name: str) -> None:
    with _failing_with(name):
        headwater_trial.reader.answer(view, label=label)


@then(parsers.re(r"asking (?P<view>\S+) fails with (?P<name>\S+): (?P<words>.+)"))
def answer_refused(headwater_trial: Trial, view: str, name: str, words: str) -> None:
    answer = headwater_trial.reader.answer(view)
    with pytest.raises(HeadwaterError, match=words) as caught, answer.engine.explaining():
        _assert_answer(answer, [answer.view.schema.names])
    assert type(caught.value).__name__ == name


@then(parsers.parse("{view:S} differs since epoch {epoch:d} by exactly"))
def differs(headwater_trial: Trial, view: str, epoch: int, datatable: Table) -> None:
    _assert_answer(headwater_trial.reader.difference(view, after=epoch), datatable)


@then(parsers.parse("{pipeline:S} has reached the watermark {moment} at epoch {epoch:d}"))
def has_reached(headwater_trial: Trial, pipeline: str, moment: str, epoch: int) -> None:
    assert headwater_trial.reader.wait_for(pipeline, _utc(moment), timeout=timedelta()).epoch.number == epoch


@then(parsers.parse("waiting {timeout:S} for {pipeline:S} to reach the watermark {moment:S} fails with {name:S}"))
def waiting_fails(headwater_trial: Trial, timeout: str, pipeline: str, moment: str, name: str) -> None:
    with _failing_with(name):
        headwater_trial.reader.wait_for(pipeline, _utc(moment), timeout=parse_duration(timeout))


@then(parsers.parse("reading {view:S} for {longest:S} is allowed"))
def read_is_allowed(headwater_trial: Trial, view: str, longest: str) -> None:
    answer = headwater_trial.open().answer(view, longest=parse_duration(longest))
    answer.frame.collect(backend="polars")


@then(parsers.parse("reading {view:S} for {longest:S} fails with {name:S}"))
def read_is_refused(headwater_trial: Trial, view: str, longest: str, name: str) -> None:
    with _failing_with(name):
        headwater_trial.open().answer(view, longest=parse_duration(longest))


@then(parsers.parse("the table {table:S} holds exactly"))
def table_holds(headwater_trial: Trial, table: str, datatable: Table) -> None:
    spec, frame = headwater_trial.stored(table)
    assert_shows(frame, spec.schema, datatable)


@then(parsers.parse("the dead letters of {pipeline:S} are exactly"))
def dead_letters(headwater_trial: Trial, pipeline: str, datatable: Table) -> None:
    _assert_answer(headwater_trial.reader.answer(f"{pipeline}.dead_letters"), datatable)


@then(parsers.re(r"(?P<pipeline>\S+) has published (?P<count>\d+) epochs?"), converters={"count": int})
def has_published(headwater_trial: Trial, pipeline: str, count: int) -> None:
    assert len(headwater_trial.publications(pipeline)) == count


@contextmanager
def _failing_with(name: str) -> Iterator[None]:
    with pytest.raises(HeadwaterError) as caught:
        yield
    assert type(caught.value).__name__ == name


def _assert_answer(answer: Answer, table: Table) -> None:
    assert_shows(answer.frame, answer.view.schema, table)


def _utc(moment: str) -> datetime:
    found = datetime.fromisoformat(moment)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
