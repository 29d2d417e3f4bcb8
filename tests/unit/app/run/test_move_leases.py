"""What a move copies stays readable until its turn has come, though the source's run publishes and expires on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define

from headwater import Headwater
from headwater.testing.clock import ManualClock
from headwater.testing.failing_store import Crash, FailingStore, Fault
from tests.configurations import ranked_contracts

from .test_move import AFTER, BEFORE, arrive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headwater.domain.epoch.epoch import Mark
    from headwater.domain.ports import Version, VersionedStore
    from headwater.domain.table.change import Change

MOVED = ("ranked", "other")
OTHER = """
[pipelines.other]
service = "ranking"
source = "contracts"
group = ["contract"]
id = ["project"]
order_by = "signed"
"""
BACKEND = 'name = "delta"\nengine = "local"\nretain = {{ versions = 1 }}\npath = "{}"\n'
HOUR = timedelta(hours=1)


@define(eq=False)
class Meanwhile:
    """A store of the target; work is done before each commit to it."""

    store: VersionedStore
    work: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def commit(self, table: str, change: Change, mark: Mark) -> Version:
        self.work()
        return self.store.commit(table, change, mark)


@define(eq=False)
class Trial:
    """Two pipelines that have published an epoch, and the place to which they are moved."""

    folder: Path
    here: Headwater
    there: Headwater
    files: int = 0

    def arrive(self) -> None:
        arrive(self.folder, f"{self.files:03}", AFTER if self.files else BEFORE)
        self.files += 1

    def go_on(self) -> None:
        """What another process does: a run that publishes, and expires all that it may."""
        self.arrive()
        with Headwater.from_config(self.folder / "here.toml") as other:
            other.run(until_idle=True)
            for name in MOVED:
                other.upkeep(name).expire(dry_run=False)
        for name in MOVED:  # so that this process sees it before it reads
            self.here.upkeep(name).expire(dry_run=False)

    def during_the_copy(self, work: Callable[[], None]) -> None:
        for runner in self.there.start():
            runner.store = Meanwhile(runner.store, work)  # type: ignore[assignment]

    def move(self) -> dict[str, int]:
        return {name: each.epoch.number for name, each in self.here.move(self.there).items()}

    def contracts(self, deployment: Headwater) -> list[list[int]]:
        """The contracts in each pipeline's view."""
        return [sorted(deployment.view(name)["contract"].to_list()) for name in MOVED]

    def leases(self) -> list[str]:
        """The holders of the leases on the source's tables."""
        return sorted({lease.holder for name in MOVED for lease in self.here.upkeep(name).leases()})


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    (tmp_path / "in").mkdir()
    for place in ("here", "there"):
        (tmp_path / f"{place}.toml").write_text(ranked_contracts(backend=BACKEND.format(place)) + OTHER)
    with (
        Headwater.from_config(tmp_path / "here.toml") as here,
        Headwater.from_config(tmp_path / "there.toml") as there,
    ):
        trial = Trial(tmp_path, here, there)
        trial.arrive()
        here.run(until_idle=True)
        yield trial


def test_what_waits_for_its_turn_does_not_expire(trial: Trial) -> None:
    trial.during_the_copy(trial.go_on)
    before = trial.contracts(trial.here)
    assert trial.move() == {"ranked": 0, "other": 0}
    assert trial.contracts(trial.there) == before != trial.contracts(trial.here)
    assert trial.leases() == []


def test_the_newest_epoch_is_copied_though_another_process_has_published_it(trial: Trial) -> None:
    trial.go_on()
    assert trial.move() == {"ranked": 1, "other": 1}


def test_leases_are_renewed_while_the_copy_lasts(trial: Trial) -> None:
    clock = ManualClock(datetime.now(UTC))
    for runner in trial.here.start():
        runner.clock = clock

    def go_on() -> None:
        clock.moment += 5 * HOUR
        trial.go_on()

    trial.during_the_copy(go_on)
    began = clock.moment
    assert trial.move() == {"ranked": 0, "other": 0}
    assert clock.moment - began > 12 * HOUR
    assert trial.leases() == []


def test_a_try_that_fails_keeps_nothing(trial: Trial) -> None:
    failing = FailingStore(trial.there.start()[0].store, Fault(before=True, commit=2))
    for runner in trial.there.start():
        runner.store = failing  # type: ignore[assignment]
    with pytest.raises(Crash):
        trial.move()
    assert failing._failed
    assert trial.leases() == []


def test_what_a_killed_try_has_leased_is_released_by_the_next_one(trial: Trial) -> None:
    held = set[str]()
    trial.during_the_copy(lambda: held.update(trial.leases()))
    holder = f"move to delta at {trial.folder / 'there'}"
    for name in MOVED:
        for each in (holder, "a reader"):
            trial.here.pin(name, hold=HOUR, holder=each)
    assert trial.move() == {"ranked": 0, "other": 0}
    assert held == {holder, "a reader"}
    assert trial.leases() == ["a reader"]


def test_tables_that_cannot_be_written_are_copied_without_a_lease(
    trial: Trial, caplog: pytest.LogCaptureFixture
) -> None:
    for table in (trial.folder / "here" / "other").iterdir():
        (table / ".headwater").write_text("no folder can be made here")
    assert trial.move() == {"ranked": 0, "other": 0}
    (warning,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
    assert warning.startswith(
        "other: no lease keeps epoch 0 while it is copied, because the tables cannot be written: "
    )
