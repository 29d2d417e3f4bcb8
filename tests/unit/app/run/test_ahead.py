"""Epochs that are read while the one before them is computed and committed."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, evolve, field

from headwater.adapters.files.polars_source import PolarsFileSource
from headwater.adapters.memory_limit import held_rows, hold_rows, limited_to
from headwater.app.run.beside import work_beside
from headwater.app.run.runner import Runner
from headwater.domain.errors import SourceChanged
from headwater.domain.ports import Pace
from headwater.testing.failing_store import FailingStore, Fault
from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts

from .contracts import feed, ranks, record, right

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import narwhals as nw

    from headwater.app.api import Headwater
    from headwater.app.run.report import EpochReport
    from headwater.domain.epoch.epoch import OffsetRange

PATIENCE = 30.0
MESSAGES = 'kind = "files"\npath = "in"\nformat = "maxwell-json"\ntables = ["shop.contracts"]\n'


@define(eq=False)
class Run:
    """A pipeline whose runs read ahead.

    Args:
        trial: the deployment.
        prepare: is called with the runner before it runs.
        reports: of all epochs.
    """

    trial: Trial
    prepare: Callable[[Runner], None] = field(default=lambda _runner: None)
    reports: list[EpochReport] = field(factory=list)

    def feed(self, *contracts: int) -> None:
        feed(self.trial, *contracts)

    def open(self) -> Headwater:
        self.trial.prepare = self._prepare
        return self.trial.open()

    def run(self) -> None:
        self.open().run(until_idle=True)

    def _prepare(self, runner: Runner) -> None:
        runner.options = evolve(runner.options, beside=True)
        runner.report = self.reports.append
        self.prepare(runner)

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """The number and the rows of each epoch."""
        return [(report.epoch.number, report.rows) for report in self.reports]

    def ranks(self) -> dict[int, int]:
        return ranks(self.trial)


@pytest.fixture(params=["memory", pytest.param("delta:local", marks=pytest.mark.local)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    with ExitStack() as exits:
        trial = Trial(tmp_path, request.param, exits)
        trial.deploy(ranked_contracts())
        yield Run(trial)


@define(eq=False)
class Reads:
    """The ranges that are read, each by the number of files before it, and what happens at each read."""

    read: Callable[[PolarsFileSource, OffsetRange], nw.LazyFrame[Any]] = PolarsFileSource.read
    at: Callable[[int], None] = field(default=lambda _files: None)
    starts: list[int] = field(factory=list)
    threads: list[str] = field(factory=list)

    def __call__(self, source: PolarsFileSource, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        self.starts.append(offsets.after["count"] if offsets.after else 0)
        self.threads.append(threading.current_thread().name)
        self.at(self.starts[-1])
        return self.read(source, offsets)

    @property
    def ahead(self) -> list[int]:
        """Those that another thread has read."""
        return [start for start, name in zip(self.starts, self.threads, strict=True) if "read-ranked" in name]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    reads = Reads()
    monkeypatch.setattr(PolarsFileSource, "read", lambda source, offsets: reads(source, offsets))  # noqa: PLW0108 - becomes a method
    return reads


def test_a_backlog_is_read_while_epochs_are_computed(run: Run, reads: Reads) -> None:
    begun = {start: threading.Event() for start in range(5)}
    reads.at = lambda start: begun[start].set()

    def prepare(runner: Runner) -> None:
        step = runner.service.step

        def waiting(batch: Any, before: Any) -> Any:
            if batch.epoch.number < 3:
                assert begun[batch.epoch.number + 1].wait(PATIENCE)  # it is read before this one is computed
            return step(batch, before)

        runner.service.step = waiting  # type: ignore[method-assign]

    run.prepare = prepare
    run.feed(*range(5))
    run.run()
    assert (reads.starts, reads.ahead) == ([0, 1, 2, 3, 4], [1, 2, 3])  # behind the last one nothing is waiting
    assert run.epochs == [(number, 1) for number in range(5)]
    assert run.ranks() == right(5)


def test_a_trickle_is_planned_when_its_epoch_begins(run: Run, reads: Reads) -> None:
    def more(report: EpochReport) -> None:
        run.reports.append(report)
        if report.epoch.number < 3:
            run.feed(report.epoch.number + 1)

    run.prepare = lambda runner: setattr(runner, "report", more)
    run.feed(0)
    run.run()
    assert (reads.ahead, reads.starts) == ([], [0, 1, 2, 3])


@pytest.mark.lengthy
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("commit", [2, 3, 4])
def test_an_epoch_whose_commit_failed_is_done_again(run: Run, reads: Reads, commit: int, *, before: bool) -> None:
    fault = Fault(before, commit, passing=True)
    run.prepare = lambda runner: setattr(runner, "store", FailingStore(runner.store, fault))
    run.feed(*range(5))
    run.run()
    assert sorted(set(reads.starts)) == [0, 1, 2, 3, 4]
    assert reads.ahead
    assert run.ranks() == right(5)


def test_a_file_that_changes_is_told_by_its_own_epoch(run: Run, reads: Reads) -> None:
    def change(start: int) -> None:
        if start == 2:
            raise SourceChanged("a file has changed")

    reads.at = change
    run.feed(*range(5))
    with pytest.raises(SourceChanged):
        run.run()
    assert run.epochs == [(0, 1), (1, 1)]
    assert reads.ahead == [1, 2]


def test_skipped_messages_are_counted_in_their_own_epoch(run: Run) -> None:
    run.trial.deploy(ranked_contracts(source=MESSAGES))
    for epoch in range(5):
        messages = [_message("contracts", epoch), *[_message("others", epoch)] * epoch]
        run.trial.feed("contracts", [json.dumps(message) for message in messages])
    run.run()
    skipped = [dict(report.passed_over) for report in run.reports]
    assert skipped == [{}, *({"shop.others": epoch} for epoch in range(1, 5))]
    assert run.ranks() == right(5)


def _message(table: str, contract: int) -> dict[str, Any]:
    return {"database": "shop", "table": table, "type": "insert", "ts": 1, "xid": contract, "data": record(contract)}


def test_what_is_too_large_to_be_read_ahead_is_read_by_its_epoch(
    run: Run, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "memory_beside", lambda _self: limited_to(1000))
    reads.at = lambda _start: hold_rows(1001)
    run.feed(*range(5))
    run.run()
    assert (reads.ahead, reads.starts) == ([1, 2, 3], [0, 1, 1, 2, 2, 3, 3, 4])
    assert run.ranks() == right(5)


def test_rows_read_ahead_count_in_the_memory_of_their_epoch(
    run: Run, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "memory_beside", lambda _self: limited_to(10_000_000))
    reads.at = lambda _start: hold_rows(5000)
    run.feed(*range(3))
    held = []
    (runner,) = run.open().start()
    with work_beside([runner]):
        for _ in range(3):
            with limited_to(10_000_000):
                assert runner.advance(Pace.DRAIN)
                held.append(held_rows())
    assert reads.ahead == [1]
    assert min(held) > 5000


TOPICS = """
[sources.info]
kind = "files"
path = "info"
schema = "id bigint, item string"
[sources.stock]
kind = "files"
path = "stock"
schema = "id bigint, level bigint"
[pipelines.ranked]
service = "wide_table"
key = ["id"]
[pipelines.ranked.topics.info]
source = "info"
columns = ["item"]
sequence = ["id"]
[pipelines.ranked.topics.stock]
source = "stock"
columns = ["level"]
sequence = ["id"]
"""


def test_topics_are_read_ahead_together(run: Run, reads: Reads) -> None:
    run.trial.deploy('[backend]\nname = "memory"\n' + TOPICS)
    for number in range(4):
        run.trial.feed("info", [json.dumps({"id": number, "item": f"i{number}"})])
        run.trial.feed("stock", [json.dumps({"id": number, "level": number})])
    run.run()
    assert reads.ahead == [1, 1, 2, 2]
    rows = run.trial.open().view("ranked.rows").select("id", "item", "level").rows()
    assert sorted(rows) == [(number, f"i{number}", number) for number in range(4)]
