"""Repeats against a plain oracle: whatever is sent again, and wherever epochs are cut, the same changes count.

So do the dead letters that are read again in between.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import evolve, field, frozen, mutable
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headwater.app.run.options import RunOptions
from headwater.app.run.replay import replay
from headwater.app.run.runner import Runner
from headwater.domain.service.base import ReadAt
from headwater.domain.service.retraction import Measure, Retraction, RetractionSettings
from headwater.domain.source.changelog.log_columns import LOG_COLUMNS
from headwater.domain.table.schema import Schema, column
from headwater.testing.clock import ManualClock
from tests.backends import Backend, delta_backend, local_delta_backend, memory_backend
from tests.rows_source import RowsSource

from .effort import examples

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = Schema.parse("state string, mtime timestamp")
TOLD = SCHEMA.plus(*(column(name, ddl) for name, ddl in LOG_COLUMNS.items()))
_MARCH = datetime(2024, 3, 1, tzinfo=UTC)
_MINUTE = 60_000
_WINDOW = 10 * _MINUTE
_FILES = 3

CHOSEN = RetractionSettings(
    pipeline="states",
    schema=SCHEMA,
    group=["state"],
    measures=[Measure.parse("orders", "count(*)", None, SCHEMA)],
    updated_at="mtime",
    tells_log=True,
    log_reset="accept",
)
Place = tuple[int, int, int]


@frozen
class Sent:
    """A message: an insert of a row in state new, or its update to paid.

    Args:
        topic: its partition of the source.
        log: what it calls the log.
        place: file, position and row; None where it does not say.
        committed: in milliseconds; None where it does not say.
        update: whether it is an update.
        broken: whether it becomes a dead letter.
    """

    topic: str
    log: str
    place: Place | None
    committed: int | None
    update: bool
    broken: bool = False

    @property
    def log_name(self) -> tuple[str, str]:
        return self.topic, self.log

    @property
    def images(self) -> tuple[tuple[str, str], ...]:
        """Row kind and state of its rows."""
        return (("-U", "new"), ("+U", "paid")) if self.update else (("+I", "new"),)

    def rows(self, number: int) -> list[dict[str, Any]]:
        """As a source brings them."""
        file, position, row = self.place or (None, None, None)
        told = {"_log": self.log if self.place else None, "_log_file": file, "_log_position": position, "_log_row": row}
        own = {
            "mtime": None if self.broken else _MARCH,
            "_committed": self.committed,
            "_origin": f"{self.topic}@{number}",
            **told,
        }
        return [{"_row_kind": kind, "state": state, **own} for kind, state in self.images]


Epochs = list[tuple[list[Sent], bool]]
"""The messages of each epoch, and whether the dead letters are read again after it."""


@st.composite
def streams(draw: st.DrawFn) -> Epochs:
    """Messages in the order of a log, of which some are broken, sent again or out of order; cut into epochs."""
    sent: list[Sent] = []
    for number in range(draw(st.integers(1, 12))):
        if sent and draw(st.integers(0, 2)) == 0:
            again = sent[draw(st.integers(0, len(sent) - 1)) :][: draw(st.integers(1, 3))]
            sent += [evolve(each, broken=each.broken and draw(st.booleans())) for each in again]
            continue
        anywhere = draw(st.integers(0, 3)) == 0
        place = (draw(st.integers(1, 9)) if anywhere else number // 2 + 1, draw(st.integers(1, 2)), 0)
        minutes = draw(st.integers(0, 40)) if anywhere else 3 * number
        sent.append(
            Sent(
                draw(st.sampled_from(["t/0", "t/0", "t/1"])),
                draw(st.sampled_from(["bin", "bin", "bin #1"])),
                draw(st.sampled_from([place, place, place, None])),
                draw(st.sampled_from([minutes * _MINUTE, minutes * _MINUTE, None])),
                draw(st.booleans()),
                draw(st.integers(0, 3)) == 0,
            )
        )
    cuts = sorted(draw(st.sets(st.integers(1, len(sent)), max_size=4)) | {len(sent)})
    epochs = [sent[start:stop] for start, stop in zip([0, *cuts], cuts, strict=False)]
    return [(epoch, draw(st.integers(0, 2)) == 0) for epoch in epochs]


Log = tuple[str, str]
Row = tuple[Sent, str, str]


@mutable
class Oracle:
    """Counts one row after the other.

    Args:
        states: the rows of each state.
        repeats: how many rows were repeats.
        logs: of each log the highest place and the latest commit time.
        began: of each log that began again, when; None if that is unknown.
        letters: the rows that are dead letters.
    """

    states: Counter[str] = field(factory=Counter)
    repeats: int = 0
    logs: dict[Log, tuple[tuple[int, ...], int | None]] = field(factory=dict)
    began: dict[Log, int | None] = field(factory=dict)
    letters: list[Row] = field(factory=list)

    @property
    def answers(self) -> tuple[Counter[str], int]:
        """The rows of each state that has some, and how many rows were repeats."""
        return Counter({state: rows for state, rows in self.states.items() if rows}), self.repeats

    def read(self, epoch: list[Sent]) -> None:
        for each in epoch:
            for kind, state in each.images:
                if each.broken:
                    self.letters.append((each, kind, state))
                elif each.place is None or not self._is_repeat(each, (*each.place, kind != "-U")):
                    self.states[state] += -1 if kind == "-U" else 1
                else:
                    self.repeats += 1

    def _is_repeat(self, each: Sent, place: tuple[int, ...]) -> bool:
        newest, seen = self.logs.get(each.log_name, ((), None))
        if again := place <= newest:
            if not _too_far(each, newest, seen):
                return True
            known = [time for time in (seen, each.committed) if time is not None]
            self.began[each.log_name] = None if each.committed is None else max(known)
        self.logs[each.log_name] = (place, _latest(None if again else seen, each.committed))
        return False

    def read_again(self) -> None:
        before = set()
        for each, kind, state in self.letters:
            change = (each.log_name, each.place, kind != "-U", each.committed)
            if each.place is not None and change in before:
                self.repeats += 1
                continue
            before.add(change)
            self.states[state] += -1 if kind == "-U" else 1
            if each.place is not None and self._is_of_current_log(each):
                newest, seen = self.logs.get(each.log_name, ((), None))
                self.logs[each.log_name] = (max(newest, (*each.place, kind != "-U")), _latest(seen, each.committed))
        self.letters = []

    def _is_of_current_log(self, each: Sent) -> bool:
        if each.log_name not in self.began:
            return True
        began = self.began[each.log_name]
        return began is not None and each.committed is not None and each.committed > began


def _latest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _too_far(each: Sent, newest: tuple[int, ...], seen: int | None) -> bool:
    assert each.place is not None
    if each.committed is not None and seen is not None and not seen - _WINDOW <= each.committed <= seen:
        return True
    return each.place[0] <= newest[0] - _FILES


def hold(backend: Backend, epochs: Epochs) -> None:
    """Run the epochs, and hold what is counted to the oracle after each."""
    source, oracle = RowsSource(TOLD, backend.frame), Oracle()
    for epoch, mends in epochs:
        for each in epoch:
            source.give(each.rows(len(source.given)))
        oracle.read(epoch)
        store = backend.open()
        service = Retraction(CHOSEN, backend.engine, backend.queries)
        options = RunOptions(compact_every=2)
        runner = Runner("states", service, source, store, store, backend.engine, ManualClock(), uuid4().hex, options)
        runner.run(until_idle=True)
        if mends:
            source.given = [{**row, "mtime": _MARCH} for row in source.given]
            replay(runner)
            oracle.read_again()
        snapshot = runner.ledger.snapshot()
        rows = service.view("totals", ReadAt(snapshot)).collect(backend="polars").rows()
        assert (Counter(dict(rows)), service.repeats(snapshot)) == oracle.answers


def _sent(file: int, minute: int, *, log: str = "bin", broken: bool = False) -> Sent:
    return Sent("t/0", log, (file, 1, 0), minute * _MINUTE, update=False, broken=broken)


A_LETTER_OF_AN_EARLIER_LOG: Epochs = [
    ([_sent(7, 1), _sent(8, 2, broken=True), _sent(9, 3)], False),
    ([_sent(1, 60)], True),
    ([_sent(2, 61), _sent(3, 62, broken=True)], True),
    ([_sent(3, 62), _sent(4, 63)], False),
]
A_LOG_THAT_IS_CALLED_LIKE_A_NEW_ONE: Epochs = [
    ([_sent(5, 1, log="bin #1"), _sent(9, 1)], False),
    ([_sent(1, 60), _sent(2, 61)], False),
    ([_sent(5, 1, log="bin #1")], False),
    ([_sent(6, 62, log="bin #1")], False),
    ([_sent(5, 1, log="bin #1"), _sent(2, 61)], False),
]


@given(streams())
@example(A_LETTER_OF_AN_EARLIER_LOG)
@example(A_LOG_THAT_IS_CALLED_LIKE_A_NEW_ONE)
@settings(max_examples=examples(80))
def test_repeats_on_memory(epochs: Epochs) -> None:
    hold(memory_backend(), epochs)


@given(epochs=streams())
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_repeats_on_local_delta(tmp_path: Path, epochs: Epochs) -> None:
    hold(local_delta_backend(str(tmp_path / uuid4().hex)), epochs)


@pytest.mark.delta
@pytest.mark.slow
@given(epochs=streams())
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_repeats_on_delta(spark: SparkSession, tmp_path: Path, epochs: Epochs) -> None:
    hold(delta_backend(spark, str(tmp_path / uuid4().hex)), epochs)
