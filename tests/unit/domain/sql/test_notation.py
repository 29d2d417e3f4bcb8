"""How the comparisons of a text are grouped."""

import pytest

from headwater.domain.errors import ConfigError
from headwater.domain.sql.aggregate import parse_aggregate
from headwater.domain.sql.expression import parse_expression
from headwater.domain.sql.notation import check_grouping
from headwater.domain.sql.statement import with_parameters
from headwater.domain.sql.typing import type_query


@pytest.mark.parametrize(
    ("condition", "operators"),
    [
        ("p <=> g like 'x'", "<=> and LIKE"),
        ("p <=> g rlike 'x'", "<=> and RLIKE"),
        ("p <=> q between false and p", "<=> and BETWEEN and AND"),
        ("a between 1 and b <=> c", "BETWEEN and AND and <=>"),
        ("p <=> q in (true)", "<=> and IN"),
        ("p <=> q is not true", "<=> and IS"),
        ("p <=> not q", "<=> and NOT"),
        ("p <=> (q) >= p", "<=> and >="),
        ("p = q <=> r", "= and <=>"),
        ("p <=> case when q then r end = s", "<=> and ="),
        ("case when p <=> q = r then 1 end", "<=> and ="),
        ("a is null = p", "IS and ="),
        ("p = s in (true)", "= and IN"),
        ("p = s like 't%'", "= and LIKE"),
        ("p < a between 1 and 2", "< and BETWEEN and AND"),
        ("a = b is null", "= and IS"),
        ("a is not null like 'x'", "IS and LIKE"),
        ("a is distinct from b in (true)", "DISTINCT and IN"),
    ],
)
def test_what_spark_groups_otherwise(condition, operators):
    with pytest.raises(ConfigError, match=f"Spark may group {operators} otherwise; write parentheses"):
        check_grouping(f"select {condition} as c from t where x = 1")


@pytest.mark.parametrize(
    "condition",
    [
        "p <=> (g like 'x') and r = s",
        "(p <=> q) = r or not p <=> q",
        "a is null and b = c",
        "p is distinct from q = p",
        "a between 1 and 2 and b <=> c",
        "case when p <=> q then a = b else c <=> d end",
        "if(p <=> q, a = b, c)",
        "p <=> (t.end is null)",
        "p <=> coalesce(t.end = a, end = b)",
        "case when t.end = 1 then a like 'b' else c in (1) end = p",
        "not a = b and c not in (1)",
        "rank() over (partition by a <=> b order by c <=> d rows between 1 preceding and current row) = 1",
    ],
)
def test_what_spark_groups_alike(condition):
    check_grouping(
        f"select {condition} as c, p <=> q from t join u on {condition} where {condition} order by {condition}"
    )


def test_texts_of_which_only_the_tree_is_used():
    text, told = "p <=> q = r", "Spark may group"
    with pytest.raises(ConfigError, match=told):
        parse_expression(text)
    with pytest.raises(ConfigError, match=told):
        parse_aggregate(f"max({text})")
    with pytest.raises(ConfigError, match=told):
        with_parameters(f"select {text} as c from t", {})
    with pytest.raises(ConfigError, match=told):
        type_query(f"select {text} as c from t", {"t": {"p": "boolean", "q": "boolean", "r": "boolean"}})
