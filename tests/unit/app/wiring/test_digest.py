"""What a pipeline's digest changes with: all that its rows depend on, and nothing else."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from attrs import evolve, field, make_class

from headwater.app.config import load
from headwater.app.wiring.container import Container
from headwater.app.wiring.digest import _plain, digest_rebuild, digest_settings
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


FIXED = """
[backend]
name = "memory"

[sources.orders]
kind = "kafka"
servers = "127.0.0.1:9092"
topics = ["orders"]
format = "debezium-json"
schema = "id bigint, shop string, amount decimal(10, 2), at timestamp"
key = ["id"]
tables = ["shop.orders"]
event_time = "at"

[sources.visits]
kind = "files"
path = "/data/visits"
format = "csv"
schema = "shop string, at timestamp"
event_time = "at"

[pipelines.best]
service = "ranking"
source = "orders"
group = ["shop"]
id = ["id"]
order_by = "at"
top = 3

[pipelines.visits]
service = "cumulate"
source = "visits"
step = "1m"
dimensions = [["shop"], []]
measures = { n = "count(*)" }

[pipelines.totals]
service = "materialized_view"
inputs = { best = "best" }
key = ["shop"]
sql = "select shop, sum(amount) as amount from best group by shop"
"""
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
        ("pipelines.orders.expire_every", "0", set()),
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


def test_a_rebuild_under_another_backend_is_another_one_but_rows_do_not_depend_on_it(trial):
    """The other table type of Hudi cannot continue the tables."""
    deployment = trial.deployment()
    other = evolve(deployment, backend=evolve(deployment.backend, name="hudi-cow"))
    assert digest_rebuild(deployment, "customers") != digest_rebuild(other, "customers")
    assert digest_settings(deployment, "customers") == digest_settings(other, "customers")


def test_it_is_the_same_in_each_version(tmp_path):
    """Receipts in topics have it. If it must change, tables that are built again do not fit the topics any more."""
    (tmp_path / "deploy.toml").write_text(FIXED, encoding="utf-8")
    deployment = load(tmp_path / "deploy.toml", {})
    found = {name: digest_settings(deployment, name) for name in deployment.pipelines}
    assert found == {"best": "73ef848f8a6761ae", "totals": "8a2de0107f350808", "visits": "4518485bc26c451d"}


def test_a_setting_that_a_later_version_adds_does_not_change_it():
    before = make_class("Settings", {"top": field()})
    later = {"top": field(), "nulls": field(default="last"), "names": field(factory=dict)}
    after = make_class("Settings", later)
    assert _plain(after(3)) == _plain(before(3)) != _plain(after(3, nulls="first"))
