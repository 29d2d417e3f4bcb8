"""Expected results of queries over the tables `T` and `U`, as Spark 3.5 returned them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from ..domain.table.schema import Schema
from .expected import utc

T = Schema.parse(
    "id bigint, n int, m int, amt decimal(18,2), f double, s string, t string, at timestamp, d date, b boolean"
)
_T1 = (1, 7, 2, Decimal("10.25"), 1.5, "abc", "2024-02-29", utc("2024-03-10 07:30:00.000001"), date(2024, 1, 31), True)
_T2 = (2, *[None] * 9)
_T3 = (3, -7, 0, Decimal("0.05"), -2.5, " 12.7 ", "1e3", utc("1969-12-31 23:59:59.999999"), date(1969, 12, 31), False)
_T4 = (
    *(4, 9, 3, Decimal("-3.45"), 2.675, "a_%", "2024-01-01 05:06:07+08:00"),
    *(utc("2024-12-31 12:00:00"), date(2023, 12, 31), None),
)
T_ROWS: list[tuple[Any, ...]] = [_T1, _T2, _T3, _T4]
U = Schema.parse("id bigint, tag string")
U_ROWS: list[tuple[Any, ...]] = [(1, "x"), (1, "y"), (9, "z"), (None, "n")]

QUERIES: list[tuple[str, str, list[tuple[Any, ...]]]] = [
    (
        "select count(*) as c, count(n) as cn, count(distinct b) as cd, sum(n) as sn, sum(amt) as sa, sum(f) as sf, avg(n) as an, avg(f) as af, min(s) as mi, max(at) as ma, sum(m) filter (where m > 2) as fm, sum(distinct m) as dm from t",
        "c bigint, cn bigint, cd bigint, sn bigint, sa decimal(28,2), sf double, an double, af double, mi string, ma timestamp, fm bigint, dm bigint",
        [
            (
                4,
                3,
                2,
                9,
                Decimal("6.85"),
                1.6749999999999998,
                3.0,
                0.5583333333333332,
                " 12.7 ",
                utc("2024-12-31 12:00:00"),
                3,
                5,
            )
        ],
    ),
    ("select s from t order by s", "s string", [(None,), (" 12.7 ",), ("a_%",), ("abc",)]),
    ("select s from t order by s desc", "s string", [("abc",), ("a_%",), (" 12.7 ",), (None,)]),
    ("select n from t order by n asc nulls last, id", "n int", [(-7,), (7,), (9,), (None,)]),
    ("select sum(n) as s, sum(amt) as a from t where false", "s bigint, a decimal(28,2)", [(None, None)]),
    (
        "select b, count(*) as c from t group by b having count(*) > 0 order by b",
        "b boolean, c bigint",
        [(None, 2), (False, 1), (True, 1)],
    ),
    (
        "select id, row_number() over (order by n) as r, rank() over (order by b) as k, dense_rank() over (order by b desc) as e, sum(amt) over (partition by b order by id) as w, lag(s) over (order by id) as l, lead(n, 1, 0) over (order by id) as d, count(*) over (order by id rows between 1 preceding and current row) as c, avg(n) over () as v, percent_rank() over (order by id) as p from t order by id",
        "id bigint, r int, k int, e int, w decimal(28,2), l string, d int, c bigint, v double, p double",
        [
            (1, 3, 4, 1, Decimal("10.25"), None, None, 1, 3.0, 0.0),
            (2, 1, 1, 3, None, "abc", -7, 2, 3.0, 0.3333333333333333),
            (3, 2, 3, 2, Decimal("0.05"), None, 9, 2, 3.0, 0.6666666666666666),
            (4, 4, 1, 3, Decimal("-3.45"), " 12.7 ", 0, 2, 3.0, 1.0),
        ],
    ),
    # Keys of windows that stop the query at some values without Spark.
    (
        "select id, row_number() over (partition by upper(s) order by id) as u, rank() over (order by cast(t as date)) as d, rank() over (order by cast(t as timestamp), id) as a, rank() over (order by cast(s as double)) as f, sum(n) over (partition by lower(s), to_date(t)) as w from t order by id",
        "id bigint, u int, d int, a int, f int, w bigint",
        [(1, 1, 4, 4, 1, 7), (2, 1, 1, 1, 1, None), (3, 1, 1, 2, 4, -7), (4, 1, 3, 3, 1, 9)],
    ),
    (
        "select b, rank() over (partition by upper(max(s)) order by sum(n)) as r, rank() over (order by sum(m) desc) as k from t group by b order by b",
        "b boolean, r int, k int",
        [(None, 1, 1), (False, 1, 3), (True, 1, 2)],
    ),
    ("select ID, S as Name from T order by Id limit 2", "ID bigint, Name string", [(1, "abc"), (2, None)]),
    (
        "select * from t join u using (id) order by id, tag",
        "id bigint, n int, m int, amt decimal(18,2), f double, s string, t string, at timestamp, d date, b boolean, tag string",
        [
            (*_T1, "x"),
            (*_T1, "y"),
        ],
    ),
    ("select id from t where id in (select id from u) order by id", "id bigint", [(1,)]),
    ("select id from t where exists (select 1 from u where u.id = t.id) order by id", "id bigint", [(1,)]),
    ("select id from t where n > (select avg(m) from t) order by id", "id bigint", [(1,), (4,)]),
    (
        "with x as (select id, n as Big from t where n > 0) select * from x order by id",
        "id bigint, Big int",
        [(1, 7), (4, 9)],
    ),
    (
        "select id from t union all select id from u order by id",
        "id bigint",
        [(None,), (1,), (1,), (1,), (2,), (3,), (4,), (9,)],
    ),
    ("select id from t except select id from u order by id", "id bigint", [(2,), (3,), (4,)]),
    ("select id from t union select id from u order by id", "id bigint", [(None,), (1,), (2,), (3,), (4,), (9,)]),
    (
        "select id, n + 1 as k, k * 2 as l from t order by id",
        "id bigint, k int, l int",
        [(1, 8, 16), (2, None, None), (3, -6, -12), (4, 10, 20)],
    ),
    (
        "select n % 2 as odd, sum(amt) as s from t group by 1 order by 1",
        "odd int, s decimal(28,2)",
        [(None, None), (-1, Decimal("0.05")), (1, Decimal("6.80"))],
    ),
    (
        "select n % 2 as odd, sum(amt) as s from t group by odd order by odd",
        "odd int, s decimal(28,2)",
        [(None, None), (-1, Decimal("0.05")), (1, Decimal("6.80"))],
    ),
    ("select distinct b from t order by b", "b boolean", [(None,), (False,), (True,)]),
    (
        "select x.id, y.id as other from t x cross join t y where x.id < y.id order by 1, 2",
        "id bigint, other bigint",
        [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)],
    ),
    (
        "select id, tag, x.k from t full join u using (id) join (select 9L as id, 1 as k) x using (id)",
        "id bigint, tag string, k int",
        [(9, "z", 1)],
    ),
    (
        "select id, n, tag, x.k from t right join u using (id) full join (select id, 1 as k from u where id > 1) x using (id) order by 1, 3",
        "id bigint, n int, tag string, k int",
        [(None, None, "n", None), (1, 7, "x", None), (1, 7, "y", None), (9, None, "z", 1)],
    ),
    (
        "select * from t full join u using (id) order by id, tag",
        "id bigint, n int, m int, amt decimal(18,2), f double, s string, t string, at timestamp, d date, b boolean, tag string",
        [
            (*[None] * 10, "n"),
            (*_T1, "x"),
            (*_T1, "y"),
            (*_T2, None),
            (*_T3, None),
            (*_T4, None),
            (9, *[None] * 9, "z"),
        ],
    ),
    (
        "select `ID`, tag from (select * from u) order by id, tag",
        "ID bigint, tag string",
        [(None, "n"), (1, "x"), (1, "y"), (9, "z")],
    ),
    ("select max(d) as d, min(b) as b from t", "d date, b boolean", [(date(2024, 1, 31), False)]),
    (
        "select id, tag from u order by 2 desc, 1 -- a comment",
        "id bigint, tag string",
        [(9, "z"), (1, "y"), (1, "x"), (None, "n")],
    ),
    ("(select id from t order by id)", "id bigint", [(1,), (2,), (3,), (4,)]),
    (
        "select id, sum(id) over (order by id range between 1 preceding and current row) as x from t order by id",
        "id bigint, x bigint",
        [(1, 1), (2, 3), (3, 5), (4, 7)],
    ),
    ("select id from t where id = (select max(id) from u)", "id bigint", []),
    (
        "select t.id, c.n from t join (select id, count(*) as n from u group by id) c on t.id = c.id order by 1",
        "id bigint, n bigint",
        [(1, 2)],
    ),
    ("select case when sum(n) > 3 then 'big' else 'small' end as size from t", "size string", [("big",)]),
    (
        "select count(1) as c, sum(1) as o, sum(n) / count(*) as mean, sum(amt) * 2 as d from t",
        "c bigint, o bigint, mean double, d decimal(30,2)",
        [(4, 4, 2.25, Decimal("13.70"))],
    ),
    (
        "select id, e from (select id, explode(split(t, '-')) as e from t) order by id, e",
        "id bigint, e string",
        [(1, "02"), (1, "2024"), (1, "29"), (3, "1e3"), (4, "01"), (4, "01 05:06:07+08:00"), (4, "2024")],
    ),
    (
        "select id, e from (select id, explode(cast(split(t, '[-e]') as array<int>)) as e from t) order by id, e",
        "id bigint, e int",
        [(1, 2), (1, 29), (1, 2024), (3, 1), (3, 3), (4, None), (4, 1), (4, 2024)],
    ),
    (
        "select id, e from (select id, explode(array(n, id, 0)) as e from t where id < 3) order by id, e",
        "id bigint, e bigint",
        [(1, 0), (1, 1), (1, 7), (2, None), (2, 0), (2, 2)],
    ),
    # Queries like those in the public test suites of streaming databases, over these tables.
    (
        "select id from t where id not in (select id from u where id is not null) order by id",
        "id bigint",
        [(2,), (3,), (4,)],
    ),
    ("select id from t where id not in (select id from u)", "id bigint", []),
    ("select id from t where id not in (select id from u) or id = 3", "id bigint", [(3,)]),
    (
        "select id, case when n in (select cast(id as int) as id from u) then 'in' else 'out' end as c, if(n not in (select cast(id as int) as id from u) and id > 1, 1, 0) as e from t order by id",
        "id bigint, c string, e int",
        [(1, "out", 0), (2, "out", 0), (3, "out", 0), (4, "in", 0)],
    ),
    (
        "select id, (select count(*) from u where u.id = t.id) as c, (select count(*) as c from u where u.id < t.id) as e from t order by id",
        "id bigint, c bigint, e bigint",
        [(1, 2, 0), (2, 0, 2), (3, 0, 2), (4, 0, 2)],
    ),
    (
        "select u.id, count(t.n) as c, sum(t.n) filter (where t.n > 8) as big from u left join t on t.id = u.id group by u.id order by u.id",
        "id bigint, c bigint, big bigint",
        [(None, 0, None), (1, 2, None), (9, 0, None)],
    ),
    ("select t.id, u.tag from t join u on t.n = u.id order by 1", "id bigint, tag string", [(4, "z")]),
    (
        "select a.id as l, b.id as r from u a join u b on a.id <=> b.id order by 1, 2",
        "l bigint, r bigint",
        [(None, None), (1, 1), (1, 1), (1, 1), (1, 1), (9, 9)],
    ),
    ("select tag from u where tag not like 'x%' order by tag", "tag string", [("n",), ("y",), ("z",)]),
    ("select b, count(*) as c from t group by b having count(*) > 1", "b boolean, c bigint", [(None, 2)]),
    (
        "select id, rank() over (order by b) as r, dense_rank() over (order by b) as dr from t order by id",
        "id bigint, r int, dr int",
        [(1, 4, 3), (2, 1, 1), (3, 3, 2), (4, 1, 1)],
    ),
    (
        "select id, lead(n, 1, 0) over (order by id) as x, lag(n, 2) over (order by id) as y from t order by id",
        "id bigint, x int, y int",
        [(1, None, None), (2, -7, None), (3, 9, 7), (4, 0, None)],
    ),
    (
        "select id, lag(amt, 1, 0.555) over (order by id) as l, lead(m, 1, 1.5) over (order by id) as e from t order by id",
        "id bigint, l decimal(18,2), e int",
        [(1, Decimal("0.56"), None), (2, Decimal("10.25"), 0), (3, None, 3), (4, Decimal("0.05"), 1)],
    ),
    ("select max(n) as n, count(*) as c from t where id > 100", "n int, c bigint", [(None, 0)]),
    (
        "select id, (select max(u.tag) from u where u.id = t.id) as x from t order by id",
        "id bigint, x string",
        [(1, "y"), (2, None), (3, None), (4, None)],
    ),
    ("select id from t intersect select id from u order by id", "id bigint", [(1,)]),
    ("select id from u except select id from t order by id", "id bigint", [(None,), (9,)]),
    ("select n from t union select m from t order by n", "n int", [(None,), (-7,), (0,), (2,), (3,), (7,), (9,)]),
    (
        "select k, count(*) as c from (select case when n > 0 then 'up' when n < 0 then 'down' end as k from t) x group by k order by k",
        "k string, c bigint",
        [(None, 1), ("down", 1), ("up", 2)],
    ),
    (
        "select extract(year from at) as y, count(*) as c from t group by extract(year from at) order by 1",
        "y int, c bigint",
        [(None, 1), (1969, 1), (2024, 2)],
    ),
    (
        "with m as (select max(n) as most from t) select id from t cross join m where t.n < m.most order by id",
        "id bigint",
        [(1,), (3,)],
    ),
    (
        "select t.id from t where exists (select 1 from u where u.id = t.id and u.tag not like 'x') order by 1",
        "id bigint",
        [(1,)],
    ),
    ("select sum(distinct n) as s, avg(distinct m) as a from t", "s bigint, a double", [(9, 1.6666666666666667)]),
    (
        "select a.id, b.id as other from t a join t b on a.b <=> b.b and a.id < b.id order by 1, 2",
        "id bigint, other bigint",
        [(2, 4)],
    ),
    (
        "select coalesce(t.id, u.id) as id, tag from t full join u on t.id = u.id order by 1, 2",
        "id bigint, tag string",
        [(None, "n"), (1, "x"), (1, "y"), (2, None), (3, None), (4, None), (9, "z")],
    ),
    (
        "select id, sum(n) over (order by id) as s, count(*) over (partition by b) as c from t order by id",
        "id bigint, s bigint, c bigint",
        [(1, 7, 1), (2, 7, 2), (3, 0, 1), (4, 9, 2)],
    ),
    (
        "select l.id from t l where l.n = (select max(n) from t r where r.b <=> l.b) order by 1",
        "id bigint",
        [(1,), (3,), (4,)],
    ),
    (
        "select t.id, u.tag from t left join u on t.id = u.id and u.tag = 'y' where t.id < 3 order by 1",
        "id bigint, tag string",
        [(1, "y"), (2, None)],
    ),
    ("select count(*) as c from t cross join u where t.n > u.id or u.id is null", "c bigint", [(8,)]),
]
