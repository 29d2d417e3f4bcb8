"""How long a source has been silent, by a clock that may be set."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headwater.app.run.idle import Silence
from headwater.testing.clock import ManualClock

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
