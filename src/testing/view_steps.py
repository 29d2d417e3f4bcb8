"""The pytest-bdd steps of `headwater.testing.steps` about what readers see: views, tables and dead letters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import narwhals as nw
import pytest
from attrs import frozen
from pytest_bdd import given, parsers, then

from ..app.api.pipeline import Answer
from ..domain.duration import parse_duration
from ..domain.errors import VersionExpired
from ..domain.table.schema import Schema
from .expected import failing_with, missing, utc
from .tables import Table, assert_shows
from .trial import Trial


@frozen(eq=False)
class _Held:
    """Rows that a reader has asked for and not computed yet."""

    frame: nw.LazyFrame[Any]
    schema: Schema

    @classmethod
    def of(cls, answer: Answer) -> _Held:
        return cls(answer.frame, answer.view.schema)


headwater_held = missing("Given a reader holds VIEW")


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


@then(parsers.parse("{pipeline:S} has skipped {count:d} repeats"))
@then(parsers.parse("{pipeline:S} has passed over {count:d} repeats"))
def skipped_repeats(headwater_trial: Trial, pipeline: str, count: int) -> None:
    repeats = {status.pipeline: status.repeats for status in headwater_trial.open().status()}
    _check_repeats(pipeline, count, repeats[pipeline])


@then(parsers.parse("{view:S} as of {moment} shows exactly"))
def shows_as_of(headwater_trial: Trial, view: str, moment: str, datatable: Table) -> None:
    _assert_answer(headwater_trial.reader.answer(view, as_of=utc(moment)), datatable)


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
    with failing_with(name):
        headwater_trial.reader.answer(view, label=label)


@then(parsers.re(r"asking (?P<view>\S+) fails with (?P<name>\S+): (?P<words>.+)"))
def answer_refused(headwater_trial: Trial, view: str, name: str, words: str) -> None:
    answer = headwater_trial.reader.answer(view)
    with failing_with(name, words), answer.engine.explaining():
        _assert_answer(answer, [answer.view.schema.names])


@then(parsers.parse("{view:S} differs since epoch {epoch:d} by exactly"))
def differs(headwater_trial: Trial, view: str, epoch: int, datatable: Table) -> None:
    _assert_answer(headwater_trial.reader.difference(view, after=epoch), datatable)


@then(parsers.parse("{pipeline:S} has reached the watermark {moment} at epoch {epoch:d}"))
def has_reached(headwater_trial: Trial, pipeline: str, moment: str, epoch: int) -> None:
    assert headwater_trial.reader.wait_for(pipeline, utc(moment), timeout=timedelta()).epoch.number == epoch


@then(parsers.parse("waiting {timeout:S} for {pipeline:S} to reach the watermark {moment:S} fails with {name:S}"))
def waiting_fails(headwater_trial: Trial, timeout: str, pipeline: str, moment: str, name: str) -> None:
    with failing_with(name):
        headwater_trial.reader.wait_for(pipeline, utc(moment), timeout=parse_duration(timeout))


@then(parsers.parse("reading {view:S} for {longest:S} is allowed"))
def read_is_allowed(headwater_trial: Trial, view: str, longest: str) -> None:
    answer = headwater_trial.open().answer(view, longest=parse_duration(longest))
    answer.frame.collect(backend="polars")


@then(parsers.parse("reading {view:S} for {longest:S} fails with {name:S}"))
def read_is_refused(headwater_trial: Trial, view: str, longest: str, name: str) -> None:
    with failing_with(name):
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


def _check_repeats(pipeline: str, expected: int, found: int | None) -> None:
    """Check the number of repeats that a pipeline has skipped.

    Raises:
        AssertionError: it has skipped another number, or recognises no repeats (None).
    """
    if found is None:
        raise AssertionError(
            f"expected that {pipeline} has skipped {expected} repeats, but it recognises no repeats: this is done by"
            " retractions whose changes have a position (`identity`), from their first epoch on"
        )
    if found != expected:
        raise AssertionError(f"expected that {pipeline} has skipped {expected} repeats, but it has skipped {found}")


def _assert_answer(answer: Answer, table: Table) -> None:
    assert_shows(answer.frame, answer.view.schema, table)
