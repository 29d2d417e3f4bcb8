"""Steps that a scenario gets wrong say so, and name the remedy."""

import json
from contextlib import ExitStack

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


STATES = """
[backend]
name = "memory"
[sources.orders]
kind = "files"
path = "in"
schema = "state string, at timestamp, pos bigint"
[pipelines.states]
service = "retraction"
source = "orders"
measures = { orders = "count(*)" }
updated_at = "at"
"""


@pytest.mark.parametrize(
    ("identity", "message"),
    [
        ("", "expected that states has skipped 0 repeats, but it recognises no repeats: this is done by retractions"),
        ('identity = ["pos"]\n', "expected that states has skipped 0 repeats, but it has skipped 1"),
    ],
)
def test_another_number_of_repeats_than_the_expected_one(identity, message, tmp_path):
    with ExitStack() as exits:
        trial = Trial(tmp_path, "memory", exits)
        trial.deploy(f"{STATES}{identity}")
        order = json.dumps({"state": "new", "at": "2024-03-01T09:00:00Z", "pos": 1})
        for _ in range(2):
            trial.feed("orders", [order])
            trial.run()
        with pytest.raises(AssertionError, match=message):
            view_steps.skipped_repeats(trial, "states", 0)
        if identity:
            view_steps.skipped_repeats(trial, "states", 1)
