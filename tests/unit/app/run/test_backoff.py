"""The waits before retries: they double up to a limit, and each is a random share of it."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, field

from headwater.app.config import load
from headwater.app.run.backoff import Backoff
from headwater.app.run.options import RunOptions
from headwater.app.run.runner import Runner
from headwater.app.wiring.container import Container
from headwater.domain.errors import SourceUnavailable
from headwater.domain.service.ranking import Ranking, RankingSettings
from headwater.domain.table.schema import Schema
from headwater.testing.clock import ManualClock
from tests.backends import memory_backend
from tests.configurations import ranked_contracts
from tests.rows_source import RowsSource

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema.parse("team bigint, id bigint, day date")


@define(eq=False)
class RecordingClock(ManualClock):
    """Records the seconds of each sleep."""

    slept: list[float] = field(factory=list)

    def sleep(self, duration: timedelta) -> None:
        self.slept.append(duration.total_seconds())


class BrokenSource(RowsSource):
    """Is never there."""

    def plan(self, *_: Any) -> Any:
        raise SourceUnavailable("the broker is down")


def waits(backoff: Backoff, count: int) -> list[float]:
    return [wait.total_seconds() for wait in islice(backoff.waits(), count)]


def test_waits_double_up_to_the_longest() -> None:
    assert waits(Backoff(timedelta(seconds=2), timedelta(seconds=9)), 4) == [2, 4, 8, 9]
    assert waits(Backoff(timedelta(seconds=2), timedelta(seconds=1)), 2) == [1, 1]
    assert waits(Backoff(timedelta(), timedelta(seconds=1)), 2) == [0, 0]


def test_each_wait_is_a_random_share() -> None:
    backoff = Backoff(timedelta(seconds=1), timedelta(seconds=4), Random(1).random)
    found = waits(backoff, 200)
    assert len(set(found)) == 200
    assert all(wait <= 4 for wait in found)
    assert min(found[2:]) < 0.5
    assert max(found) > 3.5


def test_a_runner_waits_by_its_clock_between_the_tries_of_an_epoch() -> None:
    backend, clock = memory_backend(), RecordingClock()
    settings = RankingSettings(pipeline="p", schema=SCHEMA, group=["team"], id=["id"], order_by="day")
    source, store = BrokenSource(SCHEMA, backend.frame, given=[]), backend.open()
    options = RunOptions(retries=3, backoff=Backoff(timedelta(seconds=1), timedelta(seconds=3)))
    service = Ranking(settings, backend.engine)
    runner = Runner("p", service, source, store, store, backend.engine, clock, "run", options)
    with pytest.raises(SourceUnavailable):
        runner.advance()
    assert clock.slept == [1, 2, 3]


def test_a_deployment_sets_both_limits_and_waits_at_random(tmp_path: Path) -> None:
    config = tmp_path / "deploy.toml"
    (tmp_path / "in").mkdir()
    config.write_text(ranked_contracts(run='retry_wait = "1m"\nretry_max_wait = "90s"\n'))
    backoff = Container(load(str(config)), ManualClock()).runner("ranked", print, pytest.fail).options.backoff
    assert (backoff.first, backoff.longest) == (timedelta(minutes=1), timedelta(seconds=90))
    assert waits(backoff, 3) != waits(backoff, 3)
