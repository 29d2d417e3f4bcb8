"""Expressions, measures and queries: how they are read, and what is refused before any engine sees it."""

import pytest

from headwater.domain.errors import ConfigError
from headwater.domain.sql import parse_aggregate, parse_expression, parse_row_expression, parse_statement
from headwater.domain.table.schema import DataType, Schema

ROWS = Schema.parse("a bigint, Amount decimal(18,2), `a b` string")


@pytest.mark.parametrize(
    ("text", "sql", "columns"),
    [
        ("a + 1", "`a` + 1", ("a",)),
        ("`a b`", "`a b`", ("a b",)),
        ("a > b and b > a", "`a` > `b` AND `b` > `a`", ("a", "b")),
        ("case when a > 1 then 'x' end", "CASE WHEN `a` > 1 THEN 'x' END", ("a",)),
        ("my_own(a)", "MY_OWN(`a`)", ("a",)),
        ("a = 'sum('", "`a` = 'sum('", ("a",)),
        ("a like any ('x', 'y')", "`a` LIKE ANY ('x', 'y')", ("a",)),
        ("unix_timestamp(a)", "UNIX_TIMESTAMP(`a`)", ("a",)),
        ("`rand`", "`rand`", ("rand",)),
    ],
)
def test_an_expression_of_one_row(text, sql, columns):
    expression = parse_expression(text)
    assert (expression.sql, expression.columns) == (sql, columns)
    expression.check_of_one_row()


@pytest.mark.parametrize(
    ("text", "ddl"),
    [
        ("a", "bigint"),
        ("amount", "decimal(18,2)"),
        ("cast(a as decimal(10,2))", "decimal(10,2)"),
        ("(cast(a as string))", "string"),
        ("a + 1", None),
        ("cast(a as int) + 1", None),
        ("missing", None),
    ],
)
def test_a_plain_type_is_told(text, ddl):
    assert parse_expression(text).declared_type(ROWS) == (DataType.parse(ddl) if ddl else None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sum(a)", "an aggregate, sum"),
        ("a + max(b)", "an aggregate, max"),
        ("try_sum(a)", "an aggregate, try_sum"),
        ("percentile_approx(a, 0.5)", "an aggregate, percentile_approx"),
        ("first(a)", "an aggregate, first"),
        ("rank() over (order by a)", "a window function"),
        ("sum(a) over ()", "a window function"),
        ("row_number()", "a window function, row_number"),
        ("a in (select b from t)", "a subquery"),
        ("exists (select 1)", "a subquery"),
        ("explode(a)", "several rows from one, explode"),
        ("rand()", "nondeterministic function, rand"),
        ("uuid()", "nondeterministic function, uuid"),
        ("now()", "nondeterministic function, now"),
        ("current_timestamp", "nondeterministic function, current_timestamp"),
        ("current_date", "nondeterministic function, current_date"),
        ("unix_timestamp()", "nondeterministic function, current_timestamp"),
        ("monotonically_increasing_id()", "nondeterministic function"),
    ],
)
def test_what_needs_more_than_a_row_is_refused(text, told):
    with pytest.raises(ConfigError, match=told):
        parse_expression(text).check_of_one_row()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds 0 statements"),
        ("a; b", "holds 2 statements"),
        ("a +", "cannot read SQL 'a \\+': .*line 1"),
        ("a, b", "cannot read"),
        ("*", "not an expression"),
        ("select 1", "not an expression"),
        ("(select max(b) from t)", "a subquery: it may use one row's values"),
        ("a group by b", "'a group by b' has a GROUP BY: it may use one row's values; group and rank in a pipeline"),
        ("a as b", "write only the expression|not an expression"),
        ("t.a", "'t.a' is not a column of a row"),
        ("cast(a as point)", "cannot read|unknown column type"),
    ],
)
def test_what_is_no_expression(text, told):
    with pytest.raises(ConfigError, match=told):
        parse_expression(text)


ODD = Schema.parse("seq int, no int, `seq-no` int, `true` boolean, `a b` string, `case` int, `Current_Date` date")


@pytest.mark.parametrize("name", ["seq", "SEQ", "seq-no", "Seq-No", "true", "a b", "case", "current_date"])
def test_a_text_that_is_a_column_is_that_column_whatever_sql_reads_in_it(name):
    expression = parse_row_expression(name, ODD)
    assert (expression.sql, expression.bare, expression.columns) == (f"`{name}`", name, (name,))


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("seq - no", "`seq` - `no`"),
        ("seq-no + 1", "`seq` - `no` + 1"),
        ("`seq-no`", "`seq-no`"),
        ("not true", "NOT TRUE"),
    ],
)
def test_any_other_text_is_sql(text, sql):
    assert parse_row_expression(text, ODD).sql == sql


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a b > 'x'", "'a b'"),
        ("CASE > 1", "'case'"),
        ("current_date > seq", "'Current_Date'"),
    ],
)
def test_a_column_that_needs_backticks_is_told(text, told):
    with pytest.raises(ConfigError, match=f"; if you mean the column {told}, write it in backticks: `{told[1:-1]}`$"):
        parse_row_expression(text, ODD)


@pytest.mark.parametrize("text", ["seq + missing", "missing > `a b`", "seq +"])
def test_backticks_are_told_only_of_a_column_that_lacks_them(text):
    with pytest.raises(ConfigError) as told:
        parse_row_expression(text, ODD)
    assert "backticks" not in str(told.value)


def test_columns_are_checked_without_regard_to_case():
    parse_expression("AMOUNT + a").check_columns(ROWS)
    with pytest.raises(ConfigError, match="no column 'b'; there are: a, Amount, a b"):
        parse_expression("a + b").check_columns(ROWS)


@pytest.mark.parametrize(
    ("text", "function", "argument"),
    [
        ("count(*)", "count", None),
        ("count(x)", "count", "`x`"),
        ("COUNT(DISTINCT a + 1)", "count_distinct", "`a` + 1"),
        ("approx_count_distinct(x)", "approx_count_distinct", "`x`"),
        ("sum(x * 2)", "sum", "`x` * 2"),
        ("avg(x)", "avg", "`x`"),
        ("min(x)", "min", "`x`"),
        ("max(if(a, 1, null))", "max", "IF(`a`, 1, NULL)"),
    ],
)
def test_a_measure(text, function, argument):
    measure = parse_aggregate(text)
    assert (measure.function, measure.argument and measure.argument.sql) == (function, argument)


@pytest.mark.parametrize(
    "text",
    [
        "sum(distinct x)",
        "count(distinct a, b)",
        "count(distinct *)",
        "count(a, b)",
        "count()",
        "sum(*)",
        "max(a, b)",
        "sum(x) + 1",
        "sum(x) over ()",
        "first(x)",
        "approx_count_distinct(x, 0.01)",
        "x",
    ],
)
def test_what_is_no_measure_is_told_with_what_is(text):
    with pytest.raises(
        ConfigError, match=r"is not a measure; allowed are count\(\*\), .*count\(distinct x\).*max\(x\)"
    ):
        parse_aggregate(text)


def test_the_condition_of_a_measure_has_a_key_of_its_own():
    with pytest.raises(ConfigError, match="under the key where"):
        parse_aggregate("sum(x) filter (where y > 1)")


@pytest.mark.parametrize(("text", "told"), [("sum(max(x))", "an aggregate, max"), ("sum(rand())", "rand")])
def test_a_measure_is_of_one_row_each(text, told):
    with pytest.raises(ConfigError, match=told):
        parse_aggregate(text)


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("select a from t;", ("t",)),
        ("select 1 as x", ()),
        ("with x as (select a from t) select a from x join u using (a)", ("t", "u")),
        ("select a.*, b.c from a join b using (k) where x in (select y from q)", ("a", "b", "q")),
        ("select a from t union all select b from u", ("t", "u")),
        ("select 2L as x, a from t -- why", ("t",)),
    ],
)
def test_the_tables_of_a_query(text, tables):
    assert sorted(parse_statement(text).tables) == sorted(tables)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("insert into t select 1", "is not a query"),
        ("values (1, 2)", "is not a query"),
        ("select sum(a) from t", r"column 'SUM\(a\)' has no name; add one: SUM\(a\) AS name"),
        ("select a from db.t", "reads from db.t"),
        ("select * from delta.`/x`", "plain names"),
        ("select * from range(10)", "plain names"),
        ("select a::int as b from t", "write CAST"),
        ("select a from t; select b from t", "2 statements"),
    ],
)
def test_what_is_no_query_over_tables(text, told):
    with pytest.raises(ConfigError, match=told):
        parse_statement(text)


def test_a_query_of_other_rows_each_time():
    parse_statement("select max(at) as at from t").check_repeatable()
    with pytest.raises(ConfigError, match="calls rand, which is nondeterministic"):
        parse_statement("select rand() as r from t").check_repeatable()


def test_tables_are_checked_without_regard_to_case():
    parse_statement("select a from T").check_tables(["t"])
    with pytest.raises(ConfigError, match="no table 'u'; there are: t"):
        parse_statement("select a from u").check_tables(["t"])
    with pytest.raises(ConfigError, match="has a WITH query with the name of its input 't'"):
        parse_statement("with t as (select 1 as a) select a from t").check_tables(["T"])


def test_two_columns_of_one_name():
    with pytest.raises(ConfigError, match="occurs twice"):
        Schema.parse("a int, a int")
