"""What a pipeline's digest changes with: all that its rows depend on, and nothing else."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from headwater.app.wiring.container import Container
from headwater.app.wiring.digest import digest_settings
from headwater.testing.clock import ManualClock
from headwater.testing.trial import Trial

FEATURES = Path(__file__).parents[4] / "features"


@pytest.fixture
def trial(tmp_path):
    trial = Trial(tmp_path, "memory", ExitStack())
    trial.deploy((FEATURES / "order_lines.toml").read_text(encoding="utf-8"))
    return trial


def digests(trial):
    deployment = trial.deployment()
    return {name: digest_settings(deployment, name) for name in deployment.pipelines}


def edited(trial, key, value):
    """The pipelines whose digest changes with a setting."""
    before = digests(trial)
    trial.set(key, value)
    return {name for name, digest in digests(trial).items() if digest != before[name]}


READERS = {"order_lines", "customer_worth"}


@pytest.mark.parametrize(
    ("key", "value", "changes"),
    [
        ("sources.order_log.time_zone", '"America/New_York"', {"orders", *READERS}),
        ("sources.product_log.watermark_delay", '"3s"', {"products", *READERS}),
        ("pipelines.customers.history", '"2d"', {"customers", *READERS}),
        ("pipelines.order_lines.align", '"at"', READERS),
        ("pipelines.customer_worth.align", '"at"', {"customer_worth"}),
        ("pipelines.orders.retain", "{ versions = 3 }", set()),
        ("pipelines.orders.expire_every", "7", set()),
        ("backend.compact_every", "7", set()),
        ("run.retries", "7", set()),
        ("alerts.webhook", '"https://example.org"', set()),
    ],
)
def test_it_changes_with_what_the_rows_depend_on(trial, key, value, changes):
    assert edited(trial, key, value) == changes


def test_it_is_the_one_in_the_marks_of_a_run(trial):
    deployment = trial.deployment()
    runner = Container(deployment, ManualClock()).runner("customers", lambda _: None, lambda _: None)
    assert runner.settings == runner.ledger.settings == digest_settings(deployment, "customers")
