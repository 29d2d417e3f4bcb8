"""Ranking against its oracle, over random lives of events, cuts into batches, crashes and restarts."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import define, evolve, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.app.run.beside import work_beside
from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.domain.service.base import ReadAt
from headwater.domain.service.ranking import METHODS, RankingSettings
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Crash, FailingStore, Fault
from tests.backends import Backend, delta_backend, hudi_backend, local_delta_backend, memory_backend
from tests.rows_source import RowsSource

from .ahead import PreparedRanking
from .effort import examples
from .ranking_oracle import SCHEMA, Row, apply, lives, ranks

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.domain.ledger.ledger import Snapshot


@st.composite
def rankings(draw: st.DrawFn) -> RankingSettings:
    """Any settings."""
    method = draw(st.sampled_from(METHODS))
    return RankingSettings(
        pipeline="teams",
        schema=SCHEMA,
        group=["team"],
        id=["id"],
        order_by="at",
        descending=draw(st.booleans()),
        method=method,
        tie_break=draw(st.sampled_from([["tie"], ["-tie", "note"]])) if method == "row_number" else (),
        segment=draw(st.sampled_from(["1h", "6h", "1d", "7d"])),
        offset=draw(st.sampled_from(["0s", "5h"])),
        time_zone=draw(st.sampled_from(["UTC", "America/New_York"])),
        nulls=draw(st.sampled_from(["first", "last"])),
        event_time="at",
        top=draw(st.integers(1, 3)),
        repeats=draw(st.sampled_from(["anywhere", "same-segment"])),
    )


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    """A crash at any commit."""
    return Fault(before=draw(st.booleans()), commit=draw(st.integers(1, 5)), passing=draw(st.booleans()))


@st.composite
def schedules(draw: st.DrawFn) -> tuple[RankingSettings, list[Row], list[int], list[Fault | None]]:
    """Settings, events, and for every run how many rows its epochs hold and where it dies."""
    ranking = draw(rankings())
    events = draw(lives(ranking))
    runs = draw(st.integers(0, 3))
    sizes = draw(st.lists(st.integers(1, 12), min_size=runs + 1, max_size=runs + 1))
    return ranking, events, sizes, [*draw(st.lists(faults(), min_size=runs, max_size=runs)), None]


@define(eq=False)
class Trial:
    """One pipeline, held against the oracle at every publication."""

    backend: Backend
    ranking: RankingSettings
    source: RowsSource
    compact_every: int = 2
    beside: bool = False
    clock: ManualClock = field(factory=ManualClock)

    def run(self, size: int, fault: Fault | None) -> None:
        store = self.backend.open()
        failing = FailingStore(store, fault) if fault else store
        options = RunOptions(materialize=("ranks",), compact_every=self.compact_every, retries=1)
        source = evolve(self.source, limit=size)
        service = PreparedRanking(self.ranking, self.backend.engine)
        runner = Runner("teams", service, source, failing, store, self.backend.engine, self.clock, uuid4().hex, options)
        try:
            with work_beside([runner]) if self.beside else nullcontext():
                runner.run(until_idle=True)
        except Crash:
            return

    def check(self) -> None:
        """Compare every publication with the oracle, and every pair of neighbours with the moves between them."""
        runner = Runner(
            "teams",
            PreparedRanking(self.ranking, self.backend.engine),
            self.source,
            (store := self.backend.open()),
            store,
            self.backend.engine,
            self.clock,
            "reader",
            RunOptions(materialize=("ranks",)),
        )
        before: dict[int, int] = {}
        earlier: Snapshot | None = None
        for publication in reversed(list(runner.ledger.publications())):
            snapshot = runner.ledger.snapshot(publication)
            alive = apply(self.source.given[: publication.offsets["rows"]])
            expected = ranks(alive.values(), self.ranking)
            assert _ranks(runner.service.view("ranks", ReadAt(snapshot))) == expected
            assert _ranks(snapshot.read("teams.ranks")) == expected
            first = {row: rank for row, rank in expected.items() if rank <= self.ranking.top}
            assert _ranks(runner.service.view("top", ReadAt(snapshot))) == first
            if earlier:
                self._check_moves(runner, earlier, snapshot, before, expected)
            before, earlier = expected, snapshot
        if earlier:
            self._check_as_of(runner, earlier)
            read = earlier.publication
            assert read is not None
            assert read.offsets["rows"] == len(self.source.given)

    def _check_moves(
        self, runner: Runner, earlier: Snapshot, later: Snapshot, before: dict[int, int], after: dict[int, int]
    ) -> None:
        moves = runner.service.view("changes", ReadAt(later, since=earlier)).collect(backend="polars").rows(named=True)
        went = {row["id"]: (row["old_rank"], row["new_rank"]) for row in moves if row["old_rank"] != row["new_rank"]}
        gone_or_moved = {row: (rank, after.get(row)) for row, rank in before.items() if after.get(row) != rank}
        came = {row: (None, rank) for row, rank in after.items() if row not in before}
        assert went == gone_or_moved | came

    def _check_as_of(self, runner: Runner, snapshot: Snapshot) -> None:
        alive = apply(self.source.given)
        moments = sorted(row["at"] for row in alive.values() if row["at"])
        if moments:
            moment = moments[len(moments) // 2]
            past = [row for row in alive.values() if row["at"] and row["at"] <= moment]
            assert _ranks(runner.service.view("ranks", ReadAt(snapshot, moment))) == ranks(past, self.ranking)


def _ranks(frame: Any) -> dict[int, int]:
    rows = frame.collect(backend="polars").rows(named=True)
    found = {row["id"]: row["rank"] for row in rows}
    assert len(found) == len(rows), "an id stands twice"
    return found


def _hold(
    backend: Backend, schedule: tuple[RankingSettings, list[Row], list[int], list[Fault | None]], **more: Any
) -> None:
    ranking, events, sizes, dying = schedule
    trial = Trial(backend, ranking, RowsSource(SCHEMA, backend.frame, given=events), **more)
    for size, fault in zip(sizes, dying, strict=True):
        trial.run(size, fault)
    trial.check()


@given(schedules())
@settings(max_examples=examples(100))
def test_ranks_on_memory(schedule: tuple[RankingSettings, list[Row], list[int], list[Fault | None]]) -> None:
    _hold(memory_backend(), schedule)


@given(schedule=schedules())
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_ranks_on_local_delta(
    tmp_path: Path, schedule: tuple[RankingSettings, list[Row], list[int], list[Fault | None]]
) -> None:
    _hold(local_delta_backend(str(tmp_path / uuid4().hex)), schedule)


@given(schedule=schedules())
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_ranks_on_local_delta_with_compaction_beside_the_epochs(
    tmp_path: Path, schedule: tuple[RankingSettings, list[Row], list[int], list[Fault | None]]
) -> None:
    _hold(local_delta_backend(str(tmp_path / uuid4().hex)), schedule, compact_every=1, beside=True)


@pytest.mark.delta
@pytest.mark.slow
@given(schedule=schedules())
@settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_ranks_on_delta(
    spark: SparkSession,
    tmp_path: Path,
    schedule: tuple[RankingSettings, list[Row], list[int], list[Fault | None]],
) -> None:
    _hold(delta_backend(spark, str(tmp_path / uuid4().hex)), schedule)


@pytest.mark.hudi
@pytest.mark.slow
@pytest.mark.parametrize("name", ["hudi-mor:local", "hudi-cow:local"])
@given(schedule=schedules())
@settings(
    max_examples=4,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_ranks_on_hudi(
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    schedule: tuple[RankingSettings, list[Row], list[int], list[Fault | None]],
) -> None:
    _hold(hudi_backend(spark, str(tmp_path / uuid4().hex), name), schedule)
