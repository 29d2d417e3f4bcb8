"""A rebuild that is refused, stopped or raced, on memory; `features/rebuild.feature` has what a user sees."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Headwater
from headwater.app.run.sink_publisher import SinkPublisher
from headwater.app.wiring.digest import digest_rebuild
from headwater.app.wiring.edits import Verdict, plan_edits
from headwater.domain.errors import (
    EpochConflict,
    PipelineRebuilt,
    SchemaConflict,
    SinkChanged,
    SourceChanged,
    SourceUnavailable,
    VersionNotFound,
)
from headwater.domain.ledger.generation import Generations, read_generations
from headwater.domain.ports import Receipt, StreamSink
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import narwhals as nw

    from headwater.app.run.rebuild import Rebuild
    from headwater.app.run.report import EpochReport
    from headwater.domain.epoch.epoch import Publication


class Topic(StreamSink):
    """A topic that has published an epoch."""

    def published(self) -> Receipt | None:
        return Receipt(1, "state")

    def claim(self) -> Receipt | None:
        raise NotImplementedError

    def publish(self, changes: nw.LazyFrame[Any], publication: Publication) -> None:
        raise NotImplementedError


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    with ExitStack() as exits:
        trial = Trial(tmp_path, "memory", exits)
        trial.deploy(ranked_contracts())
        for contract in (1, 2):
            feed(trial, contract)
        trial.run()
        trial.set("pipelines.ranked.order_by", '"-signed"')
        yield trial


def feed(trial: Trial, contract: int) -> None:
    trial.feed("contracts", [f'{{"project": 1, "contract": {contract}, "signed": "2024-03-0{contract}T00:00:00Z"}}'])


def begun(trial: Trial) -> Rebuild:
    """A rebuild in a process of its own, whose store of new tables is the one that all share."""
    return trial.prepare_rebuild("ranked")


def recorded(rebuild: Rebuild) -> Generations:
    return read_generations(rebuild.runner.store, "ranked")


def raise_unavailable(*_arguments: object) -> Any:
    raise SourceUnavailable("the test has taken the store away")


def lag(trial: Trial) -> str:
    """What `status` shows of the unread input."""
    (status,) = trial.open().status()
    return status.lag


def test_the_first_version_of_the_new_tables_has_none_before_it(trial: Trial) -> None:
    begun(trial).run(again=False)
    deployment = trial.open()
    first = trial.publications("ranked")[0].epoch.number
    rows = {("+I", 1), ("+I", 2)}
    assert set(deployment.diff("ranked.ranks", until=first).select("_row_kind", "contract").rows()) == rows
    assert set(deployment.view("ranked.changes", at=first).select("row_kind", "contract").rows()) == rows
    assert [each.publication.epoch.number for each in deployment.upkeep("ranked").versions()] == [first]


def test_no_number_or_time_of_before_the_switch_means_a_version_of_the_new_tables(trial: Trial) -> None:
    trial.set("pipelines.ranked.order_by", '"signed"')
    old = trial.open()
    assert old.epoch("ranked") == 1
    trial.set("pipelines.ranked.order_by", '"-signed"')
    rebuild = begun(trial)
    make, times = rebuild.make_twin, list[datetime]()

    def run_old(report: EpochReport) -> None:
        if not report.task:
            times.append(trial.clock.now())
            trial.clock.sleep(timedelta(minutes=1))
        if len(times) == 1:
            for contract in (3, 4, 5):
                feed(trial, contract)
            old.run(until_idle=True)

    def make_twin(generation: int) -> Any:
        twin = make(generation)
        twin.report = run_old
        return twin

    rebuild.make_twin = make_twin
    found = rebuild.run()
    assert found
    assert found.publication
    assert (len(times), found.publication.epoch.number) == (5, 7)
    new = trial.open()
    for moment in (*range(7), *times):
        with pytest.raises(VersionNotFound, match="before the rebuild"):
            new.diff("ranked", after=moment)
        with pytest.raises(VersionNotFound, match="before the rebuild"):
            new.view("ranked", at=moment)


def test_a_rebuild_that_is_killed_right_before_the_switch_publishes_its_first_epoch_again(trial: Trial) -> None:
    trial.set("pipelines.ranked.order_by", '"signed"')
    old = trial.open()
    assert old.epoch("ranked") == 1
    trial.set("pipelines.ranked.order_by", '"-signed"')
    rebuild = begun(trial)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Generations, "switch", raise_unavailable)
        with pytest.raises(SourceUnavailable):
            rebuild.run()
    for contract in (3, 4, 5):  # the old tables are opened again after a fault
        feed(trial, contract)
        old.run(until_idle=True)
    found = begun(trial).run()
    assert found
    assert found.publication
    assert found.publication.epoch.number == recorded(rebuild).first == 8  # 4 was that of the first try
    assert len(trial.reader.view("ranked")) == 5


def test_a_topic_with_the_rows_of_the_old_tables(trial: Trial) -> None:
    rebuild = begun(trial)
    runner = rebuild.runner
    runner.publisher = SinkPublisher(runner.service, "ranks", None, Topic(), runner.engine, runner.writer)
    with pytest.raises(SinkChanged, match="to a new topic, which gets all rows"):
        rebuild.run()
    assert recorded(rebuild) == Generations()


def test_a_rebuild_that_is_stopped_is_resumed(trial: Trial) -> None:
    rebuild = begun(trial)
    make = rebuild.make_twin

    def make_twin(generation: int) -> Any:
        twin = make(generation)
        twin.report = lambda _report: rebuild.runner.stop()
        return twin

    rebuild.make_twin = make_twin
    assert rebuild.run() is None
    there = recorded(rebuild)
    assert (there.current, there.newest, there.closing) == (1, 2, False)
    trial.set("pipelines.ranked.order_by", '"signed"')
    assert lag(trial) == "0 files; generation 2 is being built by `headwater rebuild`"
    trial.set("pipelines.ranked.order_by", '"-signed"')
    found = begun(trial).run()
    assert found
    assert (found.generation, found.former) == (2, 1)
    assert found.publication
    assert found.publication.epoch.number == 4  # two epochs, behind 0 and 1 of the old tables, and that of the switch


def test_the_report_of_a_program_gets_no_epoch_that_it_cannot_read(trial: Trial) -> None:
    def report(each: EpochReport) -> None:
        changed.append(headwater.diff("ranked", after=each.epoch.number - 1, until=each.epoch.number).height)

    changed = list[int]()
    with Headwater(trial.deployment(), report=report) as headwater:
        headwater.run(until_idle=True)
        assert headwater.rebuild("ranked")
        assert len(changed) == 2


def test_the_plan_says_that_a_run_is_refused_near_the_switch(tmp_path: Path) -> None:
    with ExitStack() as exits:
        trial = Trial(tmp_path, "delta:local", exits)
        trial.deploy(ranked_contracts())
        feed(trial, 1)
        trial.run()
        rebuild = begun(trial)
        rebuild._open()
        rebuild._begin()
        rebuild._record(rebuild._there.close())  # killed here
        headwater = trial.open()
        edits = plan_edits(headwater.deployment, headwater.services, trial.clock)
        assert edits
        assert edits[0].verdict is Verdict.REFUSED
        assert "is about to switch to the rebuilt tables" in edits[0].details[0]
        with pytest.raises(EpochConflict, match="is about to switch to the rebuilt tables"):
            trial.run()


def test_it_is_asked_for_by_the_settings_and_the_backend(trial: Trial) -> None:
    """Of Hudi, the name of the backend decides the type of the tables, which a run does not change."""
    assert begun(trial).settings == digest_rebuild(trial.deployment(), "ranked")


def test_it_is_built_again_if_it_was_continued_with_settings_that_cannot_be_undone(trial: Trial) -> None:
    assert begun(trial).run()
    trial.set("sources.contracts.schema", '"project bigint, contract bigint, signed timestamp, more bigint"')
    feed(trial, 3)
    trial.run()
    trial.set("sources.contracts.schema", '"project bigint, contract bigint, signed timestamp"')
    with pytest.raises(SchemaConflict, match="headwater rebuild"):
        trial.run()
    found = begun(trial).run()
    assert found
    assert (found.generation, found.former) == (3, 2)
    trial.run()
    found = begun(trial).run()
    assert found
    assert (found.generation, found.former) == (3, None)


def test_after_a_fault_near_the_switch_the_old_tables_are_written_again(trial: Trial) -> None:
    rebuild = begun(trial)
    drains: list[int] = []

    def make_twin(generation: int) -> Any:
        twin = make(generation)
        plan = twin.source.plan

        def fail_later(*arguments: Any) -> Any:
            if recorded(rebuild).closing:
                raise SourceUnavailable("the test has taken the source away")
            drains.append(1)
            return plan(*arguments)

        twin.source.plan = fail_later
        return twin

    make, rebuild.make_twin = rebuild.make_twin, make_twin
    with pytest.raises(SourceUnavailable):
        rebuild.run()
    there = recorded(rebuild)
    assert (bool(drains), there.current, there.closing, bool(there.building)) == (True, 1, False, True)


@pytest.mark.parametrize("gone", [0, -1])
def test_files_that_are_removed_before_they_are_read_again_are_missed(trial: Trial, gone: int) -> None:
    rebuild = begun(trial)
    make, folder = rebuild.make_twin, Path(rebuild.runner.source._listing.settings.path)  # type: ignore[attr-defined]

    def make_twin(generation: int) -> Any:
        sorted(folder.iterdir())[gone].unlink()
        return make(generation)

    rebuild.make_twin = make_twin
    with pytest.raises(SourceChanged, match=r"1 of the 2 files .* were gone before the rebuild read them"):
        rebuild.run()
    there = recorded(rebuild)
    assert (there.current, there.closing, bool(there.building)) == (1, False, True)
    trial.set("pipelines.ranked.order_by", '"signed"')
    assert dict(trial.reader.view("ranked").select("contract", "rank").rows()) == {1: 1, 2: 2}


def test_files_may_be_removed_after_they_were_read_again(trial: Trial) -> None:
    rebuild = begun(trial)
    make, folder = rebuild.make_twin, Path(rebuild.runner.source._listing.settings.path)  # type: ignore[attr-defined]

    def make_twin(generation: int) -> Any:
        twin = make(generation)
        feed(trial, 3)
        twin.report = lambda report: None if report.task else min(folder.iterdir()).unlink()
        return twin

    rebuild.make_twin = make_twin
    assert rebuild.run()


def test_another_rebuild_takes_over(trial: Trial) -> None:
    first = begun(trial)
    make = first.make_twin

    def make_twin(generation: int) -> Any:
        trial.set("pipelines.ranked.method", '"rank"')
        other = begun(trial).run()
        assert other
        assert other.generation == 3
        return make(generation)

    first.make_twin = make_twin
    with pytest.raises((EpochConflict, PipelineRebuilt), match="rebuil"):
        first.run()
    assert recorded(begun(trial)).current == 3


def test_what_was_published_while_the_source_was_drained_is_read_too(trial: Trial) -> None:
    trial.set("pipelines.ranked.order_by", '"signed"')
    old = trial.open()
    assert old.epoch("ranked") == 1
    trial.set("pipelines.ranked.order_by", '"-signed"')
    rebuild = begun(trial)
    make, raced = rebuild.make_twin, []

    def make_twin(generation: int) -> Any:
        twin = make(generation)
        plan = twin.source.plan

        def race(*arguments: Any) -> Any:
            planned = plan(*arguments)
            if planned is None and not raced:  # the source is drained, and the old tables are not closed yet
                raced.append(recorded(rebuild).closing)
                feed(trial, 3)
                old.run(until_idle=True)
            return planned

        twin.source.plan = race
        return twin

    rebuild.make_twin = make_twin
    assert rebuild.run()
    assert raced == [False]
    assert dict(trial.reader.view("ranked").select("contract", "rank").rows()) == {3: 1, 2: 2, 1: 3}


def test_files_are_read_again_as_they_are_now(trial: Trial) -> None:
    """A run refuses a file that has changed since it was read, and names this remedy."""
    trial.set("pipelines.ranked.order_by", '"signed"')
    corrected = max(trial.folder.rglob("*.json"))
    corrected.write_text('{"project": 1, "contract": 222, "signed": "2024-03-01T00:00:00Z"}')
    with pytest.raises(SourceChanged, match="headwater rebuild --again"):
        trial.run()
    assert begun(trial).run(again=True)
    assert dict(trial.reader.view("ranked").select("contract", "rank").rows()) == {1: 1, 222: 1}
    trial.run()
