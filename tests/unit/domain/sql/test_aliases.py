"""Subqueries that name their columns beside their alias."""

import pytest

from headwater.domain.errors import ConfigError
from headwater.domain.service.materialized_view.lineage import derivations
from headwater.domain.sql import parse_statement
from headwater.domain.sql.typing import type_query
from headwater.domain.table.schema import Schema

U = {"id": "bigint", "tag": "string"}

COUNTED = [
    ("with x(a) as (select id, tag from u) select a from x", r"x\(a\) names 1 column, and its query has 2 columns"),
    ("with x(a, b) as (select id from u) select a from x", r"x\(a, b\) names 2 columns, and its query has 1 column:"),
    ("select w.a from (select id, upper(tag) from u) as w(a)", r"w\(a\) names 1 column, and its query has 2 columns"),
    ("select w.a from (select id, tag from u union select id, tag from u) as w(a)", r"w\(a\) names 1 column"),
    ("select id from u where id in (select w.a from (select id, tag from u) as w(a))", r"w\(a\) names 1 column"),
    ("with x(a) as (with y(b) as (select id, tag from u) select b from y) select a from x", r"y\(b\) names 1 column"),
    (
        "with x(a) as (select *, id from u) select a from x",
        r"x\(a\) names 1 column, and its query has 2 columns or more",
    ),
    ("with x(a) as (select id, explode(split(tag, 'b')) from u) select a from x", "has 2 columns or more"),
]
WITH_STARS = [
    ("with x(a) as (select * from u) select a from x", r"x\(a\) names 1 column, and its query has 2 columns:"),
    ("select w.a from (select * from u) as w(a, b, c)", r"w\(a, b, c\) names 3 columns, and its query has 2 columns:"),
    ("with x(a) as (select id from u), y(b, c) as (select * from x) select b from y", r"y\(b, c\) names 2 columns"),
]
SPREAD = ("with x(a, b, c) as (select id, explode(split(tag, 'b')) from u) select a from x", "has 2 columns:")


@pytest.mark.parametrize(("sql", "message"), COUNTED)
def test_a_wrong_number_of_names_is_refused_without_tables(sql, message):
    with pytest.raises(ConfigError, match=message):
        parse_statement(sql)


@pytest.mark.parametrize(("sql", "message"), [*COUNTED, *WITH_STARS, SPREAD])
def test_a_wrong_number_of_names_is_refused_with_the_columns_of_tables(sql, message):
    with pytest.raises(ConfigError, match=message.replace(" or more", "")):
        type_query(sql, {"u": U})


@pytest.mark.parametrize(("sql", "message"), [*COUNTED, *WITH_STARS])
def test_views_refuse_it(sql, message):
    with pytest.raises(ConfigError, match=message):
        derivations(sql, {"u": Schema.parse("id bigint, tag string")})


@pytest.mark.parametrize(
    "sql",
    [
        "with x(a, b) as (select id, count(*) from u group by id) select a, b from x",
        "with x(a, b) as (select * from u union all select * from u) select a from x",
        "with x(a, id) as (select id, tag from u) select a, x.id from x",
        "select w.c from (select *, id + 1 from u) as w(a, b, c)",
        "with x(a, b) as (select id, explode(split(tag, 'b')) from u) select b from x",
        "select w.a from (with x as (select * from u) select * from x) as w(a, b)",
    ],
)
def test_one_name_for_each_column(sql):
    parse_statement(sql)
    type_query(sql, {"u": U})


@pytest.mark.parametrize(
    "columns",
    ["id, explode(entries)", "id, posexplode(tags)", "id, inline(items)", "stack(1, 2, 3, id)", "*", "t.*, id"],
)
def test_what_makes_several_columns_is_counted_by_spark(columns):
    parse_statement(f"with x(a, b, c) as (select {columns} from u) select a from x")
