"""Repeats against a plain oracle: whatever is sent again, and wherever epochs are cut, the same changes count."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.app.run.options import RunOptions
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
    """

    topic: str
    log: str
    place: Place | None
    committed: int | None
    update: bool

    @property
    def images(self) -> tuple[tuple[str, str], ...]:
        """Row kind and state of its rows."""
        return (("-U", "new"), ("+U", "paid")) if self.update else (("+I", "new"),)

    def rows(self, number: int) -> list[dict[str, Any]]:
        """As a source brings them."""
        file, position, row = self.place or (None, None, None)
        told = {"_log": self.log if self.place else None, "_log_file": file, "_log_position": position, "_log_row": row}
        own = {"mtime": _MARCH, "_committed": self.committed, "_origin": f"{self.topic}@{number}", **told}
        return [{"_row_kind": kind, "state": state, **own} for kind, state in self.images]


@st.composite
def streams(draw: st.DrawFn) -> list[list[Sent]]:
    """Messages in the order of a log, of which some are sent again or out of order; cut into epochs."""
    sent: list[Sent] = []
    for number in range(draw(st.integers(1, 12))):
        if sent and draw(st.integers(0, 2)) == 0:
            sent += sent[draw(st.integers(0, len(sent) - 1)) :][: draw(st.integers(1, 3))]
            continue
        anywhere = draw(st.integers(0, 3)) == 0
        place = (draw(st.integers(1, 9)) if anywhere else number // 2 + 1, draw(st.integers(1, 2)), 0)
        minutes = draw(st.integers(0, 40)) if anywhere else 3 * number
        sent.append(
            Sent(
                draw(st.sampled_from(["t/0", "t/0", "t/1"])),
                draw(st.sampled_from(["bin 1", "bin 1", "bin 2"])),
                draw(st.sampled_from([place, place, place, None])),
                draw(st.sampled_from([minutes * _MINUTE, minutes * _MINUTE, None])),
                draw(st.booleans()),
            )
        )
    cuts = sorted(draw(st.sets(st.integers(1, len(sent)), max_size=4)) | {len(sent)})
    return [sent[start:stop] for start, stop in zip([0, *cuts], cuts, strict=False)]


def count(stream: list[Sent]) -> tuple[Counter[str], int]:
    """The rows of each state, and how many rows were repeats: one row after the other."""
    states, repeats = Counter[str](), 0
    logs: dict[tuple[str, str], tuple[tuple[int, ...], int | None]] = {}
    for each in stream:
        for kind, state in each.images:
            log = (each.topic, each.log)
            if each.place is not None:
                place = (*each.place, kind != "-U")
                newest, seen = logs.get(log, ((), None))
                again = place <= newest
                if again and not _too_far(each, newest, seen):
                    repeats += 1
                    continue
                known = [time for time in (None if again else seen, each.committed) if time is not None]
                logs[log] = (place, max(known, default=None))
            states[state] += -1 if kind == "-U" else 1
    return Counter({state: rows for state, rows in states.items() if rows}), repeats


def _too_far(each: Sent, newest: tuple[int, ...], seen: int | None) -> bool:
    assert each.place is not None
    if each.committed is not None and seen is not None and not seen - _WINDOW <= each.committed <= seen:
        return True
    return each.place[0] <= newest[0] - _FILES


def hold(backend: Backend, epochs: list[list[Sent]]) -> None:
    """Run the epochs, and hold what is counted to the oracle after each."""
    source, before = RowsSource(TOLD, backend.frame), list[Sent]()
    for epoch in epochs:
        for each in epoch:
            source.give(each.rows(len(source.given)))
            before.append(each)
        store = backend.open()
        service = Retraction(CHOSEN, backend.engine, backend.queries)
        options = RunOptions(compact_every=2)
        runner = Runner("states", service, source, store, store, backend.engine, ManualClock(), uuid4().hex, options)
        runner.run(until_idle=True)
        snapshot = runner.ledger.snapshot()
        rows = service.view("totals", ReadAt(snapshot)).collect(backend="polars").rows()
        assert (Counter(dict(rows)), service.repeats(snapshot)) == count(before)


@given(streams())
@settings(max_examples=examples(80))
def test_repeats_on_memory(epochs: list[list[Sent]]) -> None:
    hold(memory_backend(), epochs)


@given(epochs=streams())
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_repeats_on_local_delta(tmp_path: Path, epochs: list[list[Sent]]) -> None:
    hold(local_delta_backend(str(tmp_path / uuid4().hex)), epochs)


@pytest.mark.delta
@pytest.mark.slow
@given(epochs=streams())
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_repeats_on_delta(spark: SparkSession, tmp_path: Path, epochs: list[list[Sent]]) -> None:
    hold(delta_backend(spark, str(tmp_path / uuid4().hex)), epochs)
