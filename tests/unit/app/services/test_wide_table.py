"""Configuration of a wide table: what is read, what is refused, and what the message says about it."""

from datetime import timedelta

import pytest

from headwater.app.wiring.blueprints import blueprints
from headwater.domain.errors import ConfigError

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


def ddl(view):
    return view.schema.ddl.replace("`", "")


def test_the_sample_answers_rows(deploy):
    deployment = deploy(SAMPLE)
    assert settings(deployment).key == ("shop_id",)
    first, *_ = blueprints(deployment)["shop"].views
    assert first.name == "rows"
    assert first.key == ("shop_id",)
    assert ddl(first) == "shop_id bigint, name string, city string, item_count int"


def test_completeness_tells_of_each_topic(deploy):
    assert ddl(views(deploy(SAMPLE))["completeness"]) == (
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


def test_a_text_that_is_a_column_of_the_source_is_that_column(deploy):
    text = changed("seq bigint", "seq bigint, `items-seq` bigint, `true` boolean")
    text = changed('sequence = ["seq"]', 'sequence = ["items-seq"]', text)
    text = changed('"items + 0"', '"Items-Seq"', changed('"items is not null"', '"true"', text))
    _, stock = settings(deploy(text)).topics
    assert [(each.name, each.expression.sql) for each in stock.sequence] == [("items-seq", "`items-seq`")]
    assert [each.expression.sql for each in stock.own(("shop_id",))] == ["`Items-Seq`"]
    assert stock.where.sql == "`true`"


def test_a_column_in_an_expression_that_needs_backticks_is_told(refusal):
    text = changed("seq bigint", "seq bigint, `read-at` bigint")
    said = refusal(changed('sequence = ["seq"]', 'sequence = ["read-at + 1"]', text))
    assert said.endswith(
        "sequence: '`read` - `at` + 1': no column 'read'; there are: shop_id, items, weight, seq, read-at; if you mean the"
        " column 'read-at', write it in backticks: `read-at`"
    )


_EXPLODED = "explode(split(cast(items as string), ','))"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('key = ["shop_id"]\n', "", '15: pipelines.shop.key: is missing; it is at least one text, such as ["a"]'),
        ('["shop_id"]', '["shop"]', "17: pipelines.shop.key: no topic has the column 'shop': the source of each topic must have it, "
         "or select give it, as in select = { shop = \"…\" }; did you mean 'shop_id'?"),
        ('"shop_info"\ncolumns', '"shop_inf"\ncolumns', "19: pipelines.shop.topics.info.source: 'shop_inf' is unknown; allowed: "
         "shop_info, shop_stock; did you mean 'shop_info'?"),
        ('"city"]', '"town"]', "20: pipelines.shop.topics.info.columns: no such column: 'town' is unknown; allowed: shop_id, name, "
         "city, updated_at"),
        ('["name", "city"]', '["shop_id"]', "18: pipelines.shop.topics.info: topic 'info' gives no column besides the key; name some "
         "under columns or select"),
        ('["name", "city"]', '["name", "name"]', "20: pipelines.shop.topics.info.columns: 'name' is given twice; name it once"),
        ('sequence = ["updated_at"]\n', "", "18: pipelines.shop.topics.info.sequence: is missing; it is at least one text, such as "
         '["a"]'),
        ('["updated_at"]', '["updated"]', "21: pipelines.shop.topics.info.sequence: '`updated`': no column 'updated'; there are: "
         "shop_id, name, city, updated_at"),
        ('["seq"]', '["weight"]', "27: pipelines.shop.topics.stock.sequence: sequence 'weight' is a double, which engines do not compare "
         "alike; use: bigint, boolean, date, decimal, int, smallint, string, timestamp, timestamp_ntz, tinyint"),
        ('["seq"]', '["max(seq)"]', "27: pipelines.shop.topics.stock.sequence: 'MAX(`seq`)' has an aggregate, max: it may use one "
         "row's values; group and rank in a pipeline of their own"),
        ('["seq"]', '["seq"]\nowner = true', "23: pipelines.shop.topics.stock: topics info and stock both are the owner; one topic's "
         "deletes remove the row"),
        ('["seq"]', '["seq"]\nnulls = "ignore"', "28: pipelines.shop.topics.stock.nulls: 'ignore' is unknown; allowed: overwrite, "
         "keep"),
        ('["seq"]', '["seq"]\nabsent = "drop"', "28: pipelines.shop.topics.stock.absent: 'drop' is unknown; allowed: keep, null"),
        ("items + 0", "sum(items)", "25: pipelines.shop.topics.stock.select.item_count: 'SUM(`items`)' has an aggregate, sum: it may "
         "use one row's values; group and rank in a pipeline of their own"),
        ("items + 0", "itms + 0", "25: pipelines.shop.topics.stock.select.item_count: '`itms` + 0': no column 'itms'; there are: "
         "shop_id, items, weight, seq"),
        ("items + 0", "my_udf(items)", "25: pipelines.shop.topics.stock.select.item_count: the type of MY_UDF(`items`) is unknown before the run "
         "(MY_UDF(`items`) is not known without Spark; docs/sql.md lists what is); cast it: CAST(… AS bigint)"),
        ("items + 0", "cast(explode(split(cast(items as string), ',')) as int)", "25: pipelines.shop.topics.stock.select.item_count: "
         "\"CAST(EXPLODE(SPLIT(CAST(`items` AS STRING), ',')) AS INT)\" has explode inside another expression, where it cannot make "
         "rows: write what is around it inside, as in explode(cast(split(a, ',') as array<bigint>))"),
        ('{ item_count = "items + 0" }', f'{{ a = "{_EXPLODED}", b = "{_EXPLODED}" }}', "25: pipelines.shop.topics.stock.select: has "
         "more than one table function; use one"),
        ("item_count =", 'shop_id = "cast(shop_id as string)", item_count =', "23: pipelines.shop.topics.stock: key column 'shop_id' "
         "is string in topic 'stock' and bigint in topic 'info'; cast it to one type by select"),
        ("item_count =", "_count =", "23: pipelines.shop.topics.stock: column '_count' is in the way: names that begin with '_' are "
         "taken"),
        ('"items is not null"', '"items"', "26: pipelines.shop.topics.stock.where: `items` is a int; write a condition, such as items "
         "is not null"),
        ('"items is not null"', '"max(items) > 1"', "26: pipelines.shop.topics.stock.where: 'MAX(`items`) > 1' has an aggregate, max: "
         "it may use one row's values; group and rank in a pipeline of their own"),
        ("topics.stock]", 'topics."the stock"]', "23: pipelines.shop.topics.\"the stock\": topic 'the stock': write letters, digits "
         "and single underscores, a letter first"),
        ('["shop_id"]', '["shop_id"]\ntombstones = "30d"', "18: pipelines.shop.tombstones: tombstones goes by the owner's event time: one topic "
         "needs owner = true, its source event_time"),
        ('kind = "kafka"\nservers = "127.0.0.1:9092"\ntopics = ["shop.info"]\n', 'kind = "stream"\n', "17: "
         "pipelines.shop.topics.info.source: 'shop_info' is of kind \"stream\", which cannot be a topic of a wide table; use files or "
         "kafka"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_and_what_is_allowed(refusal, old, new, message):
    assert refusal(changed(old, new)) == f"deploy.toml:{message}"


def test_its_sources_are_those_of_its_topics(refusal):
    said = refusal(changed('["shop_id"]', '["shop_id"]\nsource = "shop_info"'))
    assert said.startswith("deploy.toml:18: pipelines.shop.source: unknown key; allowed: ")


def test_a_column_belongs_to_one_topic(refusal):
    said = refusal(changed("item_count =", "name ="))
    assert said.startswith(
        "deploy.toml:23: pipelines.shop.topics.stock: column 'name' is given by the topics 'info' and 'stock'"
    )


def test_what_is_absent_cannot_be_told_of_csv(refusal):
    text = changed('path = "in/stock"', 'path = "in/stock"\nformat = "csv"')
    assert "absent: records of csv contain every column; leave the key out" in refusal(text + 'absent = "keep"\n')


def test_a_pipeline_without_topics_is_refused(refusal):
    text = SAMPLE.partition("[pipelines.shop.topics.info]")[0]
    assert refusal(text).startswith("deploy.toml:15: pipelines.shop.topics: is missing")


@pytest.mark.parametrize(
    "renamed",
    [
        {"updated_at": "epoch"},
        {"updated_at": "deleted"},
        {"updated_at": "reported"},
        {"topics.stock": "topics.info_a", "seq bigint": "b bigint", '["seq"]': '["b"]', "updated_at": "a_b"},
    ],
)
def test_no_two_columns_of_completeness_have_one_name(refusal, renamed):
    text = SAMPLE
    for old, new in renamed.items():
        text = text.replace(old, new)
    assert "view completeness would have two columns" in refusal(text)


def test_no_two_sequences_are_stored_under_one_name(deploy, refusal):
    text = changed(
        '"]\nowner', '", "Name__updated_at"]\nowner', changed("updated_at t", "Name__updated_at int, updated_at t")
    )
    assert "topic 'info' would store two sequences, of a record or a column, as '_info__name__updated_at'" in refusal(
        text
    )
    deploy(changed("owner = true", 'owner = true\nabsent = "null"', text))
    deploy(changed('"Name__updated_at"]', '"CAST(Name__updated_at AS int)"]', text))


def test_columns_may_be_called_like_what_completeness_tells(deploy):
    rows = views(
        deploy(
            SAMPLE.replace("name string", "present string")
            .replace('["name"', '["present"')
            .replace("city", "stock_seq")
        )
    )["rows"]
    assert rows.schema.names == ("shop_id", "present", "stock_seq", "item_count")


@pytest.mark.parametrize(("key", "ours"), [("present", "_present"), ("Stock_seq", "_stock_seq")])
def test_a_key_may_be_called_as_a_column_of_completeness_is(deploy, key, ours):
    told = views(deploy(SAMPLE.replace("shop_id", key)))["completeness"]
    assert told.schema.names[0] == key
    assert ours in told.schema.names


def test_a_publication_may_not_go_where_a_topic_comes_from(refusal):
    publish = '[pipelines.shop.publish]\nservers = "127.0.0.1:9092"\ntopic = "shop.info"\n'
    assert "source 'shop_info' reads 'shop.info': publish to another topic" in refusal(SAMPLE + publish)


def test_a_view_that_is_not_there_cannot_be_kept(deploy):
    with pytest.raises(
        ConfigError,
        match=r"\d: pipelines.shop.materialize: 'row' is not a view that can be kept; possible: rows, completeness",
    ):
        blueprints(deploy(changed('["shop_id"]', '["shop_id"]\nmaterialize = ["row"]')))


def test_the_environment_overrides_what_is_one_text(deploy):
    prefix = "HEADWATER_PIPELINES__SHOP__TOPICS__STOCK__"
    given = {f"{prefix}WHERE": "items > 0", f"{prefix}SELECT__ITEM_COUNT": "items + 1", f"{prefix}NULLS": "keep"}
    _, stock = settings(deploy(SAMPLE, **given)).topics
    (column,) = stock.own(("shop_id",))
    assert stock.where.sql == "`items` > 0"
    assert (column.name, column.expression.sql, stock.nulls) == ("item_count", "`items` + 1", "keep")


@pytest.mark.parametrize("name", ["COLUMNS", "SELECT__ITEMS", "TOPICS__SCORE__SOURCE"])
def test_an_override_of_what_is_not_there_is_told(refusal, name):
    prefix = "HEADWATER_PIPELINES__SHOP__" + ("" if name.startswith("TOPICS") else "TOPICS__STOCK__")
    assert f"{prefix}{name}" in refusal(SAMPLE, **{f"{prefix}{name}": "x"})


class TestOldImages:
    """Of a source whose updates may lack their old image, nothing but columns of its key can be the key."""

    TAGS = """
[sources.tags]
kind = "files"
path = "in/tags"
format = "debezium-json"
schema = "id bigint, email string, tags array<bigint>, seq bigint"
key = ["id"]
before = "optional"
[pipelines.shop.topics.tags]
source = "tags"
select = { shop_id = "explode(Tags)" }
columns = ["email"]
sequence = ["seq"]
"""

    @pytest.mark.parametrize(
        ("select", "at", "column"),
        [
            ("explode(Tags)", "tags.select.shop_id", "'Tags' is not in its `key` .id."),
            ("id + cast(email as bigint)", "tags.select.shop_id", "'email' is not in its `key` .id."),
        ],
    )
    def test_a_key_that_an_update_may_change_is_refused(self, deploy, select, at, column):
        text = SAMPLE + self.TAGS.replace("explode(Tags)", select)
        with pytest.raises(ConfigError, match=f'pipelines.shop.topics.{at}: source .tags. has before = "opt.*{column}'):
            deploy(text)
        deploy(text.replace('before = "optional"', 'before = "required"'))

    def test_a_bare_key_column_is_refused_at_the_source(self, deploy):
        text = changed('select = { shop_id = "explode(Tags)" }\n', "", SAMPLE + self.TAGS)
        text = changed("id bigint, email", "id bigint, shop_id bigint, email", text)
        with pytest.raises(
            ConfigError, match=r"topics.tags.source: source 'tags' .* column 'shop_id' is not in its `key`"
        ):
            deploy(text)

    @pytest.mark.parametrize("select", ["id", "ID + 0", "explode(array(id))", "CAST(7 AS bigint)"])
    def test_a_key_that_is_computed_from_the_key_is_welcome(self, deploy, select):
        deploy(SAMPLE + self.TAGS.replace("explode(Tags)", select))
