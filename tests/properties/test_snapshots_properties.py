"""Versions against a plain model, over random inputs, schedules, crashes, edits, leases and expiries."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

import narwhals as nw
import pytest
from attrs import define, evolve, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.app.run.inputs import PipelineInputs
from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.domain.epoch.watermark import newest_of
from headwater.domain.errors import VersionExpired
from headwater.domain.ledger.retention import Retention
from headwater.domain.ports import Pace
from headwater.domain.service.base import ReadAt, Service, Step
from headwater.domain.service.snapshots import Plan, Schedule, Snapshots, SnapshotSettings, ViewOf
from headwater.domain.table.change import Change
from headwater.domain.table.collect import collect_small
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec
from headwater.domain.table.view_spec import ViewSpec
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Crash, FailingStore, Fault
from tests.backends import Backend, delta_backend, hudi_backend, local_delta_backend, memory_backend
from tests.rows_source import RowsSource

from .effort import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.domain.epoch.batch import Batch
    from headwater.domain.epoch.epoch import Publication
    from headwater.domain.ledger.ledger import Snapshot
    from headwater.domain.ledger.upkeep import Pin

_SCHEMA = Schema.parse("k bigint, v bigint, at timestamp")
_START = datetime(2024, 3, 7, tzinfo=UTC)
_KEPT = 2
_EVERY = timedelta(minutes=15)

Row: TypeAlias = "Mapping[str, Any]"
Rows: TypeAlias = list[tuple[Any, ...]]


class Heap(Service):
    """All rows that ever came: the least service whose publications a pipeline can read."""

    def __init__(self, pipeline: str) -> None:
        self.tables = (TableSpec(f"{pipeline}.rows", _SCHEMA),)
        self.views = (ViewSpec("rows", _SCHEMA, (), (), "all rows"),)
        self.fingerprint = "heap"

    def step(self, batch: Batch, snapshot: Snapshot) -> Step:  # noqa: ARG002 - nothing before matters
        (found,) = collect_small(batch.rows.select(nw.len().alias("rows"), nw.col("at").max()))
        change = Change(append=batch.rows.select(*_SCHEMA.names))
        return Step({self.tables[0].name: change}, found["rows"], 0, newest_of([found["at"]]))

    def read(self, spec: ViewSpec, at: ReadAt) -> nw.LazyFrame[Any]:  # noqa: ARG002 - there is one
        return at.snapshot.read(self.tables[0].name)

    def read_changes(self, spec: ViewSpec, before: Snapshot, after: Snapshot) -> nw.LazyFrame[Any]:
        raise NotImplementedError(spec, before, after)


# ---- what is published, as SQL and as the same in plain Python


def _both(a: list[Row], b: list[Row]) -> Rows:
    return [(left["k"], left["v"], right["v"]) for left in a for right in b if left["k"] == right["k"]]


def _sums(a: list[Row], _b: list[Row]) -> Rows:
    keys = {row["k"] for row in a}
    return [(key, sum(row["v"] for row in a if row["k"] == key)) for key in keys]


def _counts(a: list[Row], b: list[Row]) -> Rows:
    return [(len(a), len(b))]


_QUERIES: dict[str, tuple[str, Callable[[list[Row], list[Row]], Rows]]] = {
    "both": ("SELECT a.k, a.v, b.v AS w FROM a JOIN b ON a.k = b.k", _both),
    "sums": ("SELECT k, cast(sum(v) AS bigint) AS v FROM a GROUP BY k", _sums),
    "counts": ("SELECT n, m FROM (SELECT count(*) AS n FROM a) CROSS JOIN (SELECT count(*) AS m FROM b)", _counts),
}
_EDITIONS = (("both", "sums"), ("sums", "both"), ("counts", "sums"))
"""What the tables ``first`` and ``second`` may hold: the queries as they are edited."""


@define(eq=False)
class Trial:
    """Two pipelines and one that publishes versions of both, held against the model at every publication."""

    backend: Backend
    sources: dict[str, RowsSource]
    schedule: Schedule
    clock: ManualClock = field(factory=ManualClock)
    edition: int = 0
    made_in: dict[str, int] = field(factory=dict)
    pins: list[Pin] = field(factory=list)

    def settings(self) -> SnapshotSettings:
        first, second = _EDITIONS[self.edition]
        tables = {"first": _QUERIES[first][0], "second": _QUERIES[second][0]}
        keys = {"first": ("k",)} if first == "sums" else {}
        found = SnapshotSettings("pub", {"a": ViewOf("a"), "b": ViewOf("b", "rows")}, tables, _EVERY, keys=keys)
        self.made_in[found.fingerprint] = self.edition
        return found

    def input(self, name: str, fault: Fault | None = None, limit: int = 1_000) -> Runner:
        return self._runner(name, Heap(name), evolve(self.sources[name], limit=limit), fault, keep=1)

    def publisher(self, fault: Fault | None = None) -> Runner:
        chosen = self.settings()
        inputs = PipelineInputs(chosen, self.schedule, self.input, self.backend.queries)
        service = Snapshots(chosen, self.backend.engine, self.backend.queries)
        return self._runner("pub", service, inputs, fault, keep=_KEPT)

    def _runner(self, name: str, service: Service, source: Any, fault: Fault | None, keep: int) -> Runner:
        store = self.backend.open()
        options = RunOptions(compact_every=3, retries=1, retention=Retention(versions=keep), expire_every=2)
        failing = FailingStore(store, fault) if fault else store
        return Runner(name, service, source, failing, store, self.backend.engine, self.clock, uuid4().hex, options)

    # ---- what may happen

    def feed(self, name: str, rows: list[Row], limit: int, fault: Fault | None) -> None:
        self.sources[name].give(rows)
        with suppress(Crash):
            self.input(name, fault, limit).advance()

    def publish(self, pace: Pace, fault: Fault | None) -> None:
        with suppress(Crash):
            self.publisher(fault).advance(pace)

    def edit(self, edition: int) -> None:
        self.edition = edition

    def pass_time(self, minutes: int) -> None:
        self.clock.moment += timedelta(minutes=minutes)

    def pin(self) -> None:
        runner = self.publisher()
        if latest := runner.ledger.latest:
            self.pins.append(runner.upkeep.pin(latest, "a reader", timedelta(days=900)))

    def unpin(self) -> None:
        if self.pins:
            self.pins.pop(0).release()

    def expire(self) -> None:
        self.publisher().upkeep.expire(dry_run=False)
        self.input("a").upkeep.expire(dry_run=False)

    # ---- what must hold

    def check(self) -> None:
        runner = self.publisher()
        publications, read = runner.ledger.known(), self.published
        held = {pin.epoch for pin in self.pins}
        for place, publication in enumerate(publications):
            self.check_version(runner, publication, read, must_read=place < _KEPT or publication.epoch.number in held)
        for newer, older in pairwise(publications):
            assert not Plan.of(newer.offsets).is_like(Plan.of(older.offsets)), "a version was made twice"
        self.check_markers(runner, publications)

    def check_version(
        self, runner: Runner, publication: Publication, read: dict[str, dict[Any, int]], *, must_read: bool
    ) -> None:
        plan = Plan.of(publication.offsets)
        a, b = ([*self.sources[name].given[: read[name][plan.inputs[name]]]] for name in ("a", "b"))
        marks = [max((row["at"] for row in rows), default=None) for rows in (a, b)]
        assert plan.watermark == (None if None in marks else min(filter(None, marks)))
        for table, query in zip(("first", "second"), _EDITIONS[self.made_in[plan.settings]], strict=True):
            try:
                frame = runner.ledger.snapshot(publication).read(f"pub.{table}")
                found = frame.collect(backend="polars").rows()
            except VersionExpired:
                assert not must_read, f"version {publication.epoch.number} has gone too early"
                continue
            assert sorted(found) == sorted(_QUERIES[query][1](a, b)), (table, query, plan)

    def check_markers(self, runner: Runner, publications: list[Publication]) -> None:
        if runner.ledger.latest is None:
            return
        rows = runner.ledger.snapshot().read("pub.markers").collect(backend="polars").rows(named=True)
        told = {row["version"]: row for row in rows}
        assert sorted(told) == list(range(len(rows))), "a marker is missing, or stands twice"
        for publication in publications:
            plan, row = Plan.of(publication.offsets), told[publication.epoch.number]
            assert (row["label"], row["watermark"]) == (plan.label, plan.watermark)
            assert (json.loads(row["inputs"]), row["planned_at"]) == (plan.inputs, plan.planned_at)

    @property
    def published(self) -> dict[str, dict[Any, int]]:
        """How many rows each epoch of an input had read, the one before the first too."""
        return {
            name: {-1: 0} | {each.epoch.number: each.offsets["rows"] for each in self.input(name).ledger.known()}
            for name in self.sources
        }


# ---- schedules

_FAULTS = st.one_of(
    st.none(), st.none(), st.builds(Fault, before=st.booleans(), commit=st.integers(1, 4), passing=st.booleans())
)
_ROW = st.builds(
    lambda k, v, hours: {"k": k, "v": v, "at": _START + timedelta(hours=hours)},
    st.integers(0, 3),
    st.integers(-5, 5),
    st.integers(0, 48),
)


def _steps(rows: int) -> st.SearchStrategy[tuple[Any, ...]]:
    fed = st.lists(_ROW, min_size=1, max_size=rows)
    return st.one_of(
        st.tuples(st.just("feed"), st.sampled_from("ab"), fed, st.integers(1, 3), _FAULTS),
        st.tuples(st.just("publish"), st.sampled_from(list(Pace)), _FAULTS),
        st.tuples(st.just("publish"), st.just(Pace.CLOSE), _FAULTS),
        st.tuples(st.just("edit"), st.integers(0, len(_EDITIONS) - 1)),
        st.tuples(st.just("pass_time"), st.sampled_from([1, 14, 15, 60, -1, -20, -2000])),
        st.tuples(st.sampled_from(["pin", "unpin", "expire"])),
    )


def _hold(backend: Backend, steps: Iterable[tuple[Any, ...]], *, by_watermark: bool) -> None:
    sources = {name: RowsSource(_SCHEMA, backend.frame) for name in "ab"}
    trial = Trial(backend, sources, Schedule(_EVERY, by_watermark=by_watermark))
    for what, *told in steps:
        getattr(trial, what)(*told)
    trial.check()
    for name in "ab":
        trial.input(name).run(until_idle=True)
    runner = trial.publisher()
    runner.run(until_idle=True)
    newest = {name: max(epochs) for name, epochs in trial.published.items()}
    if max(newest.values()) >= 0:
        assert runner.ledger.latest is not None
        assert Plan.of(runner.ledger.latest.offsets).inputs == newest
    trial.check()
    assert not runner.advance(Pace.CLOSE), "nothing had moved"


@given(st.lists(_steps(4), min_size=3, max_size=14), st.booleans())
@settings(max_examples=examples(80))
def test_versions_on_memory(steps: list[tuple[Any, ...]], by_watermark: bool) -> None:  # noqa: FBT001 - drawn
    _hold(memory_backend(), steps, by_watermark=by_watermark)


@given(steps=st.lists(_steps(4), min_size=3, max_size=14), by_watermark=st.booleans())
@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_versions_on_local_delta(tmp_path: Path, steps: list[tuple[Any, ...]], *, by_watermark: bool) -> None:
    _hold(local_delta_backend(str(tmp_path / uuid4().hex)), steps, by_watermark=by_watermark)


@pytest.mark.delta
@pytest.mark.slow
@given(steps=st.lists(_steps(3), min_size=4, max_size=8))
@settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_versions_on_delta(spark: SparkSession, tmp_path: Path, steps: list[tuple[Any, ...]]) -> None:
    _hold(delta_backend(spark, str(tmp_path / uuid4().hex)), steps, by_watermark=False)


@pytest.mark.hudi
@pytest.mark.slow
@pytest.mark.parametrize("name", ["hudi-mor:local", "hudi-cow:local"])
@given(steps=st.lists(_steps(3), min_size=4, max_size=8))
@settings(
    max_examples=8,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
def test_versions_on_hudi(spark: SparkSession, tmp_path: Path, name: str, steps: list[tuple[Any, ...]]) -> None:
    _hold(hudi_backend(spark, str(tmp_path / uuid4().hex), name), steps, by_watermark=False)
