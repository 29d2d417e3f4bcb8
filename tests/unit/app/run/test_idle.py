"""How long a source has been silent, by a clock that may be set."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.app.run.idle import Silence, find_idle_step
from headwater.app.run.options import RunOptions
from headwater.testing.clock import NOW, ManualClock

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
