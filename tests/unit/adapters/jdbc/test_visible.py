"""Which of the remembered positions of a log a query may rely on."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import define, field

from headwater.adapters.jdbc.visible import Commits, Moment, VisiblePositions, commits_of
from headwater.domain.errors import SourceUnavailable


@define(eq=False)
class Transactions(Commits):
    """The commits of a database: each moment is a number higher; the tests say up to which one they are seen."""

    until: int = 0
    counted: str = "primary"
    numbers: count[int] = field(factory=lambda: count(1))

    def now(self) -> Moment:
        return self.counted, next(self.numbers)

    def seen(self) -> Moment:
        return self.counted, self.until

    def reason(self, moment: Moment) -> str:
        return f"number {moment[1]} of the {moment[0]} is not seen"


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The lengths of all pauses, which take no time."""
    found: list[float] = []
    monkeypatch.setattr("headwater.adapters.jdbc.visible.sleep", found.append)
    return found


def positions(commits: Commits) -> VisiblePositions:
    """Positions that are 0, 10, 20 …"""
    log = count(0, 10)
    return VisiblePositions(lambda: (str(next(log)),), commits, patience=0.3)


def test_a_position_is_given_when_all_commits_before_it_are_seen(pauses: list[float]) -> None:
    commits = Transactions()
    wanted = positions(commits)
    with pytest.raises(SourceUnavailable, match="number 1 of the primary is not seen"):
        wanted.newest()
    assert sum(pauses) == pytest.approx(0.3)
    commits.until = 1
    assert wanted.newest() == ("0",)


def test_it_is_the_newest_one_and_is_kept_while_newer_ones_are_not_seen(pauses: list[float]) -> None:
    commits = Transactions(until=2)
    wanted = positions(commits)
    assert [wanted.newest() for _ in range(4)] == [("0",), ("10",), ("10",), ("10",)]
    commits.until = 4
    assert [wanted.newest(), wanted.newest()] == [("30",), ("30",)]
    assert pauses == []


def test_a_process_waits_once_only(pauses: list[float]) -> None:
    wanted = positions(Transactions())
    for _ in range(3):
        with pytest.raises(SourceUnavailable):
            wanted.newest()
    assert sum(pauses) == pytest.approx(0.3)


def test_moments_of_another_server_say_nothing() -> None:
    commits = Transactions(until=100)
    wanted = positions(commits)
    wanted.newest()
    commits.counted = "standby"
    commits.until = 1
    with pytest.raises(SourceUnavailable, match="number 2 of the standby"):
        wanted.newest()
    commits.until = 2
    assert wanted.newest() == ("10",)


def test_few_positions_are_remembered_the_oldest_among_them() -> None:
    commits = Transactions(until=1)
    wanted = positions(commits)
    assert {wanted.newest() for _ in range(1000)} == {("0",)}
    assert len(wanted._marks) <= 100
    commits.until = 990
    assert int(wanted.newest()[0]) > 9000


def test_a_database_that_does_not_tell_is_given_a_second_or_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10**12
    monkeypatch.setattr("headwater.adapters.jdbc.visible.monotonic_ns", lambda: now)
    for delay, age in ((timedelta(), "1s"), (timedelta(seconds=11), "11s")):
        commits = commits_of(cast("Any", SimpleNamespace(settings=SimpleNamespace(kind="mysql"))), delay)
        wanted = positions(commits)
        with pytest.raises(SourceUnavailable, match=f"it is read when its position is {age} old"):
            wanted.newest()
        now += 10**9 * (1 if age == "1s" else 11)
        assert wanted.newest() == ("0",)
