"""Configuration of a snapshots pipeline: what is read, what is refused, and what the message says about it."""

from datetime import timedelta

import pytest

from headwater.app.config import load
from headwater.app.wiring.blueprints import blueprints
from headwater.domain.errors import ConfigError
from headwater.domain.ledger.retention import Retention
from headwater.domain.service.snapshots import PlainTable, SnapshotSettings, ViewOf

SAMPLE = """\
[backend]
name = "memory"

[sources.shop_info]
kind = "kafka"
servers = "127.0.0.1:9092"
topics = ["shop"]
schema = "shop_id bigint, name string, city string, updated_at timestamp"

[pipelines.shop]
service = "ranking"
source = "shop_info"
group = ["city"]
id = ["shop_id"]
order_by = "updated_at"

[pipelines.shop_dim]            # one view a published table
service = "snapshots"
inputs = { shop = "shop.ranks", tags = { path = "in/tags", format = "parquet" } }
every = "15m"
retain = { versions = 5 }
longest_query = "75m"
[pipelines.shop_dim.tables]
shop_dim = "SELECT s.*, t.tag FROM shop s LEFT JOIN tags t USING (shop_id)"
"""


def changed(old, new, text=SAMPLE):
    assert text.count(old) == 1, old
    return text.replace(old, new)


def settings(deployment):
    return deployment.pipelines["shop_dim"].service


def test_the_sample_publishes_a_table_and_its_markers(deploy, tmp_path):
    deployment = deploy(SAMPLE)
    read = settings(deployment)
    assert read.inputs == {"shop": ViewOf("shop", "ranks"), "tags": PlainTable(str(tmp_path / "in/tags"), "parquet")}
    assert (read.every, read.when, read.keys) == (timedelta(minutes=15), "clock", {})
    assert read.longest_query == timedelta(minutes=75)
    pipeline = deployment.pipelines["shop_dim"]
    assert (pipeline.sources, pipeline.retain, pipeline.materialize) == ((), Retention(versions=5), ())
    service = blueprints(deployment)["shop_dim"]
    assert [view.name for view in service.views] == ["shop_dim", "markers"]
    assert [(table.name, table.whole) for table in service.tables] == [
        ("shop_dim.shop_dim", True),
        ("shop_dim.markers", False),
    ]


def test_every_key(deploy):
    text = changed(
        'every = "15m"', 'every = "1d"\nwhen = "watermark"\nkeys = { shop_dim = ["shop_id"] }\nexpire_every = 3'
    )
    text = changed('shop = "shop.ranks"', 'shop = "shop"', changed('longest_query = "75m"\n', "", text))
    deployment = deploy(text)
    read = settings(deployment)
    assert (read.every, read.when, read.longest_query) == (timedelta(days=1), "watermark", None)
    assert (read.inputs["shop"], read.keys) == (ViewOf("shop"), {"shop_dim": ("shop_id",)})
    assert deployment.pipelines["shop_dim"].expire_every == 3
    assert blueprints(deployment)["shop_dim"].views[0].key == ("shop_id",)


def test_any_pipeline_has_a_retention_of_its_own(deploy):
    text = changed('service = "ranking"', 'service = "ranking"\nretain = { duration = "2d" }')
    assert deploy(text).pipelines["shop"].retain == Retention(duration=timedelta(days=2))
    assert deploy(SAMPLE).pipelines["shop"].retain is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"SELECT s.*, t.tag FROM shop s LEFT JOIN tags t USING (shop_id)"',
            '"SELECT * FROM shops"',
            "deploy.toml:24: pipelines.shop_dim.tables.shop_dim: 'SELECT * FROM shops': no table 'shops'; there are: shop, tags",
        ),
        (
            '"SELECT s.*, t.tag FROM shop s LEFT JOIN tags t USING (shop_id)"',
            '"SELECT now() AS n FROM shop"',
            "deploy.toml:24: pipelines.shop_dim.tables.shop_dim: 'SELECT now() AS n FROM shop' calls now, which is",
        ),
        (
            '"SELECT s.*, t.tag FROM shop s LEFT JOIN tags t USING (shop_id)"',
            '"DELETE FROM shop"',
            "deploy.toml:24: pipelines.shop_dim.tables.shop_dim: 'DELETE FROM shop' is not a query; write a SELECT",
        ),
        ('shop_dim = "SELECT', 'markers = "SELECT', "deploy.toml:23: pipelines.shop_dim.tables: a published table cannot be called"),
        ('shop_dim = "SELECT', '"a b" = "SELECT', "deploy.toml:23: pipelines.shop_dim.tables: 'a b' must be letters"),
        ('shop_dim = "SELECT', '"größe" = "SELECT', "deploy.toml:23: pipelines.shop_dim.tables: the name 'größe' must be 1 to 200 letters (a to z)"),
        ('shop_dim = "SELECT', f'{"x" * 201} = "SELECT', "deploy.toml:23: pipelines.shop_dim.tables: the name 'xxx"),
        ('"parquet"', '"parquet", at = 1', "deploy.toml:19: pipelines.shop_dim.inputs.tags.at: unknown key; allowed: format, path"),
        ('tags = { path = "in/tags", format = "parquet" }', "tags = 1", "deploy.toml:19: pipelines.shop_dim.inputs.tags: 1 is not"),
        ('every = "15m"\n', "", "deploy.toml:17: pipelines.shop_dim.every: is missing; it is a duration"),
        ('every = "15m"', 'every = "0s"', "deploy.toml:20: pipelines.shop_dim.every: every must be longer than 0"),
        ('every = "15m"', 'every = "15m"\nwhen = "noon"', "deploy.toml:21: pipelines.shop_dim.when: 'noon' is unknown"),
        ('every = "15m"', 'every = "15m"\nkeys = { x = ["a"] }', "deploy.toml:21: pipelines.shop_dim.keys: there is no published table 'x'"),
        ("versions = 5", "", "deploy.toml:21: pipelines.shop_dim.retain: sets no retention; write retain = { versions = 5 }"),
        ('every = "15m"', 'every = "15m"\nsource = "shop_info"', "deploy.toml:21: pipelines.shop_dim.source: unknown key"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_place(refusal, old, new, message):
    assert refusal(changed(old, new)).startswith(message)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("shops.ranks", "inputs.shop: 'shops' is not a pipeline; there are: shop"),
        ("shop_dim.shop_dim", "inputs.shop: pipeline 'shop_dim' reads itself; name another pipeline"),
        ("shop.rank", "pipeline 'shop' has no view 'rank'; there are: ranks, top, base, changes"),
        ("shop.changes", "inputs.shop: view 'changes' compares two publications; name a view of one publication"),
    ],
)
def test_an_input_is_a_view_of_another_pipeline(deploy, given, message):
    deployment = deploy(changed("shop.ranks", given))
    with pytest.raises(ConfigError, match=r"deploy\.toml:17: pipelines\.shop_dim: ") as caught:
        blueprints(deployment)
    assert message in str(caught.value)


def test_the_environment_overrides_queries_and_inputs_that_are_there(tmp_path):
    (tmp_path / "deploy.toml").write_text(SAMPLE)
    given = {
        "HEADWATER_PIPELINES__SHOP_DIM__EVERY": "1h",
        "HEADWATER_PIPELINES__SHOP_DIM__INPUTS__TAGS__PATH": "other",
        "HEADWATER_PIPELINES__SHOP_DIM__RETAIN__VERSIONS": "9",
        "HEADWATER_PIPELINES__SHOP_DIM__TABLES__SHOP_DIM": "SELECT * FROM tags",
    }
    read = load(tmp_path / "deploy.toml", given).pipelines["shop_dim"]
    assert isinstance(read.service, SnapshotSettings)
    assert (read.service.every, read.retain) == (timedelta(hours=1), Retention(versions=9))
    assert read.service.inputs["tags"] == PlainTable(str(tmp_path / "other"), "parquet")
    assert read.service.tables == {"shop_dim": "SELECT * FROM tags"}
