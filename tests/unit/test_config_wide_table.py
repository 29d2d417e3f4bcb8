"""Configuration of a wide table: what is read, what is refused, and what the message says about it."""

from datetime import timedelta

import pytest

from headwater.app.container import blueprints

SAMPLE = """\
[backend]
name = "memory"

[sources.shop_info]
kind = "kafka"
servers = "127.0.0.1:9092"
topics = ["shop.info"]
schema = "shop_id bigint, name string, city string, updated_at timestamp"

[sources.shop_stock]
kind = "files"
path = "in/stock"
schema = "shop_id bigint, items int, weight double, seq bigint"

[pipelines.shop]                # view rows: key, columns
service = "wide_table"
key = ["shop_id"]
[pipelines.shop.topics.info]
source = "shop_info"
columns = ["name", "city"]
sequence = ["updated_at"]
owner = true                    # its deletes remove the row
[pipelines.shop.topics.stock]
source = "shop_stock"
select = { item_count = "items + 0" }
where = "items is not null"
sequence = ["seq"]
"""
INFO = "pipelines.shop.topics.info"
STOCK = "pipelines.shop.topics.stock"


def changed(old, new, text=SAMPLE):
    assert text.count(old) == 1
    return text.replace(old, new)


def settings(deployment):
    return deployment.pipelines["shop"].service


def views(deployment):
    return {view.name: view for view in blueprints(deployment)["shop"].views}


def test_the_sample_answers_rows(deploy):
    deployment = deploy(SAMPLE)
    assert settings(deployment).key == ("shop_id",)
    first, *_ = blueprints(deployment)["shop"].views
    assert first.name == "rows"
    assert first.key == ("shop_id",)
    assert first.schema.ddl == "shop_id bigint, name string, city string, item_count int"


def test_completeness_tells_of_each_topic(deploy):
    assert views(deploy(SAMPLE))["completeness"].schema.ddl == (
        "shop_id bigint, present boolean, info_reported boolean, info_deleted boolean, info_updated_at timestamp,"
        " info_epoch bigint, stock_reported boolean, stock_deleted boolean, stock_seq bigint, stock_epoch bigint"
    )


def test_what_may_be_left_out(deploy):
    text = changed("owner = true                    # its deletes remove the row\n", "")
    read = settings(deploy(changed('where = "items is not null"\n', "", text)))
    assert read.owner is None
    assert read.tombstones is None
    assert [(topic.where, topic.owner, topic.nulls, topic.absent) for topic in read.topics] == [
        (None, False, "overwrite", "keep"),
        (None, False, "overwrite", "keep"),
    ]


def test_every_key(deploy):
    text = changed('updated_at timestamp"\n', 'updated_at timestamp"\nevent_time = "updated_at"\n')
    text = changed('key = ["shop_id"]', 'key = ["shop_id"]\ntombstones = "30d"\nmaterialize = ["rows"]', text)
    text = changed('sequence = ["seq"]', 'sequence = ["seq", "items"]\nnulls = "keep"\nabsent = "null"', text)
    read = settings(deploy(text))
    info, stock = read.topics
    assert read.tombstones == timedelta(days=30)
    assert read.owner is info
    assert (stock.nulls, stock.absent) == ("keep", "null")
    assert [(each.name, each.type.ddl) for each in stock.sequence] == [("seq", "bigint"), ("items", "int")]


def test_nothing_is_absent_from_csv(deploy):
    text = changed('path = "in/stock"', 'path = "in/stock"\nformat = "csv"')
    _, stock = settings(deploy(text)).topics
    assert stock.absent == "null"


def test_a_topic_may_call_the_key_otherwise(deploy):
    text = changed("shop_id bigint, items int", "shop int, items int")
    text = changed(
        '{ item_count = "items + 0" }', '{ shop_id = "cast(shop as bigint)", item_count = "items + 0" }', text
    )
    assert views(deploy(text))["rows"].schema.names == ("shop_id", "name", "city", "item_count")


def test_one_source_may_feed_two_topics(deploy):
    more = '[pipelines.shop.topics.weight]\nsource = "shop_stock"\nselect = { kilos = "cast(weight as decimal(9,3))" }\nsequence = ["seq"]\n'
    assert views(deploy(SAMPLE + more))["rows"].schema.names[-2:] == ("item_count", "kilos")


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('key = ["shop_id"]\n', "", "17: pipelines.shop.key: is missing"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place(refusal, old, new, place):
    assert refusal(changed(old, new)).startswith(f"deploy.toml:{place}")
