"""What a query may not contain without Spark, by its parts and their types."""

import pytest

from headwater.domain.errors import ConfigError
from headwater.domain.sql.typing import type_query

COLUMNS = (
    "id bigint, n int, k smallint, g string, x boolean, amt decimal(18,2), r float, f double, d date, at timestamp,"
    " a array<int>, b array<string>"
)
TABLES = {"t": dict(each.rsplit(" ", 1) for each in COLUMNS.split(", ")), "u": {"id": "bigint", "w": "int"}}


@pytest.mark.parametrize(
    "sql",
    [
        "select explode(a) as c, explode(b) as e from t",
        "select explode(a) as c, count(*) as e from t group by 1",
        "select explode(array(max(n), min(n))) as c from t",
        "select explode(a) as c, row_number() over (order by id) as e from t",
    ],
)
def test_rows_are_made_once_and_not_grouped_at_once(sql):
    with pytest.raises(ConfigError, match="computes in another order; explode in a subquery"):
        type_query(sql, TABLES)


def test_rows_that_were_made_may_be_grouped():
    type_query("select c, count(*) as n from (select distinct explode(a) as c from t) group by c", TABLES)


@pytest.mark.parametrize(
    ("expression", "ddl"),
    [
        ("-2147483648", "int"),
        ("-9223372036854775808", "bigint"),
        ("-(2147483648)", "bigint"),
        ("round(r, 2)", "float"),
        ("lag(k, 1, 0) over (order by id)", "smallint"),
        ("lead(amt, 1, 0.555) over (order by id)", "decimal(18,2)"),
        ("lag(d, 1, at) over (order by id)", "date"),
        ("datediff(d, at)", "int"),
        ("datediff(day, d, at)", "bigint"),
        ("n + 2L", "bigint"),
        ("sum(n) over (order by id rows between 2 preceding and unbounded following)", "bigint"),
        ("sum(n) over (order by id range 1 preceding)", "bigint"),
        ("sum(n) over (order by at range between interval 1 day preceding and current row)", "bigint"),
        ("sum(n) over (order by at range between interval 1 week preceding and interval 2 days following)", "bigint"),
        ("x is not true", "boolean"),
        ("if(null, 1, 2)", "int"),
        ("timestamp '2024-01-01 12:00:00.5+01:00'", "timestamp"),
        ("cast(cast(n as long) as decimal(20, 2))", "decimal(20,2)"),
        ("trunc(coalesce(d, d), 'MM')", "date"),
        ("n + 1 || g || (n + 1)", "string"),
        ("(n between 1 and 9) = true", "boolean"),
        ("timestamp '2024-1-2 3:04:05'", "timestamp"),
    ],
)
def test_types_are_those_of_spark(expression, ddl):
    assert type_query(f"select {expression} as c from t", TABLES).schema["c"].ddl == ddl


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("count(distinct n) over (partition by g)", "no DISTINCT or FILTER in a window"),
        ("sum(n) filter (where n > 0) over (order by id)", "no DISTINCT or FILTER in a window"),
        ("lag(n, k) over (order by id)", "write the offset as a whole number"),
        ("lag(n, 1L) over (order by id)", "write the offset as a whole number"),
        ("lag(n) over (order by id rows between 1 preceding and current row)", "does not take this frame"),
        ("sum(n) over (order by id groups between 1 preceding and current row)", "does not take this frame"),
        ("sum(n) over (order by id rows between 1 preceding and current row exclude current row)", "this frame"),
        ("sum(n) over (order by d range between interval 1 day preceding and current row)", "does not take this frame"),
        ("sum(n) over (order by id rows between k preceding and current row)", "does not take this frame"),
        ("n is true", "a condition is wanted"),
        ("n in ()", "write FALSE"),
        ("case when null then 1 end", "always null"),
        ("count(*) filter (where null)", "always null"),
        ("count()", r"write count\(\*\)"),
        ("greatest(n)", "compares one value"),
        ("1e400", "beyond a double"),
        ("9223372036854775808", "beyond a bigint"),
        ("at - interval 1 quarter", "not an interval"),
        ("at - interval 1.5 days", "not an interval"),
        ("amt + 2L", "write 2 without a suffix"),
        ("-(3S) * amt", "write 3 without a suffix"),
        ("[1, 2]", r"write array\(…\)"),
        ("n isnull", "write IS NULL"),
        ("n notnull", "IS NOT NULL"),
        ("trunc(d, 'q')", "does not know the unit 'q'"),
        ("date_trunc('W', at)", "does not know the unit 'W'"),
        ("date_trunc(WEEK, at)", "does not know the unit 'WEEK'"),
        ("strpos(g, 'a')", "no function strpos"),
        ("day_of_week(d)", "no function day_of_week"),
        ("cast(n as text)", "no type text"),
        ("cast(b as array<int64>)", "no type int64"),
        ("timestamp 'epoch'", "write it as DATE"),
        ("date '2024-02-30'", "write it as DATE"),
        ("g || n + 1", "write parentheses"),
        ("n is null is null", "IS and IS otherwise; write parentheses"),
        ("n between 1 and 9 = true", "BETWEEN and AND and = otherwise; write parentheses"),
        ("g like s like g", "only in parentheses"),
        ("if(x, n)", "write it: if"),
        (
            "sum(n) over (order by at range between interval 1 day preceding and interval 1 hour following)",
            "does not take this frame",
        ),
        ("sum(n) over (order by id rows between 3 preceding and 5 preceding)", "does not take this frame"),
        ("ä", "only in backticks"),
        ("date_add(d, id)", "id` is bigint where an int or a smaller whole number is wanted"),
        ("date_sub(d, 3000000000)", "is bigint where an int"),
    ],
)
def test_what_spark_does_not_know(expression, told):
    with pytest.raises(ConfigError, match=told):
        type_query(f"select {expression} as c from t", TABLES)


@pytest.mark.parametrize(
    "sql",
    [
        "select * except (w) from u",
        "select * replace (1 as w) from u",
        "with recursive q as (select 1 as x union all select x + 1 from q where x < 3) select x from q",
        "select id from u where null",
        "select t.id from t join u on null",
        "select id from t order by rank() over (order by g)",
        "select distinct n from t order by id",
        "select g from t group by g having max(id) > 1 order by max(id)",
        "select g, max(id) as m from t group by g having max(id) > 1 order by max(id)",
        "select g, max(id) as ID from t group by g order by max(id) + 1",
        "select upper(g) as g, count(*) as c from t group by g order by max(g)",
        "from u where id = 1",
        "select a from u as x(a, b)",
        "select id from u limit null",
    ],
)
def test_queries_that_spark_does_not_know(sql):
    with pytest.raises(ConfigError, match=r"not known without|always null|ORDER BY|FROM|renames|no number"):
        type_query(sql, TABLES)


def test_a_column_of_a_type_that_tables_do_not_have_is_named() -> None:
    tables = {"t": {"Id": "variant", "k": "string"}}
    with pytest.raises(
        ConfigError, match="column 'Id' of the result has a type that tables do not have, such as a time"
    ):
        type_query("SELECT * FROM t", tables)
    with pytest.raises(ConfigError, match="column 'n' of the result is NULL in every row; cast it to a type, such as"):
        type_query("SELECT k, NULL AS n FROM t", tables)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("select t.id + 1 as id, count(*) as c from t join u on t.n = u.w group by id", "id"),
        ("select t.id as ID, count(*) as c from t join u on t.n = u.w group by `Id`", "id"),
        ("select id from t join u using (id), u as v", "id"),
        ("select id from t join u using (id) join u as v on v.w = t.n", "id"),
        ("select count(*) as c from t full join u using (id) cross join (select id from u) v where id = 1", "id"),
        ("select t.n from t cross join u join u as v using (id)", "id"),
        ("select t.n from t, u join u as v using (id)", "id"),
    ],
)
def test_names_that_several_tables_have_are_ambiguous_to_spark(sql, name):
    with pytest.raises(ConfigError, match=f"Column '{name}' is ambiguous: several tables have it; write the table"):
        type_query(sql, TABLES)


@pytest.mark.parametrize(
    "sql",
    [
        "select n + 1 as q, sum(q) over (partition by g) as m from t",
        "select n + 1 as q, sum(n) over (partition by q) as m from t",
        "select g as Q, row_number() over (order by q) as m from t",
        "select g as q, sum(count(*)) over (partition by q) as m from t group by g",
        "select n as q, sum(q) as m from t group by n",
    ],
)
def test_a_window_and_an_aggregate_use_no_name_that_only_select_gives(sql):
    with pytest.raises(ConfigError, match="no table has column 'q', and a window or an aggregate cannot use a name"):
        type_query(sql, TABLES)


@pytest.mark.parametrize(
    "sql",
    [
        "select n + 1 as n, count(*) as c from t group by n",
        "select t.n + 1 as n, count(*) as c from t join u on t.id = u.id group by n, t.n",
        "select t.id + 1 as z, count(*) as c from t join u on t.id = u.id group by z having z > 1",
        "select t.id + 1 as id from t join u on t.n = u.w order by id",
        "select n + 1 as n, sum(n) over (partition by n) as m from t",
        "select n + 1 as q, q + 1 as r, sum(n) over (partition by g) + q as m from t",
        "select id from t join u using (id) join u as v using (id)",
        "select w from t join u using (id), (select id from u) as v",
        "select id, count(*) as c from t full join u using (id) group by id",
    ],
)
def test_names_that_spark_finds(sql):
    type_query(sql, TABLES)
