"""How long a source has been silent, by a clock that may be set."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headwater.app.run.idle import Silence, find_idle_step
from headwater.app.run.options import RunOptions
from headwater.testing.clock import NOW, ManualClock
from headwater.testing.trial import Trial

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.app.run.report import EpochReport

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("wrong", [HOUR, -HOUR])
def test_silence_begins_again_when_the_clock_is_set(wrong: timedelta) -> None:
    clock, silence = ManualClock(), Silence()
    silence.since = before = silence.look(clock)
    clock.sleep(HOUR)
    assert silence.look(clock) - before == HOUR + timedelta(seconds=1)
    assert silence.since == before
    for clock.wrong in (wrong, timedelta()):
        assert silence.look(clock) == silence.since
        clock.sleep(HOUR)
        assert silence.look(clock) - silence.since > HOUR


def test_a_clock_that_drifts_is_not_set() -> None:
    clock, silence = ManualClock(), Silence()
    silence.since = before = silence.look(clock)
    for _ in range(5):
        clock.wrong += timedelta(seconds=50)
        silence.look(clock)
    assert silence.since == before


@pytest.mark.parametrize("uncommitted", [False, True])
def test_a_source_with_an_open_transaction_is_not_silent(*, uncommitted: bool) -> None:
    due = object()
    service: Any = SimpleNamespace(catch_up=lambda _snapshot: None, idle=lambda _until, _snapshot: due)
    source: Any = SimpleNamespace(has_uncommitted=lambda after: uncommitted and after == {"t": {"0": 1}})
    snapshot: Any = SimpleNamespace(watermark=None, publication=SimpleNamespace(offsets={"t": {"0": 1}}))
    options = RunOptions(idle_after=HOUR)
    found = find_idle_step(service, source, snapshot, options, now=NOW.time, last_rows=NOW.time - HOUR)
    assert found is (None if uncommitted else due)


SILENT = """
[backend]
name = "memory"
[sources.log]
kind = "files"
path = "log"
schema = "kind string, id bigint, v string, at timestamp"
row_kind = "kind"
event_time = "at"
idle_after = "1m"
[pipelines.left]
service = "bulk_merge"
key = ["id"]
columns = ["v"]
changelog = "log"
bulk = { path = "bulk", format = "json", search_ts = "2024-03-01T08:00:00Z" }
[pipelines.right]
service = "bulk_merge"
key = ["id"]
columns = ["v"]
changelog = "log"
bulk = { path = "bulk", format = "json", search_ts = "2024-03-01T08:00:00Z" }
[pipelines.seconds]
service = "cumulate"
source = "log"
step = "1s"
size = "1d"
measures = { n = "count(*)" }
[pipelines.both]
service = "materialized_view"
inputs = { left = "left.rows", right = "right.rows" }
key = ["id"]
sql = "SELECT left.id, left.v, right.v AS w FROM left JOIN right ON right.id = left.id"
"""


def test_a_run_until_idle_ends_however_long_its_rounds_take(tmp_path: Path) -> None:
    """The view shows the moment that both tables have reached last: silence lets them follow the clock once."""
    with ExitStack() as exits:
        trial = Trial(tmp_path, "memory", exits)
        trial.deploy(SILENT)
        trial.feed("log", ['{"kind": "+I", "id": 1, "v": "a", "at": "2024-03-01T09:00:00Z"}'])
        trial.fill("left", [["id", "v"], ["2", "b"]])
        trial.clock.moment = datetime(2024, 3, 1, 9, tzinfo=UTC)
        trial.run()
        trial.clock.sleep(HOUR)
        headwater, taken = trial.open(), []

        def take_long(report: EpochReport) -> None:
            taken.append(report.epoch.pipeline)
            assert len(taken) < 20, taken
            trial.clock.sleep(timedelta(minutes=1))

        for runner in headwater.start():
            runner.report = take_long
        headwater.run(until_idle=True)
        assert sorted(taken) == ["both", "left", "right", "seconds"]
        left, right = (headwater.snapshot(name).watermark for name in ("left", "right"))
        assert left == right == headwater.snapshot("both").watermark
