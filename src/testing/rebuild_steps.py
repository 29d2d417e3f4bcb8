"""The pytest-bdd steps of `headwater.testing.steps` about rebuilds: a pipeline is built again beside its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field
from pytest_bdd import given, parsers, then, when

from ..app.api import Headwater
from ..domain.ledger.generation import read_generations
from ..domain.table.schema import Schema
from .expected import crashing, failing_with, missing
from .failing_store import Fault
from .tables import Table, assert_shows

if TYPE_CHECKING:
    from .trial import Trial

_NEW_TABLES = {
    "in the middle of its first epoch": Fault(before=False, commit=1),
    "between its epochs": Fault(before=False),
}
"""Faults of the store that has the new tables."""
_RECORD = {
    "before anything is written": Fault(before=True, commit=1),
    "after it has begun": Fault(before=False, commit=1),
    "after the old tables have been closed": Fault(before=False, commit=2),
    "right before the switch": Fault(before=True, commit=3),
    "right after the switch": Fault(before=False, commit=3),
}
"""Faults of the store that has the record of the generations."""


@define(eq=False)
class _Process:
    """A process that has opened a pipeline with the settings of that time.

    Args:
        headwater: its deployment.
        seen: what it has seen of a view during a rebuild, by view.
    """

    headwater: Headwater
    seen: dict[str, tuple[nw.LazyFrame[Any], Schema]] = field(factory=dict)

    def run(self, pipeline: str) -> None:
        """Run the pipeline, and keep what its views show then."""
        self.headwater.run([pipeline], until_idle=True)
        for view in self.headwater.services[pipeline].views:
            if not view.between:
                answer = self.headwater.answer(f"{pipeline}.{view.name}")
                self.seen[f"{pipeline}.{view.name}"] = answer.frame.collect(backend="polars").lazy(), view.schema


headwater_process = missing("Given a process has opened PIPELINE")


@given(parsers.parse("a process has opened {pipeline:S}"), target_fixture="headwater_process")
def process_opens(headwater_trial: Trial, pipeline: str) -> _Process:
    process = _Process(headwater_trial.open())
    assert process.headwater.epoch(pipeline) >= 0
    return process


@when(parsers.parse("{pipeline:S} is rebuilt"))
def rebuilt(headwater_trial: Trial, pipeline: str) -> None:
    assert headwater_trial.rebuild(pipeline)


@when(parsers.parse("{pipeline:S} is rebuilt while these rows arrive at {source:S}, and the process reads them"))
def rebuilt_meanwhile(
    headwater_trial: Trial, headwater_process: _Process, pipeline: str, source: str, datatable: Table
) -> None:
    def meanwhile() -> None:
        headwater_trial.feed_table(source, datatable)
        headwater_process.run(pipeline)

    assert headwater_trial.rebuild(pipeline, meanwhile=meanwhile)


@then(parsers.parse("meanwhile the process has seen in {view:S} exactly"))
def has_seen(headwater_process: _Process, view: str, datatable: Table) -> None:
    assert_shows(*headwater_process.seen[view], datatable)


@then(parsers.parse("the process still sees in {view:S} exactly"))
def still_sees(headwater_process: _Process, view: str, datatable: Table) -> None:
    answer = headwater_process.headwater.answer(view)
    assert_shows(answer.frame, answer.view.schema, datatable)


@then(parsers.parse("the process fails to run and to read {pipeline:S} with {name:S}"))
def process_fails(headwater_process: _Process, pipeline: str, name: str) -> None:
    with failing_with(name):
        headwater_process.headwater.answer(pipeline)
    with failing_with(name):
        headwater_process.headwater.run([pipeline], until_idle=True)


@when(parsers.re(rf"rebuilding (?P<pipeline>\S+) crashes (?P<moment>{'|'.join((*_NEW_TABLES, *_RECORD))})"))
def rebuild_crashes(headwater_trial: Trial, pipeline: str, moment: str) -> None:
    with crashing():
        headwater_trial.rebuild(pipeline, fault=_NEW_TABLES.get(moment), at_record=_RECORD.get(moment))


@then(parsers.re(r"rebuilding (?P<pipeline>\S+) fails with (?P<name>\S+): (?P<words>.+)"))
def rebuild_refused(headwater_trial: Trial, pipeline: str, name: str, words: str) -> None:
    with failing_with(name, words):
        headwater_trial.rebuild(pipeline)


@when(parsers.parse("the rebuild of {pipeline:S} is given up"))
def given_up(headwater_trial: Trial, pipeline: str) -> None:
    headwater_trial.open().rebuild(pipeline, cancel=True)


@then(parsers.parse("generation {number:d} of {pipeline:S} is current"))
def is_current(headwater_trial: Trial, pipeline: str, number: int) -> None:
    (runner,) = headwater_trial.open().start([pipeline])
    assert read_generations(runner.store, pipeline).current == number


@when(parsers.parse("the first file of {source:S} is gone"))
def file_is_gone(headwater_trial: Trial, source: str) -> None:
    headwater_trial.lose_first_file(source)
