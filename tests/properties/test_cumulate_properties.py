"""Cumulate windows against their oracle, over random rows, orders, cuts into batches, crashes and late rows."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import define, evolve, field, frozen
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from headwater.adapters.kafka.plan import origin
from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.domain.service.base import ReadAt
from headwater.domain.service.cumulate import CumulateSettings
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Crash, FailingStore, Fault
from tests.backends import Backend, delta_backend, hudi_backend, local_delta_backend, memory_backend
from tests.rows_source import RowsSource

from .ahead import PreparedCumulate
from .cumulate_oracle import SCHEMA, Row, Story, aggregate, measures, rows, window_start
from .effort import examples

if TYPE_CHECKING:
    from pathlib import Path

    import narwhals as nw
    from pyspark.sql import SparkSession

    from headwater.domain.epoch.epoch import OffsetRange, Publication

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


@frozen
class Cut:
    """How windows are cut, and a moment near which something happens to them."""

    zone: str
    step: timedelta
    size: timedelta
    offset: timedelta
    near: datetime


CUTS = [
    Cut("UTC", _HOUR / 4, _DAY, timedelta(), datetime(2024, 3, 1, 20, tzinfo=UTC)),
    Cut("Asia/Shanghai", _HOUR, _DAY, 4 * _HOUR, datetime(2024, 3, 1, 16, tzinfo=UTC)),
    Cut("America/New_York", _HOUR, _DAY, timedelta(), datetime(2024, 3, 10, 2, tzinfo=UTC)),  # 23 h
    Cut("America/New_York", 6 * _HOUR, _DAY, timedelta(), datetime(2024, 11, 3, 2, tzinfo=UTC)),  # 25 h
    Cut("Australia/Lord_Howe", _HOUR, _DAY, timedelta(), datetime(2024, 10, 5, 10, tzinfo=UTC)),  # 23.5 h
    Cut("America/Havana", _HOUR, _DAY, timedelta(), datetime(2024, 3, 10, 1, tzinfo=UTC)),  # there is no midnight
    Cut("Europe/Berlin", _DAY, 7 * _DAY, 4 * _DAY, datetime(2024, 3, 30, 12, tzinfo=UTC)),
    Cut("Europe/Berlin", _HOUR / 2, 6 * _HOUR, _HOUR, datetime(2024, 3, 31, 0, tzinfo=UTC)),
]


@frozen
class Scale:
    """How much there is at most of each thing in a schedule; `sizes` are those of epochs, in rows."""

    measures: int
    rows: int
    runs: int
    sizes: st.SearchStrategy[int]


_LARGE = Scale(measures=4, rows=20, runs=3, sizes=st.integers(1, 12))
_SMALL = Scale(measures=3, rows=14, runs=2, sizes=st.integers(5, 14))
"""Where an epoch takes seconds."""


@frozen
class Schedule:
    """Settings, what arrives, and runs of so many rows an epoch, each of which may die."""

    settings: CumulateSettings
    rows: list[Row]
    runs: list[tuple[int, Fault | None]]


@st.composite
def faults(draw: st.DrawFn) -> Fault | None:
    """A crash at any commit, or none."""
    if draw(st.integers(0, 2)):
        return None
    return Fault(before=draw(st.booleans()), commit=draw(st.integers(1, 6)), passing=draw(st.booleans()))


@st.composite
def schedules(draw: st.DrawFn, scale: Scale, *, late: bool) -> Schedule:
    """Anything: in disorder that the watermark waits for, or, with late rows, in any order at all."""
    cut, changes = draw(st.sampled_from(CUTS)), draw(st.booleans())
    delay = draw(st.sampled_from([timedelta(), cut.step / 2, 2 * cut.step]))
    chosen = CumulateSettings(
        pipeline="views",
        schema=SCHEMA,
        event_time="at",
        step=cut.step,
        size=cut.size,
        offset=cut.offset,
        time_zone=cut.zone,
        measures=draw(measures(scale.measures, estimates=not changes)),
        dimensions=draw(st.sampled_from([[[]], [["page"], []], [["page", "country"], ["page"], []]])),
        late=draw(st.sampled_from(["drop", "revise"])),
        ticks=draw(st.sampled_from(["sparse", "dense"])),
        watermark_delay=delay,
        retracts=changes,
    )
    given = draw(rows(cut.near, 12 * cut.step, scale.rows, changes=changes))
    seconds = int((12 * cut.step if late else delay).total_seconds())
    arrival = [row["at"] + timedelta(seconds=draw(st.integers(0, seconds))) for row in given]
    arriving = [row for _, row in sorted(zip(arrival, given, strict=True), key=lambda each: each[0])]
    runs = draw(st.lists(st.tuples(scale.sizes, faults()), min_size=1, max_size=scale.runs))
    return Schedule(chosen, arriving, runs)


@define(eq=False)
class Trial:
    """One pipeline, held against the oracle at every publication."""

    backend: Backend
    schedule: Schedule
    clock: ManualClock = field(factory=ManualClock)
    source: type[RowsSource] = RowsSource

    def runner(self, fault: Fault | None = None, limit: int = 1_000) -> Runner:
        store, chosen = self.backend.open(), self.schedule.settings
        return Runner(
            "views",
            PreparedCumulate(chosen, self.backend.engine, self.backend.queries),
            self.source(SCHEMA, self.backend.frame, limit, self.schedule.rows),
            FailingStore(store, fault) if fault else store,
            store,
            self.backend.engine,
            self.clock,
            uuid4().hex,
            RunOptions(compact_every=2, retries=1, watermark_delay=chosen.watermark_delay),
        )

    def run(self) -> Runner:
        for size, fault in self.schedule.runs:
            try:
                self.runner(fault, size).run(until_idle=True)
            except Crash:
                continue
        runner = self.runner()
        runner.run(until_idle=True)
        return runner

    def check(self) -> None:
        runner, story, read = self.run(), Story(self.schedule.settings), 0
        shown: dict[Any, Row] = {}
        for publication in list(runner.ledger.publications())[::-1]:
            for row in self.schedule.rows[read : publication.offsets["rows"]]:
                story.read(row)
            read = publication.offsets["rows"]
            assert publication.watermark == story.watermark
            told = story.so_far()
            every = {(*tick, revision): row for tick, said in told.items() for revision, row in enumerate(said)}
            assert self._shown(runner, publication, "revisions") == every, f"epoch {publication.epoch.number}"
            newest = {(*tick, len(said) - 1): said[-1] for tick, said in told.items()}
            shown = self._shown(runner, publication, "ticks")
            assert shown == newest, f"epoch {publication.epoch.number}"
        assert read == len(self.schedule.rows)
        self._check_wholes({tick[:-1]: row for tick, row in shown.items()}, story.taken)

    def _check_wholes(self, shown: dict[Any, Row], taken: list[Row]) -> None:
        """Parts sum to the whole at every tick, and what only grows never falls."""
        chosen = self.schedule.settings
        grown = all(row["_row_kind"] == "+I" for row in taken)
        for (start, tick, grouping, *_), whole in shown.items():
            if grouping == "" and "pv" in self._measures:
                for dimensions in chosen.dimensions:
                    name = ",".join(dimensions)
                    assert whole["pv"] == sum(each["pv"] for each in _at(shown, start, tick, name))
        if grown:
            for name in {"pv", "uv", "amounts", "paid", "about"} & set(self._measures):
                for (start, tick, *group), row in shown.items():
                    later = [
                        each for (at, end, *own), each in shown.items() if (at, own) == (start, group) and end > tick
                    ]
                    assert all(row[name] <= each[name] for each in later)

    def _shown(self, runner: Runner, publication: Publication, view: str) -> dict[Any, Row]:
        """The measures of each revision that a view shows."""
        frame = runner.service.view(view, ReadAt(runner.ledger.snapshot(publication)))
        rows = frame.collect(backend="polars").rows(named=True)
        names = self.schedule.settings.dimension_schema.names
        by = ("window_start", "tick", "grouping", *names, "revision")
        found = {tuple(row[name] for name in by): {name: row[name] for name in self._measures} for row in rows}
        assert len(found) == len(rows), "a revision stands twice"
        return found

    @property
    def _measures(self) -> list[str]:
        return [measure.name for measure in self.schedule.settings.measures]


def _at(shown: dict[Any, Row], start: datetime, tick: datetime, grouping: str) -> list[Row]:
    """What each group of a dimension set has come to at a tick."""
    newest: dict[Any, tuple[datetime, Row]] = {}
    for (at, end, name, *group), row in shown.items():
        if (at, name) == (start, grouping) and end <= tick and end >= newest.get(tuple(group), (end,))[0]:
            newest[tuple(group)] = (end, row)
    return [row for _, row in newest.values()]


def _bytes(row: Row) -> str:
    return json.dumps(row, default=str)


@given(schedules(_LARGE, late=True))
@settings(max_examples=examples(50))
def test_ticks_on_memory(schedule: Schedule) -> None:
    Trial(memory_backend(), schedule).check()


@given(schedules(_LARGE, late=True), st.integers(1, 12))
@settings(max_examples=examples(50))
def test_the_same_bytes_however_batched(schedule: Schedule, size: int) -> None:
    """In any order, in any batches, with crashes or without: one result, late rows and their revisions too."""
    _check_same(schedule, evolve(schedule, runs=[(size, None)]), evolve(schedule, runs=[]))


@given(schedules(_LARGE, late=False))
@settings(max_examples=examples(25))
def test_the_same_bytes_in_any_order_that_the_watermark_waits_for(schedule: Schedule) -> None:
    _check_same(schedule, evolve(schedule, rows=sorted(schedule.rows, key=lambda row: row["at"])))


@define(eq=False)
class Partitions(RowsSource):
    """Rows of two partitions, which an epoch reads one after the other."""

    lanes: bool = True

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        start = offsets.after["rows"] if offsets.after else 0
        return self._frame(sorted(range(start, offsets.until["rows"]), key=self._partition))

    def _partition(self, number: int) -> str:
        return str(self.given[number]["_origin"]).partition("@")[0]


@given(schedules(_LARGE, late=False), st.integers(1, 12), st.data())
@settings(max_examples=examples(25))
def test_the_same_bytes_from_partitions_that_the_delay_holds_together(
    schedule: Schedule, size: int, data: st.DataObject
) -> None:
    numbers = [data.draw(st.integers(0, 1)) for _ in schedule.rows]
    origins = [origin("views", number, numbers[:at].count(number)) for at, number in enumerate(numbers)]
    shared = [{**row, "_origin": each} for row, each in zip(schedule.rows, origins, strict=True)]
    partitions = evolve(schedule, rows=shared)
    others = (evolve(partitions, runs=[(size, None)]), evolve(partitions, runs=[]))
    _check_same(schedule, *(Trial(memory_backend(), each, source=Partitions) for each in (partitions, *others)))


def _check_same(*trials: Schedule | Trial) -> None:
    results = []
    for each in trials:
        runner = (each if isinstance(each, Trial) else Trial(memory_backend(), each)).run()
        assume(runner.ledger.latest is not None)
        for view in runner.service.views[:2]:
            frame = runner.service.view(view.name, ReadAt(runner.ledger.snapshot())).sort(*view.sort)
            results.append([_bytes(row) for row in frame.collect(backend="polars").rows(named=True)])
    ticks, revisions = results[:2]
    assert results == [ticks, revisions] * len(trials)


@given(schedules(_LARGE, late=True))
@settings(max_examples=examples(50))
def test_the_last_tick_of_a_window_is_the_batch_result(schedule: Schedule) -> None:
    chosen = evolve(schedule.settings, late="revise")
    far = {**dict.fromkeys(SCHEMA.names), "id": -1, "at": datetime(2025, 1, 1, tzinfo=UTC), "_row_kind": "+I"}
    trial = Trial(memory_backend(), evolve(schedule, settings=chosen, rows=[*schedule.rows, far]))
    runner = trial.run()
    shown = runner.service.view("ticks", ReadAt(runner.ledger.snapshot())).collect(backend="polars").rows(named=True)
    last: dict[Any, Row] = {}
    for row in sorted(shown, key=lambda each: each["tick"]):
        last[(row["window_start"], row["grouping"], *(row[name] for name in chosen.dimension_schema.names))] = row
    groups: dict[Any, list[Row]] = {}
    for row in schedule.rows:
        for dimensions in chosen.dimensions:
            names = chosen.dimension_schema.names
            group = [row[name] if name in dimensions else None for name in names]
            groups.setdefault((window_start(row["at"], chosen), ",".join(dimensions), *group), []).append(row)
    assert last.keys() == groups.keys()
    for key, members in groups.items():
        assert {name: last[key][name] for name in aggregate([], chosen.measures)} == aggregate(members, chosen.measures)


@given(schedule=schedules(_LARGE, late=True))
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_ticks_on_local_delta(tmp_path: Path, schedule: Schedule) -> None:
    Trial(local_delta_backend(str(tmp_path / uuid4().hex)), schedule).check()


@pytest.mark.delta
@pytest.mark.slow
@given(schedule=schedules(_SMALL, late=True))
@settings(
    max_examples=examples(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_ticks_on_delta(spark: SparkSession, tmp_path: Path, schedule: Schedule) -> None:
    Trial(delta_backend(spark, str(tmp_path / uuid4().hex)), schedule).check()


@define(eq=False)
class InTurns(Trial):
    """A pipeline whose epochs run on two backends over the same tables, in turns."""

    other: Backend = field(kw_only=True)

    def run(self) -> Runner:
        for size, fault in self.schedule.runs:
            with suppress(Crash):
                while self.runner(fault, size).advance():
                    self.backend, self.other = self.other, self.backend
        runner = self.runner()
        runner.run(until_idle=True)
        return runner


def _opened(backend: Backend) -> Backend:
    """The same backend with one store, which stays open."""
    store = backend.open()
    return evolve(backend, open=lambda: store)


@pytest.mark.delta
@pytest.mark.slow
@given(schedule=schedules(evolve(_SMALL, sizes=st.integers(2, 5)), late=True))
@settings(
    max_examples=examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_ticks_of_two_engines_in_turns(spark: SparkSession, tmp_path: Path, schedule: Schedule) -> None:
    folder = str(tmp_path / uuid4().hex)
    local, other = _opened(local_delta_backend(folder)), _opened(delta_backend(spark, folder))
    InTurns(local, schedule, other=other).check()


@pytest.mark.hudi
@pytest.mark.slow
@pytest.mark.parametrize("name", ["hudi-mor:local", "hudi-cow:local"])
@given(schedule=schedules(_SMALL, late=True))
@settings(
    max_examples=examples(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_ticks_on_hudi(spark: SparkSession, tmp_path: Path, name: str, schedule: Schedule) -> None:
    Trial(hudi_backend(spark, str(tmp_path / uuid4().hex), name), schedule).check()
