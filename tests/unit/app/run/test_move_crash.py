"""A move that dies at any of its commits leaves a mark or a complete copy: no run begins from nothing, and it resumes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from headwater import Headwater
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.errors import ConfigError, UnfinishedMove
from headwater.domain.ledger.move_record import UnderWay, read_move, record_move
from headwater.domain.ledger.record import Recorder
from headwater.domain.table.change import Change
from headwater.testing.failing_store import Crash, FailingStore, Fault

from .test_move import AFTER, BEFORE, CONFIG, IDLE, arrive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.app.run.runner import Runner

OTHER = """
[pipelines.other]
service = "ranking"
source = "contracts"
group = ["contract"]
id = ["project"]
order_by = "signed"
"""
MOVED = ["ranked", "other"]
pytestmark = pytest.mark.lengthy


class Folders:
    """Deployments in memory whose tables outlive them, so that each opens as another process would."""

    def __init__(self, folder: Path, exits: ExitStack) -> None:
        self.folder, self.exits = folder, exits
        self.stores: dict[str, Any] = {}

    def open(self, place: str, fault: Fault | None = None, path: str | None = None) -> Headwater:
        headwater = self.exits.enter_context(Headwater.from_config(self.folder / "deploy.toml"))
        headwater.deployment = evolve(
            headwater.deployment, backend=evolve(headwater.deployment.backend, path=path or place)
        )
        runners = headwater.start()
        own: Any = runners[0].store
        store = evolve(own, store=self.stores.setdefault(place, own.store))
        failing = fault and FailingStore(store, fault)  # one for all, which counts the commits of all
        for runner in runners:
            runner.keeper = store
            runner.store = failing or store
        return headwater


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Folders]:
    for name in ("in", "nothing"):
        (tmp_path / name).mkdir()
    (tmp_path / "deploy.toml").write_text(CONFIG.replace(IDLE, OTHER + IDLE))
    arrive(tmp_path, "a", BEFORE)
    with ExitStack() as exits:
        yield Folders(tmp_path, exits)


def has_published(runner: Runner) -> bool:
    return any(commit.mark and commit.mark.publication for commit in runner.store.versions(runner.tables[-1].name))


def rows(headwater: Headwater) -> dict[str, list[tuple[Any, ...]]]:
    return {name: sorted(headwater.view(name).select("contract", "rank").rows()) for name in MOVED}


def finish(folders: Folders, before: dict[str, list[tuple[Any, ...]]]) -> None:
    """Resume the move, and run on from where the source stood, although what it had read is gone."""
    there = folders.open("there")
    assert {name: each.epoch.number for name, each in folders.open("here").move(there).items()} == {
        "ranked": 0,
        "other": 0,
    }
    assert not read_move(there.start()[0].store).pipelines
    after = folders.open("there")
    assert rows(after) == before
    arrive(folders.folder, "b", AFTER)
    after.run(until_idle=True)
    here = folders.open("here")
    here.run(until_idle=True)
    assert rows(after) == rows(here) != before


@pytest.mark.parametrize("before_commit", [True, False])
def test_it_dies_at_each_commit(folders: Folders, *, before_commit: bool) -> None:
    """One test for all moments: the number of commits is found by counting on until the move survives."""
    here = folders.open("here")
    here.run(until_idle=True)
    known = rows(here)
    survived, commit = False, 0
    while not survived:
        commit += 1
        folders.stores.pop("there", None)
        try:
            here.move(folders.open("there", Fault(before=before_commit, commit=commit)))
            survived = True
        except Crash:
            if must_resume(folders, begun=commit > 1 or not before_commit):
                assert set(here.move(folders.open("there"))) == set(MOVED)
        assert rows(folders.open("there")) == known
    assert commit > 2 + len(here.start()[0].tables)


def must_resume(folders: Folders, *, begun: bool) -> bool:
    """Whether the move has not ended. While the mark is there, nothing is run, and only complete copies are read."""
    there = folders.open("there")
    runners = {runner.pipeline: runner for runner in there.start()}
    marked = read_move(runners["ranked"].store).pipelines
    if not begun:
        assert not marked
        return True
    complete = {name for name in MOVED if has_published(runners[name])}
    if not marked:
        assert complete == set(MOVED)
        return False
    assert set(marked) == set(MOVED)
    for name in MOVED:
        if name not in complete:
            with pytest.raises(UnfinishedMove, match="Run the same `headwater move` again: it resumes the copy"):
                there.run([name], until_idle=True)
            with pytest.raises(UnfinishedMove, match="remove the folder headwater~"):
                there.view(name)
            with pytest.raises(UnfinishedMove):
                there.rebuild(name)
        else:
            assert there.view(name).height
            with pytest.raises(UnfinishedMove):
                runners[name].amend("something", lambda _epoch, _snapshot: None)  # type: ignore[arg-type, return-value]
    assert {name for name in MOVED if has_published(runners[name])} == complete
    return True


@pytest.mark.parametrize("commit", [1, 3, 4, 6])
def test_nothing_is_lost_though_the_files_are_gone(folders: Folders, commit: int) -> None:
    here = folders.open("here")
    here.run(until_idle=True)
    known = rows(here)
    (folders.folder / "in" / "a.json").unlink()
    with pytest.raises(Crash):
        here.move(folders.open("there", Fault(before=False, commit=commit)))
    with pytest.raises(UnfinishedMove):
        folders.open("there").run(until_idle=True)
    finish(folders, known)


def test_a_complete_copy_waits_for_the_others_before_it_takes_new_rows(folders: Folders) -> None:
    here = folders.open("here")
    here.run(until_idle=True)
    with pytest.raises(Crash):  # the next commit after that of the mark and the tables of the first pipeline
        here.move(folders.open("there", Fault(before=True, commit=2 + len(here.start()[0].tables))))
    arrive(folders.folder, "b", AFTER)
    there = folders.open("there")
    assert there.view("ranked").height == 2
    with pytest.raises(UnfinishedMove, match="'ranked' is not ready here"):
        there.run(["ranked"], until_idle=True)
    assert there.epoch("ranked") == 0


def test_another_source_is_refused(folders: Folders) -> None:
    here = folders.open("here")
    here.run(until_idle=True)
    with pytest.raises(Crash):
        here.move(folders.open("there", Fault(before=False, commit=1)))
    other = folders.open("here", path="elsewhere")
    with pytest.raises(ConfigError, match="a move from memory at here to these tables has not ended"):
        other.move(folders.open("there"))


def test_a_run_that_began_before_the_move_does_not_publish_into_it(folders: Folders) -> None:
    here = folders.open("here")
    here.run(until_idle=True)
    there = folders.open("there")
    runners = {runner.pipeline: runner for runner in there.start()}
    ledger = runners["ranked"].ledger  # opened before there is a mark
    ledger.begin(OffsetRange(None, here.start()[0].ledger.offsets or {}))
    with pytest.raises(Crash):
        here.move(folders.open("there", Fault(before=False, commit=1)))
    with pytest.raises(UnfinishedMove):
        ledger.publish(Change(), None)


def test_what_a_run_published_meanwhile_is_not_taken_for_the_copy(folders: Folders) -> None:
    here = folders.open("here")
    here.run(until_idle=True)
    arrive(folders.folder, "b", AFTER)
    here.run(until_idle=True)
    there = folders.open("there")
    there.run(["ranked"], until_idle=True)
    (runner, *_) = there.start()
    recorder = Recorder(runner.store, runner.clock, runner.writer)
    record_move(recorder, UnderWay(), UnderWay("memory at here", {"ranked": 9, "other": 1}))
    with pytest.raises(ConfigError, match="'ranked' exists there already"):
        here.move(folders.open("there"))
