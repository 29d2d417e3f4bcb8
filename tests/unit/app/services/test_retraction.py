"""Configuration of a retraction: what is read, what is refused, and what the message says about it."""

from datetime import timedelta

import pytest

from headwater.app.wiring.blueprints import blueprints
from headwater.domain.errors import ConfigError
from headwater.domain.service.retraction import PastTable, PlainTable

SAMPLE = """\
[backend]
name = "memory"

[sources.orders]
kind = "kafka"
servers = "127.0.0.1:9092"
topics = ["shop.orders"]
format = "maxwell-json"
tables = ["shop.orders"]        # database.table
schema = "order_id bigint, user_id bigint, state string, amount decimal(18,2), mtime timestamp"
key = ["order_id"]
max_rows_per_epoch = 100000

[pipelines.order_states]        # view totals: group, measures
service = "retraction"
source = "orders"
group = ["state"]
measures = { orders = "count(*)", amount = "sum(amount)" }
updated_at = "mtime"
time_zone = "UTC"
"""
ROWS = 'past = { path = "orders.parquet" }\n'
QUERY = """
[pipelines.order_states.past]
sql = "SELECT state, orders, amount, amounts FROM daily WHERE day < :cut"
holds = "totals"
tables = { daily = { path = "daily.csv", format = "csv" } }
"""


def changed(old, new, text=SAMPLE):
    assert text.count(old) == 1
    return text.replace(old, new)


def settings(deployment):
    return deployment.pipelines["order_states"].service


def test_the_sample_answers_totals(deploy):
    deployment = deploy(SAMPLE)
    read = settings(deployment)
    assert (read.group, read.updated_at, read.time_zone, read.identity) == (("state",), "mtime", "UTC", "auto")
    assert [(each.name, each.aggregate.function, each.type.ddl) for each in read.measures] == [
        ("orders", "count", "bigint"),
        ("amount", "sum", "decimal(28,2)"),
    ]
    views = {view.name: view.schema.names for view in blueprints(deployment)["order_states"].views}
    assert views["totals"] == ("state", "orders", "amount")
    assert views["deltas"] == views["by_day"] == ("day", "state", "orders", "amount")


def test_what_may_be_left_out(deploy):
    read = settings(deploy(changed('group = ["state"]\n', "", changed('time_zone = "UTC"\n', ""))))
    assert (read.group, read.time_zone, read.deleted_at, read.past) == ((), "UTC", None, None)
    assert (read.roll_after, read.event_time, read.same_time) == (None, None, False)


def test_every_key(deploy):
    more = 'time_zone = "Asia/Shanghai"\ndeleted_at = "seen"\nidentity = ["file", "user_id"]\nroll_after = "1h"'
    text = changed('time_zone = "UTC"', more)
    text = changed("mtime timestamp", "mtime timestamp, seen timestamp, file string", text)
    metadata = 'metadata = { seen = "commit_time", file = "log_file" }\nevent_time = "mtime"'
    read = settings(deploy(changed('key = ["order_id"]', metadata, text)))
    assert (read.time_zone, read.deleted_at, read.identity) == ("Asia/Shanghai", "seen", ("file", "user_id"))
    assert (read.roll_after, read.event_time) == (timedelta(hours=1), "mtime")


def test_a_window_needs_positions_in_a_log(deploy):
    text = changed('"UTC"', '"UTC"\nrepeat_window = "3h"')
    deploy(text)
    with pytest.raises(ConfigError, match=r"21: .*repeat_window: has no effect, .* records have no position in a log"):
        deploy(changed('"maxwell-json"', '"canal-json"', text))


def test_a_time_of_the_message_is_the_same_in_both_images(deploy):
    text = changed('key = ["order_id"]', 'metadata = { mtime = "commit_time" }')
    assert settings(deploy(text)).same_time


def test_a_measure_may_be_over_some_rows(deploy):
    where = '{ measure = "sum(amount)", where = "user_id > 7" }'
    *_, amount = settings(deploy(changed('amount = "sum(amount)"', f"amount = {where}"))).measures
    assert (amount.aggregate.function, amount.condition) == ("sum", "`user_id` > 7")


def test_a_past_of_rows(deploy, tmp_path):
    past = settings(deploy(SAMPLE + ROWS)).past
    assert past == PastTable({"past": PlainTable(str(tmp_path / "orders.parquet"), "parquet")}, None, "rows")


def test_a_past_of_a_query(deploy, tmp_path):
    past = settings(deploy(changed("sum(amount)", "count(amount)") + QUERY)).past
    assert past.tables == {"daily": PlainTable(str(tmp_path / "daily.csv"), "csv")}
    assert (past.sql, past.holds) == ("SELECT state, orders, amount, amounts FROM daily WHERE day < :cut", "totals")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["state"]', '["stat"]', "17: pipelines.order_states.group: no such column: 'stat' is unknown; allowed: order_id, "
         "user_id, state, amount, mtime; did you mean 'state'?"),
        ('"mtime"', '"ctime"', "19: pipelines.order_states.updated_at: no such column: 'ctime' is unknown; allowed: order_id, "
         "user_id, state, amount, mtime; did you mean 'mtime'?"),
        ('updated_at = "mtime"\n', "", "14: pipelines.order_states.updated_at: is missing; it is the name of a column"),
        ('{ orders = "count(*)", amount = "sum(amount)" }', "{}", "18: pipelines.order_states.measures: measures needs at least one, "
         'such as { orders = "count(*)" }'),
        ('"sum(amount)"', "3", "18: pipelines.order_states.measures.amount: 3 is not a text"),
        ('"sum(amount)"', "2024-01-01", "18: pipelines.order_states.measures.amount: 2024-01-01 (without quotes) is not a text"),
        ('"UTC"', '"UTC"\nidentity = [2024-01-01]', "21: pipelines.order_states.identity: [2024-01-01 (without quotes)] is not a "
         'list of texts such as ["a", "b"]'),
        ('"sum(amount)"', '"sum(mtime)"', "18: pipelines.order_states.measures.amount: 'sum(mtime)' is over a timestamp, "
         "whose sums do not cancel exactly; declare the column decimal(p,s) in the source's schema, or cast it to one"),
        ('"sum(amount)"', '{ measure = "count(*)", where = "user_id" }', "18: pipelines.order_states.measures.amount: `user_id` "
         "is a bigint; write a condition, such as items is not null"),
        ('"sum(amount)"', '{ measure = "count(*)", where = "concat(state, 1)" }', "18: pipelines.order_states.measures.amount: "
         "CONCAT(`state`, 1) is a string; write a condition, such as items is not null"),
        ('"sum(amount)"', '{ measure = "count(*)", were = "x" }', "18: pipelines.order_states.measures.amount.were: unknown "
         "key; allowed: measure, where; did you mean 'where'?"),
        ('"sum(amount)"', '{ where = "user_id > 7" }', "18: pipelines.order_states.measures.amount.measure: is missing; it is "
         "a measure such as 'sum(amount)'"),
        ('"sum(amount)"', '"count(*) filter (where user_id > 7)"', "18: pipelines.order_states.measures.amount: measure "
         "'count(*) filter (where user_id > 7)' has a FILTER; give its condition under the key where"),
        ('amount = "sum(amount)"', '"a.b" = "sum(amount)"', '18: pipelines.order_states.measures."a.b": a column is named after '
         "measure 'a.b': its name must not be empty, nor have a dot or a backtick; give it another name"),
        ('amount = "sum(amount)"', '"" = "sum(amount)"', '18: pipelines.order_states.measures."": a column is named after measure '
         "'': its name must not be empty, nor have a dot or a backtick; give it another name"),
        ('amount = "sum(amount)"', 'state = "sum(amount)"', "18: pipelines.order_states.measures: state: measures and groups "
         "need different names"),
        ('"UTC"', '"UTC"\nidentity = ["pos"]', "21: pipelines.order_states.identity: no such column: 'pos' is unknown; "
         "allowed: order_id, user_id, state, amount, mtime"),
        ('"UTC"', '"UTC"\nidentity = "postion"', "21: pipelines.order_states.identity: 'postion' is not \"auto\", \"none\" or "
         "a list of columns"),
        ('"UTC"', '"UTC"\nrepeat_window = 10', "21: pipelines.order_states.repeat_window: 10 is not a duration such as '5m' or '1h30m'"),
        ("mtime timestamp", "mtime string", "19: pipelines.order_states.updated_at: column 'mtime' must be a timestamp or date, "
         "not string"),
        ('"UTC"', '"UTC"\nidentity = "none"\nlog_reset = "accept"', "22: pipelines.order_states.log_reset: has no effect, as "
         'every change counts: identity = "none"; leave it out, or set `identity`'),
        ('"UTC"', '"UTC"\nlog_reset = "yes"', "21: pipelines.order_states.log_reset: 'yes' is unknown; allowed: stop, accept"),
        ('key = ["order_id"]', 'before = "optional"', "16: pipelines.order_states.source: source 'orders' has before = "
         '"optional": an update without its old image would count its row twice. Leave `before` out of the source '
         '("required": such an update is a dead letter), and let the database log whole rows; a pipeline that identifies rows '
         "by a key may read a second source with it"),
        ('"UTC"', '"UTC"\nroll_after = "soon"', "21: pipelines.order_states.roll_after: 'soon' is not a duration; write a number "
         "and one of ms, s, m, h, d, w, such as '5m' or '1h30m'"),
        ('"UTC"', '"UTC"\nroll_after = "1h"', "21: pipelines.order_states.roll_after: roll_after goes by the watermark, so the source "
         "needs event_time"),
        ('"UTC"', '"UTC"\npast = { holds = "rows" }', "21: pipelines.order_states.past.path: is missing; it is a path, or a URI such as 's3a://bucket/lake'"),
        ('"UTC"', '"UTC"\npast = { path = "x", hold = "rows" }', "21: pipelines.order_states.past.hold: unknown key; allowed: "
         "format, holds, path; did you mean 'holds'?"),
        ('"UTC"', '"UTC"\npast = { path = "x", holds = "sums" }', "21: pipelines.order_states.past.holds: 'sums' is unknown; "
         "allowed: rows, totals"),
        ('"UTC"', '"UTC"\npast = { sql = "SELECT 1" }', "21: pipelines.order_states.past.tables: is missing; it is a table of "
         "keys"),
        ('"UTC"', '"UTC"\npast = { sql = "SELECT 1", tables = { a = { format = "csv" } } }', "21: "
         "pipelines.order_states.past.tables.a.path: is missing; it is a path, or a URI such as 's3a://bucket/lake'"),
        ('"UTC"', '"UTC"\npast = { path = "x", holds = "totals" }', "14: pipelines.order_states: measure 'amount' cannot be "
         'computed from totals, which do not contain measure count(`amount`); add that, or set holds = "rows"'),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line_and_what_is_allowed(refusal, old, new, message):
    assert refusal(changed(old, new)) == f"deploy.toml:{message}"


def test_a_view_without_a_key_cannot_be_kept(deploy):
    text = changed('group = ["state"]', 'group = []\nmaterialize = ["totals"]')
    with pytest.raises(ConfigError, match="'totals' is not a view that can be kept; possible: deltas, by_day"):
        blueprints(deploy(text))


def test_a_view_is_kept_once(deploy):
    text = changed('group = ["state"]', 'group = ["state"]\nmaterialize = ["totals", "totals"]')
    with pytest.raises(
        ConfigError, match=r"pipelines\.order_states\.materialize: 'totals' is given twice; name it once"
    ):
        blueprints(deploy(text))


def test_the_environment_overrides_what_is_one_text(deploy, tmp_path):
    prefix = "HEADWATER_PIPELINES__ORDER_STATES__"
    given = {
        f"{prefix}TIME_ZONE": "Asia/Shanghai",
        f"{prefix}MEASURES__AMOUNT": "count(amount)",
        f"{prefix}PAST__HOLDS": "rows",
        f"{prefix}PAST__TABLES__DAILY__PATH": "other.csv",
    }
    read = settings(deploy(SAMPLE + QUERY, **given))
    assert (read.time_zone, read.measures[1].aggregate.function) == ("Asia/Shanghai", "count")
    assert read.past.tables == {"daily": PlainTable(str(tmp_path / "other.csv"), "csv")}
    assert read.past.holds == "rows"


def test_the_environment_overrides_where_the_past_lies_and_which_rows_count(deploy, tmp_path):
    text = changed('amount = "sum(amount)"', 'amount = { measure = "sum(amount)", where = "user_id > 7" }')
    prefix = "HEADWATER_PIPELINES__ORDER_STATES__"
    read = settings(
        deploy(text + ROWS, **{f"{prefix}PAST__PATH": "b", f"{prefix}MEASURES__AMOUNT__WHERE": "user_id > 8"})
    )
    assert read.past.tables == {"past": PlainTable(str(tmp_path / "b"), "parquet")}
    assert read.measures[1].condition == "`user_id` > 8"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("GROUP", "pipelines.order_states.group is a list of texts"),
        ("MEASURES__BUYERS", "there is no such key in deploy.toml"),
        ("PAST__PATH", "there is no such key in deploy.toml"),
    ],
)
def test_an_override_of_what_is_not_there_is_told(refusal, name, message):
    assert message in refusal(SAMPLE, **{f"HEADWATER_PIPELINES__ORDER_STATES__{name}": "x"})


@pytest.mark.parametrize("name", ["unique users", "größter", "a/b", "a.b", "", "x" * 201])
@pytest.mark.parametrize("measure", ["count(distinct user_id)", "min(user_id)", "max(state)"])
def test_a_measure_that_has_a_table_has_a_name_for_it(refusal, name, measure):
    told = refusal(changed('amount = "sum(amount)"', f'"{name}" = "{measure}"'))
    assert told.startswith("deploy.toml:18: pipelines.order_states.measures.")
    assert told.endswith(
        f": a table is named after measure {name!r}, which needs more than sums: its name must be 1 to 200 letters (a to"
        " z), digits, _ and -; give it another name"
    )


def test_other_measures_may_have_any_name_of_a_column(deploy):
    text = changed(
        'orders = "count(*)", amount', f'"größte Zahl" = "count(*)", "{"x" * 196}_0-A" = "max(state)", amount'
    )
    assert [each.name for each in settings(deploy(text)).measures] == ["größte Zahl", "x" * 196 + "_0-A", "amount"]
