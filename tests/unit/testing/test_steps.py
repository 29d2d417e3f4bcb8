"""Steps that a scenario gets wrong say so, and name the remedy."""

import pytest

from headwater.domain.errors import BadInput, ConfigError
from headwater.testing import rebuild_steps, steps, view_steps
from headwater.testing.expected import crashing, failing_with, utc
from headwater.testing.failing_store import Crash
from headwater.testing.trial import Trial


@pytest.mark.parametrize("duration", ["-10m", "0s"])
def test_the_clock_only_goes_forward(duration, tmp_path):
    trial = Trial(tmp_path, "memory", None)
    before = trial.clock.moment
    with pytest.raises(ConfigError, match=f"'{duration}' passes: the clock only goes forward"):
        steps.time_passes(trial, duration)
    assert trial.clock.moment == before


def test_a_text_that_is_not_a_time():
    with pytest.raises(ConfigError, match="'noon' is not a time such as 2024-03-01 09:00"):
        utc("noon")


@pytest.mark.parametrize("name", ["Nonsense", "frozen", "HeadwaterErro"])
def test_an_error_class_that_there_is_not(name):
    with pytest.raises(ConfigError, match=f"there is no error class '{name}'"), failing_with(name):
        pass


def test_another_error_than_the_expected_one():
    message = "expected ConfigError, but it failed with BadInput: x"
    with pytest.raises(AssertionError, match=message), failing_with("ConfigError"):
        raise BadInput("x")


def test_a_crash_is_expected():
    with crashing():
        raise Crash
    with pytest.raises(pytest.fail.Exception, match="it did not crash: it never came to that moment"), crashing():
        pass


@pytest.mark.parametrize(
    ("module", "name", "step"),
    [
        (steps, "headwater_pin", "a reader leases PIPELINE"),
        (steps, "headwater_second", "a second run has opened PIPELINE"),
        (view_steps, "headwater_held", "a reader holds VIEW"),
        (rebuild_steps, "headwater_process", "a process has opened PIPELINE"),
    ],
)
def test_a_step_that_is_missing_is_named(module, name, step):
    with pytest.raises(pytest.fail.Exception, match=f"an earlier step of the scenario is missing: `Given {step}`"):
        getattr(module, name).__wrapped__()
