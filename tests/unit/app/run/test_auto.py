"""Which of two engines runs an epoch; both are Polars in memory here, so that only the choice is tested."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, evolve, field

from headwater.adapters.memory.queries import DuckQueries
from headwater.adapters.memory_limit import hold_rows
from headwater.app.run.auto import AutoRunner, LargeCompactions, TriedQueries, deferred
from headwater.app.run.backoff import Backoff
from headwater.app.run.loading import is_loading
from headwater.app.run.replay import replay
from headwater.domain.errors import BadInput, ConfigError, EngineLimit, EpochConflict, StoreUnavailable
from headwater.domain.table.schema import Schema
from headwater.testing.failing_store import Crash, FailingStore, Fault
from headwater.testing.frames import polars_frame
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.app.run.report import EpochReport
    from headwater.app.run.runner import Runner
    from headwater.domain.epoch.epoch import Mark
    from headwater.domain.ports import KeptStore

SMALL, LARGE = 10_000_000, 1
STATES = """
[backend]
name = "memory"
[sources.orders]
kind = "files"
path = "in"
schema = "id bigint, day date, amount bigint"
event_time = "day"
[pipelines.sums]
service = "retraction"
source = "orders"
group = []
measures = { amount = "sum(amount)" }
updated_at = "day"
"""


def row(contract: int) -> str:
    return json.dumps({"project": 1, "contract": contract, "signed": "2024-03-01T09:00:00Z"})


@define(eq=False)
class Pair:
    """A pipeline on two engines over the same tables in memory."""

    trial: Trial
    name: str = "ranked"
    limit: int = SMALL
    refusal: str | None = None
    reports: list[EpochReport] = field(factory=list)
    made: list[Runner] = field(factory=list)
    spoil: Callable[[Runner], None] = field(default=lambda _runner: None)

    def feed(self, *lines: str) -> None:
        (source,) = self.trial.deployment().sources
        self.trial.feed(source, lines)

    def open(self) -> AutoRunner:
        (runner,) = self.trial.open().start([self.name])

        def make_large(small: AutoRunner) -> Runner:
            (found,) = self.trial.open().start([self.name])
            found.engine_name, found.report = "spark", small.report
            found.losses, found.stop_asked, found.clock = small.losses, small.stop_asked, small.clock
            self.spoil(found)
            self.made.append(found)
            return found

        return AutoRunner(
            self.name,
            service=runner.service,
            source=runner.source,
            store=runner.store,
            keeper=runner.keeper,
            engine=runner.engine,
            clock=runner.clock,
            writer="small",
            options=evolve(runner.options, retries=1, backoff=Backoff()),
            report=self.reports.append,
            engine_name="local",
            settings=runner.settings,
            make_large=make_large,
            limit=self.limit,
            find_refusal=lambda: self.refusal,
        )

    @property
    def engines(self) -> list[tuple[int, str | None]]:
        return [(report.epoch.number, report.engine) for report in self.reports]

    def marks(self, table: str) -> list[Mark]:
        (runner,) = self.trial.open().start([self.name])
        found = [commit.mark for commit in runner.store.versions(f"{self.name}.{table}")]
        return [mark for mark in reversed(found) if mark is not None]

    def contracts(self) -> list[int]:
        return sorted(self.trial.open().view("ranked.ranks")["contract"].to_list())


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as exits:
        trial = Trial(tmp_path, "memory", exits)
        trial.deploy(ranked_contracts())
        yield Pair(trial)


class TestChoice:
    def test_a_small_epoch_does_not_start_the_large_engine(self, pair: Pair) -> None:
        pair.feed(row(1))
        pair.open().run(until_idle=True)
        assert pair.engines == [(0, "local")]
        assert not pair.made

    def test_an_epoch_beyond_the_limit_is_done_by_the_large_engine(self, pair: Pair) -> None:
        runner = pair.open()
        for number, limit in enumerate((SMALL, LARGE, LARGE, SMALL)):
            pair.feed(row(number))
            runner.limit = limit
            assert runner.advance()
        assert not runner.advance()
        assert pair.engines == [(0, "local"), (1, "spark"), (2, "spark"), (3, "local")]
        assert len(pair.made) == 1
        assert pair.contracts() == [0, 1, 2, 3]
        assert [mark.engine for mark in pair.marks("cells")] == ["local", "spark", "spark", "local"]
        assert runner.current_ledger().engine == "local"

    def test_what_the_small_engine_refuses_never_begins_there(self, pair: Pair) -> None:
        pair.refusal = "it does not read that source"
        pair.feed(row(1))
        runner = pair.open()
        runner.run(until_idle=True)
        assert pair.engines == [(0, "spark")]

    def test_what_it_turns_out_to_refuse_is_not_tried_again(
        self, pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        runner, tries = pair.open(), []

        def refuse(*_arguments: Any) -> None:
            tries.append(1)
            raise EngineLimit("not this SQL", lasting=True)

        monkeypatch.setattr(runner.service, "step", refuse)
        caplog.set_level("INFO")
        for number in range(3):
            pair.feed(row(number))
        runner.run(until_idle=True)
        assert pair.engines == [(0, "spark"), (1, "spark"), (2, "spark")]
        assert len(tries) == 1
        assert runner.refusal == "not this SQL"
        assert "ranked: beyond engine local: not this SQL" in caplog.text

    def test_what_only_reads_does_not_start_it(self, pair: Pair) -> None:
        pair.refusal = "never"
        runner = pair.open()
        assert not is_loading(runner.ledger, runner.service)
        assert runner.current_ledger().latest is None
        assert runner.current_ledger().engine is None
        assert not pair.made

    def test_both_are_asked_to_stop(self, pair: Pair) -> None:
        pair.refusal = "never"
        runner = pair.open()
        runner.stop()
        assert runner.large.stopping

    def test_whole_tables_are_for_the_large_engine(self, pair: Pair) -> None:
        runner = pair.open()
        assert runner.for_large() is runner.large


class TestFaults:
    def test_commits_of_a_first_try_are_rolled_back(self, pair: Pair) -> None:
        """The limit is met when the second table is committed: its merge reads what is stored."""
        pair.feed(row(1))
        runner = pair.open()
        runner.run(until_idle=True)
        commit = runner.store.commit

        def beyond(table: str, *arguments: Any) -> Any:
            if table == "ranked.cells":
                hold_rows(10 * SMALL)
            return commit(table, *arguments)

        (own,) = pair.trial.open().start(["ranked"])
        store = _Store(own.store, beyond)
        runner.store = store  # type: ignore[assignment]
        runner.reopen()
        pair.feed(row(2))
        runner.run(until_idle=True)
        assert pair.engines == [(0, "local"), (1, "spark")]
        found = [(mark.epoch.number, mark.engine, mark.rolls_back) for mark in pair.marks("ranked")]
        assert found == [(0, "local", False), (1, "local", False), (1, "spark", True), (1, "spark", False)]
        assert pair.contracts() == [1, 2]

    @pytest.mark.parametrize("commit", [1, None])
    def test_an_epoch_is_finished_by_the_engine_that_began_it(self, pair: Pair, commit: int | None) -> None:
        """It would fit the small engine by now; but then its commits would be of two engines."""
        pair.feed(row(1))
        pair.limit = LARGE
        pair.spoil = lambda large: _fail(large, Fault(before=commit is None, commit=commit))
        with pytest.raises(Crash):
            pair.open().run(until_idle=True)
        pair.limit, pair.spoil = SMALL, lambda _large: None
        pair.open().run(until_idle=True)
        assert pair.engines == [(0, "spark")]
        assert [mark.rolls_back for mark in pair.marks("ranked")] == [False]
        assert pair.contracts() == [1]

    def test_an_epoch_that_has_grown_is_rolled_back_by_the_other(self, pair: Pair) -> None:
        pair.feed(row(1))
        runner = pair.open()
        _fail(runner, Fault(before=False, commit=1))
        with pytest.raises(Crash):
            runner.run(until_idle=True)
        pair.limit = LARGE
        pair.open().run(until_idle=True)
        assert pair.engines == [(0, "spark")]
        found = [(mark.engine, mark.rolls_back) for mark in pair.marks("ranked")]
        assert found == [("local", False), ("spark", True), ("spark", False)]

    @pytest.mark.parametrize("limits", [(SMALL, SMALL), (SMALL, LARGE), (LARGE, SMALL), (LARGE, LARGE)])
    def test_a_second_run_is_refused(self, pair: Pair, limits: tuple[int, int]) -> None:
        """A change of engines is no way around."""
        pair.feed(row(1))
        runner = pair.open()
        runner.limit = limits[0]
        runner.run(until_idle=True)
        pair.feed(row(2))
        pair.open().run(until_idle=True)
        pair.feed(row(3))
        runner.limit = limits[1]
        with pytest.raises(EpochConflict, match="one run at a time"):
            runner.run(until_idle=True)
        assert pair.contracts() == [1, 2]

    def test_a_second_run_that_began_before_the_first_publication_is_refused(self, pair: Pair) -> None:
        pair.refusal = "never"
        pair.feed(row(1))
        runner = pair.open()
        assert runner.current_ledger().latest is None
        pair.open().run(until_idle=True)
        pair.feed(row(2))
        with pytest.raises(EpochConflict, match="epoch 0 was to be made"):
            runner.run(until_idle=True)
        assert pair.contracts() == [1]

    def test_a_passing_fault_is_retried_on_its_engine(self, pair: Pair) -> None:
        pair.feed(row(1))
        runner = pair.open()
        _fail(runner, Fault(before=True, commit=1, passing=True))
        runner.run(until_idle=True)
        assert pair.engines == [(0, "local")]

    def test_a_fault_that_lasts_ends_the_run(self, pair: Pair) -> None:
        pair.feed(row(1))
        runner = pair.open()
        runner.options = evolve(runner.options, retries=0)
        _fail(runner, Fault(before=True, commit=1, passing=True))
        with pytest.raises(StoreUnavailable):
            runner.run(until_idle=True)
        assert not pair.made


class TestOtherWork:
    @pytest.mark.parametrize(("limit", "engine"), [(SMALL, "local"), (LARGE, "spark")])
    def test_dead_letters_are_read_again(self, pair: Pair, limit: int, engine: str) -> None:
        pair.feed(row(1), "{}", '{"project": 1}')
        runner = pair.open()
        runner.run(until_idle=True)
        runner.limit = limit
        lost = runner.losses
        found = runner.do(replay)
        assert (found.read, found.left) == (2, 2)
        assert pair.engines == [(0, "local"), (1, engine)]
        assert runner.losses is lost

    @pytest.mark.parametrize(("limit", "engine"), [(SMALL, "local"), (LARGE, "spark")])
    def test_days_are_rolled(self, pair: Pair, limit: int, engine: str) -> None:
        pair.trial.deploy(STATES)
        pair.name = "sums"
        for day in (1, 2, 3):
            pair.feed(json.dumps({"id": day, "day": f"2024-03-0{day}", "amount": day}))
        runner = pair.open()
        runner.run(until_idle=True)
        runner.limit = limit

        def roll(each: Any) -> None:
            def rolled(_epoch: Any, at: Any) -> Any:
                hold_rows(10)
                return each.service.roll(date(2024, 3, 2), at)

            each.amend("roll", rolled)

        runner.do(roll)
        assert pair.engines[-1] == (3, engine)
        assert pair.trial.open().view("sums.totals")["amount"].to_list() == [6]

    def test_a_large_compaction(self) -> None:
        asked: list[str] = []
        small, large = _Keeper(asked, "small", 5), _Keeper(asked, "large", 0)
        keepers: Any = (small, lambda: large)
        assert LargeCompactions(*keepers, limit=10).compact("t") == "small"
        assert LargeCompactions(*keepers, limit=4).compact("t") == "large"
        assert asked == ["small", "small", "large"]
        now = datetime(2024, 1, 1, tzinfo=UTC)
        assert LargeCompactions(*keepers, limit=4).expire("t", [], now=now, dry_run=True) == "small"

    def test_the_sink_gets_an_epoch_that_the_small_engine_cannot_read(self, pair: Pair) -> None:
        told: list[tuple[str, int]] = []
        pair.spoil = lambda large: setattr(large, "publisher", _Publisher(told, "spark", 0))
        pair.feed(row(1))
        runner = pair.open()
        runner.publisher = _Publisher(told, "local", 10 * SMALL)  # type: ignore[assignment]
        runner.run(until_idle=True)
        assert pair.engines == [(0, "local")]
        assert ("spark", 0) in told
        assert ("local", 0) not in told


class TestQueries:
    TABLES = {"t": polars_frame([("1",), ("x",)], Schema.parse("a string"))}  # noqa: RUF012

    def test_an_answer(self) -> None:
        found = TriedQueries(DuckQueries()).query("SELECT count(*) AS n FROM t", self.TABLES)
        assert found.collect(backend="pyarrow").rows() == [(2,)]

    def test_what_is_refused_lasts(self) -> None:
        with pytest.raises(EngineLimit, match="java_method") as caught:
            TriedQueries(DuckQueries()).query("SELECT java_method('a', 'b') AS a FROM t", self.TABLES)
        assert caught.value.lasting
        assert isinstance(caught.value.__cause__, ConfigError)

    def test_a_value_may_be_another_one_next_time(self) -> None:
        class Values(DuckQueries):
            def query(self, *_arguments: Any, **_more: Any) -> Any:
                raise BadInput("a value does not fit")

        with pytest.raises(EngineLimit, match="does not fit") as caught:
            TriedQueries(Values()).query("SELECT 1", {})
        assert not caught.value.lasting

    @pytest.mark.parametrize("format_", ["delta", "parquet"])
    def test_plain_tables(self, tmp_path: Path, format_: str) -> None:
        queries = TriedQueries(DuckQueries())
        for ask in (queries.scan, queries.state):
            with pytest.raises(EngineLimit) as caught:
                ask(str(tmp_path), format_)
            assert caught.value.lasting


def test_an_object_is_made_when_it_is_used() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return [1, 2, 1]

    found = deferred(make)
    assert not made
    assert found.count(1) == 2
    assert found.index(2) == 1
    assert made == [1]


@define(eq=False)
class _Store:
    """A store whose commits are made by a function."""

    store: KeptStore
    commit: Callable[..., Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@define(eq=False)
class _Keeper:
    asked: list[str]
    name: str
    size: int

    def compact(self, _table: str) -> str:
        self.asked.append(self.name)
        hold_rows(self.size)
        return self.name

    def expire(self, *_arguments: Any, **_more: Any) -> str:
        return self.name


@define(eq=False)
class _Publisher:
    told: list[tuple[str, int]]
    name: str
    size: int
    sink_epoch: int | None = None

    def reopen(self) -> None:
        pass

    def catch_up(self, ledger: Any, _rows: int | None) -> None:
        if ledger.latest:
            hold_rows(self.size)
            self.told.append((self.name, ledger.latest.epoch.number))


def _fail(runner: Runner, fault: Fault) -> None:
    runner.store = FailingStore(runner.store, fault)
