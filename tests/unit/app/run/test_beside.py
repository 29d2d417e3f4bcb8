"""What a run does beside its epochs, on the local engine: compaction, expiry and publishing."""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from attrs import define, evolve, field

from headwater.adapters.delta.compaction_policy import CompactionPolicy
from headwater.adapters.delta.local import compaction, data_files
from headwater.adapters.delta.local.store import LocalDeltaStore
from headwater.adapters.memory_limit import limited_to
from headwater.adapters.polars.sorting import order_code
from headwater.app.run import beside
from headwater.app.run.auto import AutoRunner
from headwater.app.run.beside import work_beside
from headwater.app.run.runner import Runner
from headwater.app.run.sink_publisher import SinkPublisher
from headwater.domain.errors import EpochConflict, HeadwaterError, SinkUnavailable, StoreUnavailable
from headwater.domain.ledger.generation_store import GenerationStore
from headwater.domain.ledger.upkeep import Upkeep
from headwater.domain.ports import Pace, Receipt, StreamSink, Version
from headwater.domain.table.collect import collect_small
from headwater.domain.table.row_kind import INSERT
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts

from .contracts import feed, ranks, right

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import narwhals as nw
    import polars as pl

    from headwater.app.api import Headwater
    from headwater.app.run.report import EpochReport
    from headwater.domain.epoch.epoch import Publication

pytestmark = pytest.mark.local

PATIENCE = 30.0


@define(eq=False)
class Run:
    """A pipeline on the local engine, whose runs work beside its epochs.

    Args:
        trial: the deployment.
        backend: what stands under ``[backend]``.
        sink: gets the ranks, if any.
        on_report: called with each report.
        reports: of all epochs.
    """

    trial: Trial
    backend: str = "compact_every = 2\n"
    sink: StreamSink | None = None
    on_report: Callable[[EpochReport], None] = field(default=lambda _report: None)
    reports: list[EpochReport] = field(factory=list)

    def feed(self, *contracts: int) -> None:
        """Add one epoch for each contract."""
        self.trial.deploy(ranked_contracts(backend=f'name = "delta"\n{self.backend}'))
        feed(self.trial, *contracts)

    def open(self) -> Headwater:
        self.trial.prepare = self._prepare
        return self.trial.open()

    def run(self) -> Headwater:
        headwater = self.open()
        headwater.run(until_idle=True)
        return headwater

    def _prepare(self, runner: Runner) -> None:
        assert isinstance(runner.keeper, GenerationStore)
        store = runner.keeper.store
        assert isinstance(store, LocalDeltaStore)
        store.compaction = CompactionPolicy(min_files=2, min_share=0)
        runner.options = evolve(runner.options, beside=True)
        runner.report = self._report
        if self.sink:
            runner.publisher = SinkPublisher(runner.service, "ranks", None, self.sink, runner.engine, runner.writer)

    def _report(self, report: EpochReport) -> None:
        self.reports.append(report)
        self.on_report(report)

    @property
    def epochs(self) -> list[int]:
        return [report.epoch.number for report in self.reports]

    def compactions(self) -> int:
        """The number of versions of `cells` that no epoch has made."""
        (runner,) = self.trial.open().start()
        return sum(commit.mark is None for commit in runner.store.versions("ranked.cells"))

    def ranks(self) -> dict[int, int]:
        return ranks(self.trial)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with ExitStack() as exits:
        yield Run(Trial(tmp_path, "delta:local", exits))


@define(eq=False)
class Held:
    """Compactions that wait until the test lets them go on."""

    compact: Callable[[LocalDeltaStore, str], Version | None]
    begun: threading.Event = field(factory=threading.Event)
    free: threading.Event = field(factory=threading.Event)
    at_once: list[int] = field(factory=lambda: [0])
    most: int = 0

    def __call__(self, store: LocalDeltaStore, table: str) -> Version | None:
        self.at_once[0] += 1
        self.most = max(self.most, self.at_once[0])
        self.begun.set()
        assert self.free.wait(PATIENCE)
        try:
            return self.compact(store, table)
        finally:
            self.at_once[0] -= 1


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    held = Held(LocalDeltaStore.compact)
    monkeypatch.setattr(LocalDeltaStore, "compact", lambda store, table: held(store, table))  # noqa: PLW0108 - becomes a method
    return held


class TestUpkeep:
    def test_what_is_due_is_done_when_the_run_ends(self, run: Run) -> None:
        run.feed(*range(5))
        headwater = run.run()
        assert run.epochs == list(range(5))
        assert run.compactions() > 0
        assert run.ranks() == right(5)
        (runner,) = headwater.start()
        assert runner.beside is None
        names = {thread.name.rpartition("_")[0] for thread in threading.enumerate()}
        of_the_process = {"headwater-decode", "headwater-indexes"}
        assert not {name for name in names if name.startswith("headwater")} - of_the_process

    def test_epochs_run_while_a_compaction_is_under_way(self, run: Run, held: Held) -> None:
        """It begins after epoch 1, and ends after epoch 2 is published."""

        def on_report(report: EpochReport) -> None:
            if report.epoch.number == 2:
                assert held.begun.wait(PATIENCE)
                held.free.set()

        run.on_report = on_report
        run.feed(0, 1, 2)
        run.run()
        assert run.epochs == [0, 1, 2]
        assert not any("compact" in report.seconds for report in run.reports)
        assert run.compactions() == 1
        assert run.ranks() == right(3)

    def test_an_epoch_waits_if_compaction_falls_behind(
        self, run: Run, held: Held, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Epochs 3 and 5 make the next two compactions due: epoch 5 waits until the one after epoch 1 has ended."""

        monkeypatch.setattr(beside, "_MOST_DUE", 1)
        reached: list[int] = []

        def on_report(report: EpochReport) -> None:
            if report.epoch.number == 4:
                threading.Timer(0.3, lambda: (reached.extend(run.epochs), held.free.set())).start()

        run.on_report = on_report
        run.feed(*range(8))
        run.run()
        assert reached == [0, 1, 2, 3, 4]
        assert held.most == 1
        assert run.ranks() == right(8)

    def test_a_compaction_that_was_put_off_begins_when_the_last_has_ended(self, run: Run, held: Held) -> None:
        begun: list[int] = []

        def on_report(report: EpochReport) -> None:
            if report.epoch.number == 3:  # the next compaction is due, and the last one may end now
                held.free.set()

        def compact(store: LocalDeltaStore, table: str) -> Version | None:
            begun.append(len(run.epochs))
            return compacted(store, table)

        compacted, held.compact = held.compact, compact
        run.on_report = on_report
        run.feed(*range(5))
        run.run()
        tables = len(begun) // 2
        assert tables * 2 == len(begun)
        assert begun[tables] >= 4
        assert run.ranks() == right(5)

    def test_a_fault_of_upkeep_costs_no_epoch(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(LocalDeltaStore, "compact", _fail_with(StoreUnavailable("the disk is full")))
        run.feed(*range(3))
        run.run()
        assert run.epochs == [0, 1, 2]
        assert "ranked: compact failed, and will be tried again: the disk is full" in caplog.text

    def test_a_file_that_goes_while_it_is_compacted_costs_no_epoch(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As when another process compacts and expires: a large file is read when it is needed."""
        monkeypatch.setattr(data_files, "READ_WHOLE", 0)
        monkeypatch.setattr(compaction, "order_code", _read_without_files(run.trial.folder / "tables"))
        run.feed(*range(4))
        run.run()
        assert run.epochs == list(range(4))
        assert "ranked: compact failed, and will be tried again: a data file is gone" in caplog.text
        assert run.compactions() > 0
        assert run.ranks() == right(4)

    @pytest.mark.parametrize("count", [2, 4], ids=["at the end of the run", "at a later epoch"])
    def test_another_error_ends_the_run(self, run: Run, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        monkeypatch.setattr(LocalDeltaStore, "compact", _fail_with(RuntimeError("a defect")))
        run.feed(*range(count))
        with pytest.raises(RuntimeError, match="a defect"):
            run.run()

    def test_the_error_of_the_run_comes_first(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def on_report(report: EpochReport) -> None:
            if report.epoch.number == 1:
                raise EpochConflict("the run has failed")

        monkeypatch.setattr(LocalDeltaStore, "compact", _fail_with(RuntimeError("a defect")))
        run.on_report = on_report
        run.feed(0, 1, 2)
        with pytest.raises(EpochConflict, match="the run has failed"):
            run.run()
        assert "work beside its epochs failed too: a defect" in caplog.text
        assert "Traceback" in caplog.text

    def test_a_compaction_beyond_its_memory_is_made_between_epochs(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        monkeypatch.setattr(Runner, "memory_beside", lambda _runner: limited_to(1))
        run.feed(*range(4))
        run.run()
        assert "ranked: to be compacted between the epochs: it needs about" in caplog.text
        assert run.compactions() > 0
        assert run.ranks() == right(4)

    def test_old_versions_expire(self, run: Run) -> None:
        run.backend = "compact_every = 2\nexpire_every = 2\nretain = { versions = 2 }\n"
        run.feed(*range(5))
        headwater = run.run()
        readable = [(each.publication.epoch.number, each.readable) for each in headwater.upkeep("ranked").versions()]
        assert readable[:3] == [(4, True), (3, True), (2, True)]  # as of epoch 3, when this was due last
        assert not any(kept for _, kept in readable[3:])
        assert run.ranks() == right(5)

    def test_after_a_long_expiry_the_next_one_waits_for_the_end(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(beside, "_REST", 1_000_000)
        run.backend = "expire_every = 1\nretain = { versions = 2 }\n"
        run.feed(*range(6))
        with patch.object(Upkeep, "expire", autospec=True, side_effect=Upkeep.expire) as expire:
            headwater = run.run()
        first, *others = (call.kwargs["as_of"] for call in expire.call_args_list)
        assert others == [5] or first == 5
        readable = [each.publication.epoch.number for each in headwater.upkeep("ranked").versions() if each.readable]
        assert readable == [5, 4]

    def test_a_leased_version_stays(self, run: Run) -> None:
        run.backend = "expire_every = 1\nretain = { versions = 1 }\n"
        run.feed(0, 1)
        headwater = run.run()
        with headwater.pin("ranked", hold="1h") as pin:
            run.feed(2, 3, 4)
            run.run()
            assert headwater.view("ranked", at=pin.epoch).height == 2
        readable = {each.publication.epoch.number: each.readable for each in headwater.upkeep("ranked").versions()}
        assert {epoch for epoch, kept in readable.items() if kept} == {1, 4}

    def test_a_single_epoch_does_all_in_its_path(self, run: Run) -> None:
        run.feed(0, 1)
        (runner,) = run.open().start()
        assert runner.advance()
        assert runner.advance()
        assert "compact" in run.reports[1].seconds

    def test_memory_works_between_its_epochs(self, tmp_path: Path) -> None:
        with ExitStack() as exits:
            trial = Trial(tmp_path, "memory", exits)
            trial.deploy(ranked_contracts())
            (runner,) = trial.open().start()
            runner.options = evolve(runner.options, beside=True)
            with work_beside([runner]):
                assert runner.beside is None


@define(eq=False)
class Topic(StreamSink):
    """A sink in memory.

    Args:
        before: called with the number of each epoch before it is published.
    """

    before: Callable[[int], None] = field(default=lambda _epoch: None)
    epochs: list[int] = field(factory=list)
    rows: dict[int, int] = field(factory=dict)
    receipt: Receipt | None = None
    claims: int = 0

    def published(self) -> Receipt | None:
        return self.receipt

    def claim(self) -> Receipt | None:
        self.claims += 1
        return self.receipt

    def publish(self, changes: nw.LazyFrame[Any], publication: Publication) -> None:
        self.before(publication.epoch.number)
        found = collect_small(changes.select("contract", "rank", "_row_kind"))
        self.rows |= {row["contract"]: row["rank"] for row in found if row["_row_kind"] in {INSERT, "+U"}}
        self.epochs.append(publication.epoch.number)
        self.receipt = Receipt.of(publication)


class TestPublishing:
    def test_a_sink_may_be_behind_and_gets_each_epoch_once_in_order(self, run: Run) -> None:
        third = threading.Event()
        run.sink = topic = Topic(lambda epoch: None if epoch != 1 else _await(third))
        run.on_report = lambda report: third.set() if report.epoch.number == 3 else None
        run.feed(*range(6))
        run.run()
        assert topic.epochs == run.epochs == list(range(6))
        assert topic.rows == run.ranks() == right(6)

    def test_a_run_without_rows_ends(self, run: Run) -> None:
        run.sink = topic = Topic()
        run.feed()
        run.run()
        assert (run.epochs, topic.epochs) == ([], [])

    def test_a_run_until_idle_looks_again_once_all_is_published(self, run: Run) -> None:
        """Another pipeline of the run may read the topic."""
        last = threading.Event()
        run.sink = topic = Topic(lambda epoch: None if epoch != 1 else _await(last))
        run.feed(0, 1)
        (runner,) = run.open().start()
        with work_beside([runner]):
            assert [runner.advance(Pace.DRAIN), runner.advance(Pace.DRAIN)] == [True, True]
            threading.Timer(0.1, last.set).start()
            assert runner.advance(Pace.DRAIN)
            assert topic.epochs == [0, 1]
            assert not runner.advance(Pace.DRAIN)

    def test_an_epoch_waits_if_the_sink_falls_too_far_behind(self, run: Run) -> None:
        free = threading.Event()
        reached: list[int] = []

        def before(epoch: int) -> None:
            if epoch == 1:
                _await(free)

        def on_report(report: EpochReport) -> None:
            if report.epoch.number == 4:
                threading.Timer(0.5, lambda: (reached.extend(run.epochs), free.set())).start()

        run.sink, run.on_report = (topic := Topic(before)), on_report
        run.feed(*range(8))
        run.run()
        assert reached == [0, 1, 2, 3, 4]  # epochs 1 to 4 wait for the sink, and so does the report of epoch 5
        assert topic.epochs == list(range(8))

    def test_a_fault_that_passes_loses_nothing(self, run: Run, caplog: pytest.LogCaptureFixture) -> None:
        run.sink = topic = Topic(_once(2, SinkUnavailable("no broker")))
        run.feed(*range(5))
        run.run()
        assert topic.epochs == list(range(5))
        assert topic.rows == right(5)
        assert "ranked: publishing failed, and is tried again: no broker" in caplog.text

    @pytest.mark.parametrize("epoch", [2, 4], ids=["in the middle", "at the last epoch"])
    @pytest.mark.parametrize("fault", [EpochConflict("claimed by another run"), SinkUnavailable("no broker")])
    def test_a_fault_that_lasts_ends_the_run(self, run: Run, epoch: int, fault: HeadwaterError) -> None:
        def before(number: int) -> None:
            if number >= epoch:
                raise fault

        run.sink = topic = Topic(before)
        run.feed(*range(5))
        with pytest.raises(type(fault), match=str(fault)):
            run.run()
        assert topic.epochs == list(range(epoch))
        if isinstance(fault, EpochConflict):
            assert topic.claims == 2  # once more, as this run wrote the tables last, and then no more
        topic.before = lambda _epoch: None
        run.run()
        assert topic.epochs == list(range(5))
        assert topic.rows == right(5)

    def test_epochs_that_wait_behind_a_conflict_do_not_claim_the_sink_again(self, run: Run) -> None:
        fourth = threading.Event()

        def before(epoch: int) -> None:
            if epoch == 1:
                _await(fourth)
                raise EpochConflict("claimed by another run")

        run.sink = topic = Topic(before)
        run.on_report = lambda report: fourth.set() if report.epoch.number == 3 else None
        run.feed(*range(5))
        with pytest.raises(EpochConflict, match="claimed by another run"):
            run.run()
        assert topic.claims == 2  # once more for epoch 1, as this run wrote the tables last
        assert topic.epochs == [0]

    def test_a_fault_at_the_end_of_a_stopped_run_is_raised(self, run: Run) -> None:
        run.sink = topic = Topic(_once(1, SinkUnavailable("no broker"), again=True))
        run.feed(0, 1)
        headwater = run.open()
        run.on_report = lambda report: headwater.stop() if report.epoch.number == 1 else None
        with pytest.raises(SinkUnavailable, match="no broker"):
            headwater.run()
        assert topic.epochs == [0]

    def test_what_the_sink_needs_does_not_expire_before(self, run: Run) -> None:
        run.backend = "expire_every = 1\nretain = { versions = 3 }\n"
        late = threading.Event()
        run.sink = topic = Topic(lambda epoch: None if epoch != 1 else _await(late))
        run.on_report = lambda report: late.set() if report.epoch.number == 1 else None
        run.feed(*range(6))
        run.run()
        assert topic.epochs == list(range(6))
        assert topic.rows == right(6)

    @pytest.mark.parametrize("versions", [1, 2])
    def test_few_versions_leave_no_room_to_be_behind(self, run: Run, versions: int) -> None:
        run.backend = f"retain = {{ versions = {versions} }}\n"
        seen: list[list[int]] = []
        run.sink = Topic(lambda _epoch: seen.append(run.epochs))
        run.feed(*range(4))
        run.run()
        assert seen == [list(range(epoch)) for epoch in range(4)]

    def test_beyond_its_memory_it_is_published_between_epochs(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        monkeypatch.setattr(Runner, "memory_beside", _little)
        run.sink = topic = Topic()
        run.feed(*range(4))
        run.run()
        assert topic.epochs == list(range(4))
        assert "ranked: to be published between the epochs: it needs about" in caplog.text


class TestTwoEngines:
    """Both engines are the local one here, so that only the choice is tested."""

    LARGE, SMALL = 1, 10**9

    def open(self, run: Run, limit: int) -> AutoRunner:
        (runner,) = run.open().start()

        def make_large(small: AutoRunner) -> Runner:
            (large,) = run.open().start()
            large.engine_name, large.stop_asked = "spark", small.stop_asked
            return large

        return AutoRunner(
            "ranked",
            service=runner.service,
            source=runner.source,
            store=runner.store,
            keeper=runner.keeper,
            engine=runner.engine,
            clock=runner.clock,
            writer="small",
            options=runner.options,
            report=runner.report,
            publisher=runner.publisher,
            engine_name="local",
            make_large=make_large,
            limit=limit,
            find_refusal=lambda: None,
        )

    def test_the_sink_gets_the_epochs_of_both_in_order(self, run: Run) -> None:
        run.sink = topic = Topic()
        run.feed(*range(9))
        runner = self.open(run, self.SMALL)

        def on_report(report: EpochReport) -> None:
            runner.limit = self.LARGE if report.epoch.number % 4 > 1 else self.SMALL

        run.on_report = on_report
        with work_beside([runner]):
            runner.run(until_idle=True)
        small, large = ["local"] * 2, ["spark"] * 2
        assert [report.engine for report in run.reports] == ["local", *small, *large, *small, *large]
        assert topic.epochs == run.epochs == list(range(9))
        assert topic.rows == run.ranks() == right(9)

    def test_a_large_compaction_is_made_between_epochs_by_the_other(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        monkeypatch.setattr(AutoRunner, "memory_beside", _little)
        run.feed(*range(4))
        runner = self.open(run, self.LARGE)
        runner.limit = self.SMALL  # of epochs; that of compactions stays
        with work_beside([runner]):
            runner.run(until_idle=True)
        assert "ranked: to be compacted between the epochs" in caplog.text
        assert run.compactions() > 0
        assert {report.engine for report in run.reports} == {"local"}
        assert run.ranks() == right(4)


def _little(_runner: Runner) -> AbstractContextManager[None]:
    return limited_to(1)


def _await(event: threading.Event) -> None:
    assert event.wait(PATIENCE)


def _once(epoch: int, fault: HeadwaterError, *, again: bool = False) -> Callable[[int], None]:
    """Fail before an epoch is published: once, or each time."""
    left = [fault]

    def before(number: int) -> None:
        if number == epoch and left:
            raise left[0] if again else left.pop()

    return before


def _fail_with(error: Exception) -> Callable[[LocalDeltaStore, str], Version | None]:
    def compact(_store: LocalDeltaStore, _table: str) -> Version | None:
        raise error

    return compact


def _read_without_files(folder: Path) -> Callable[[Iterable[Iterable[pl.Series]]], pl.Series | None]:
    """Read the codes of rows; the first time, the data files below a folder are away meanwhile."""
    tries = iter([1])

    def read(columns: Iterable[Iterable[pl.Series]]) -> pl.Series | None:
        files = list(folder.rglob("part-*.parquet")) if next(tries, 0) else []
        for file in files:
            file.rename(file.with_suffix(".away"))
        try:
            return order_code(columns)
        finally:
            for file in files:
                file.with_suffix(".away").rename(file)

    return read
