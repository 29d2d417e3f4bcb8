"""Retraction against its oracle, over random lives of a table, repeats, cuts into batches, rolls, crashes, restarts."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import narwhals as nw
import pytest
from attrs import define, evolve, field, frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.domain.errors import ConfigError, StoreUnavailable
from headwater.domain.service.base import ReadAt
from headwater.domain.service.retraction import Retraction, RetractionSettings
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Crash, FailingStore, Fault
from tests.backends import Backend, delta_backend, hudi_backend, local_delta_backend, memory_backend
from tests.rows_source import RowsSource

from .effort import examples
from .retraction_oracle import SCHEMA, Row, alive_after, deliveries, filed, measures, net_of, totals

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.domain.ledger.ledger import Snapshot

_FIRST = date(2024, 3, 7)


@frozen
class Turn:
    """A run that reads epochs of so many rows and may die, and the cut that is asked for after it."""

    size: int
    fault: Fault | None
    cut: date | None
    cut_fault: Fault | None


@frozen
class Scale:
    """How much there is at most of each thing in a schedule; `sizes` are those of epochs, in rows."""

    measures: int
    records: int
    turns: int
    sizes: st.SearchStrategy[int]


_LARGE = Scale(measures=3, records=14, turns=3, sizes=st.integers(1, 12))
_SMALL = Scale(measures=2, records=10, turns=2, sizes=st.integers(5, 14))
"""Where an epoch takes seconds."""


@st.composite
def faults(draw: st.DrawFn) -> Fault | None:
    """A crash at any commit, or none."""
    if draw(st.integers(0, 2)):
        return None
    return Fault(before=draw(st.booleans()), commit=draw(st.integers(1, 7)), passing=draw(st.booleans()))


@st.composite
def turns(draw: st.DrawFn, sizes: st.SearchStrategy[int]) -> Turn:
    """Any turn."""
    cut = draw(st.none() | st.integers(0, 8).map(lambda days: _FIRST + timedelta(days=days)))
    return Turn(draw(sizes), draw(faults()), cut, draw(faults()))


@st.composite
def schedules(draw: st.DrawFn, scale: Scale) -> tuple[RetractionSettings, list[Row], list[Turn]]:
    """Settings, what arrives, and how it is run."""
    chosen = RetractionSettings(
        pipeline="states",
        schema=SCHEMA,
        group=draw(st.sampled_from([["state"], ["state", "score"], []])),
        measures=draw(measures(scale.measures)),
        updated_at="mtime",
        time_zone=draw(st.sampled_from(["UTC", "Asia/Shanghai"])),
        identity=["file", "pos", "line"],
        repeat_window=timedelta(days=1),  # a sender may go back to the beginning
        event_time="mtime",
        roll_after=draw(st.none() | st.just(timedelta(days=1))),
    )
    taken = st.lists(turns(scale.sizes), min_size=1, max_size=scale.turns)
    return chosen, draw(deliveries(scale.records)), draw(taken)


@define(eq=False)
class Trial:
    """One pipeline, held against the oracle at every publication."""

    backend: Backend
    settings: RetractionSettings
    source: RowsSource
    clock: ManualClock = field(factory=ManualClock)

    def runner(self, fault: Fault | None = None, limit: int = 1_000) -> Runner:
        store = self.backend.open()
        service = Retraction(self.settings, self.backend.engine, self.backend.queries)
        return Runner(
            "states",
            service,
            evolve(self.source, limit=limit),
            FailingStore(store, fault) if fault else store,
            store,
            self.backend.engine,
            self.clock,
            uuid4().hex,
            RunOptions(compact_every=2, retries=1),
        )

    def take(self, turn: Turn) -> None:
        try:
            self.runner(turn.fault, turn.size).run(until_idle=True)
        except Crash:
            return
        if turn.cut:
            self.roll(turn.cut, turn.cut_fault)

    def roll(self, cut: date, fault: Fault | None) -> None:
        runner = self.runner(fault)
        service: Any = runner.service
        try:
            runner.amend(f"roll {cut}", lambda _epoch, snapshot: service.roll(cut, snapshot))
        except (Crash, StoreUnavailable, ConfigError):  # it died, or the past reaches farther: either way, totals hold
            return

    def check(self) -> None:
        runner = self.runner()
        runner.run(until_idle=True)
        publications = list(runner.ledger.publications())
        assert publications[0].offsets["rows"] == len(self.source.given)
        views = [
            runner.service.view("totals", ReadAt(runner.ledger.snapshot(each))).with_columns(
                nw.lit(each.epoch.number).alias("_epoch")
            )
            for each in publications
        ]
        rows = nw.concat(views).collect(backend="polars").rows(named=True)
        for publication in publications:
            expected = totals(alive_after(self.source.given[: publication.offsets["rows"]]), self.settings)
            shown = self._by_group([row for row in rows if row["_epoch"] == publication.epoch.number])
            assert shown == expected, f"epoch {publication.epoch.number}"
        self._check_days(runner, runner.ledger.snapshot())

    def _check_days(self, runner: Runner, snapshot: Snapshot) -> None:
        """Hold each day that is shown against all that was filed up to its end; none lacks on which a group changed."""
        entries = filed(self.source.given, self.settings)
        names = {measure.name for measure in self.settings.measures} & {"orders", "amount", "buyers", "least"}

        def known(group: Any, until: date) -> Row:
            images = [(sign, row) for day, sign, row in entries if day <= until and self._group(row) == group]
            return {name: net_of(images, name) for name in names}

        rows = runner.service.view("by_day", ReadAt(snapshot)).collect(backend="polars").rows(named=True)
        shown = {(row["day"], self._group(row)) for row in rows}
        for row in rows:
            assert {name: row[name] for name in names} == known(self._group(row), row["day"]), row
        cut = self._cut(snapshot)
        for day, group in {(day, self._group(row)) for day, _, row in entries if day >= cut} - shown:
            assert known(group, day) == known(group, day - timedelta(days=1)), (day, group)

    def _group(self, row: Row) -> Any:
        return tuple(row[name] for name in self.settings.group)

    def _cut(self, snapshot: Snapshot) -> date:
        """The first day that is not in the past."""
        cuts = snapshot.read("states.cut").select("day").collect(backend="polars").rows()
        return date(1970, 1, 1) + timedelta(days=cuts[0][0]) if cuts else date.min

    def _by_group(self, rows: list[Row]) -> dict[Any, Row]:
        names = [measure.name for measure in self.settings.measures]
        found = {self._group(row): {name: row[name] for name in names} for row in rows}
        assert len(found) == len(rows), "a group stands twice"
        return found


def _hold(backend: Backend, schedule: tuple[RetractionSettings, list[Row], list[Turn]]) -> None:
    chosen, rows, taken = schedule
    trial = Trial(backend, chosen, RowsSource(SCHEMA, backend.frame, given=rows))
    for turn in taken:
        trial.take(turn)
    trial.check()


@given(schedules(_LARGE))
@settings(max_examples=examples(100))
def test_totals_on_memory(schedule: tuple[RetractionSettings, list[Row], list[Turn]]) -> None:
    _hold(memory_backend(), schedule)


@given(schedule=schedules(_LARGE))
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_totals_on_local_delta(tmp_path: Path, schedule: tuple[RetractionSettings, list[Row], list[Turn]]) -> None:
    _hold(local_delta_backend(str(tmp_path / uuid4().hex)), schedule)


@pytest.mark.delta
@pytest.mark.slow
@given(schedule=schedules(_SMALL))
@settings(
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_totals_on_delta(
    spark: SparkSession, tmp_path: Path, schedule: tuple[RetractionSettings, list[Row], list[Turn]]
) -> None:
    _hold(delta_backend(spark, str(tmp_path / uuid4().hex)), schedule)


@pytest.mark.hudi
@pytest.mark.slow
@pytest.mark.parametrize("name", ["hudi-mor:local", "hudi-cow:local"])
@given(schedule=schedules(_SMALL))
@settings(
    max_examples=examples(50),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_totals_on_hudi(
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    schedule: tuple[RetractionSettings, list[Row], list[Turn]],
) -> None:
    _hold(hudi_backend(spark, str(tmp_path / uuid4().hex), name), schedule)
