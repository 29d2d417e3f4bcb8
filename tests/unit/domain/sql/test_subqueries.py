"""Subqueries that Spark does not answer, or answers otherwise, are refused without Spark too."""

import pytest

from headwater.domain.errors import ConfigError
from headwater.domain.sql.typing import type_query

TABLES = {"t": {"id": "bigint", "n": "int", "g": "string"}, "u": {"id": "bigint", "w": "int", "tag": "string"}}


@pytest.mark.parametrize(
    "sql",
    [
        "select n in (select w from u) as c from t",
        "select id from t where (n in (select w from u)) is null",
        "select id from t where not (id = 3 and n in (select w from u))",
        "select case n in (select w from u) when true then 1 end as c from t",
        "select id from t order by n in (select w from u)",
    ],
)
def test_membership_is_a_condition(sql):
    with pytest.raises(
        ConfigError, match=r"used as a value: Spark says false where it is null; write it as a condition"
    ):
        type_query(sql, TABLES)


@pytest.mark.parametrize(
    "sql",
    [
        "select id from t where n in (select w from u) or not (n in (select w from u))",
        "select g, max(n) as m from t group by g having max(n) not in (select w from u)",
        "select t.id from t left join u on t.id = u.id and t.n in (select w from u)",
        "select if(n in (select w from u), 1, 2) as c from t",
        "select count(*) filter (where n in (select w from u)) as c from t",
        "select id from t where exists (select max(w) as m from u)",
        "select id from t where exists (select max(w) as m from u where u.id = t.id group by tag)",
        "select id from t where id in (select id from u order by id limit 2)",
        "select coalesce((select max(w) as m from u where u.id < t.id), 0) as c from t",
        "select g, max((select count(*) as c from u where u.tag = t.g)) as m from t group by g",
        "select sum(n) over (partition by exists (select 1 as o from u where u.id = t.id)) as s from t",
        "select g, (select count(*) as c from u) as c, count(*) as n from t group by g",
        "select id from t where id = (select max(u.id) as c from u where u.id = t.id and u.w in (select n from t))",
    ],
)
def test_what_both_answer(sql):
    type_query(sql, TABLES)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("select id from t where exists (select max(w) as m from u where u.id = t.id)", "always has a row, but not on"),
        (
            "select id from t where id in (select count(*) as c from u where u.id = t.id)",
            "always has a row, but not on",
        ),
        (
            "select id from t where exists (select c from (select count(*) as c from u where u.id = t.id) q)",
            "always has a row, but not on Spark",
        ),
        ("select (select w from u where u.id = t.id) as c from t", "Spark wants one aggregate of it"),
        ("select (select max(w) as m from u where u.id = t.id group by tag) as c from t", "Spark wants one aggregate"),
        ("select (select w from u where u.id = t.id order by w limit 1) as c from t", "has a LIMIT"),
        ("select id from t where exists (select 1 as o from u where u.id = t.id limit 1)", "has a LIMIT"),
        ("select id from t where exists (select w from u where u.id = t.id union select 1 as w)", "a union"),
        ("select id from t where exists (select t.id as o from u where u.id = t.id)", "outside its WHERE"),
        ("select (select max(w + t.n) as c from u where u.id = t.id) as c from t", "outside its WHERE"),
        (
            "select id from t where exists (select 1 as o from u where exists (select 1 as p from u v where v.id = t.id))",
            "two queries further out",
        ),
        (
            "select g, (select count(*) as c from u where u.tag = t.g) as c, max(n) as n from t group by g",
            "beside GROUP",
        ),
        ("select exists (select 1 as o from u where u.tag = t.g) as c from t group by g", "beside GROUP BY"),
        ("select id from t order by (select max(w) as c from u where u.id = t.id)", "in ORDER BY"),
        ("select id from t order by exists (select 1 as c from u)", "in ORDER BY or ON is refused by Spark"),
        ("select t.id from t join u on t.id = (select max(k.id) as c from t k where k.id = u.id)", "in ON"),
        ("select t.id from t join u on exists (select 1 as o from u v where v.id = t.id)", "or ON is refused"),
    ],
)
def test_columns_of_the_query_around(sql, told):
    with pytest.raises(ConfigError, match=told):
        type_query(sql, TABLES)
