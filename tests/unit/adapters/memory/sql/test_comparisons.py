"""How comparisons of values of several types are written for DuckDB."""

import pytest

from headwater.adapters.memory.sql.compile import compile_query

TABLES = {"t": {"id": "bigint", "d": "date", "at": "timestamp", "s": "string", "x": "double"}}


def condition(sql):
    return compile_query(f"select id from t where {sql}", TABLES).sql.partition(" WHERE ")[2].replace('"t".', "")


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("d in ('2024-1-1')", """HW_TIME_TEXT("d") IN ('2024-1-1')"""),
        ("d not in (at, 'x')", """NOT HW_TIME_TEXT("d") IN (HW_TIME_TEXT("at"), 'x')"""),
        ("s in (d)", """"s" IN (HW_TIME_TEXT("d"))"""),
        ("d in (at)", """CAST("d" AS TIMESTAMP) IN ("at")"""),
        ("id in (1, x)", """CAST("id" AS DOUBLE) IN (CAST(1 AS DOUBLE), "x")"""),
    ],
)
def test_in_compares_a_time_beside_text_as_its_text(sql, written):
    assert condition(sql) == written


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("id between 1 and x", """("id" >= CAST(1 AS BIGINT) AND CAST("id" AS DOUBLE) <= "x")"""),
        ("d between s and at", """("d" >= HW_DATE(HW_STRIPPED("s")) AND CAST("d" AS TIMESTAMP) <= "at")"""),
        ("x between 1 and id", """"x" BETWEEN CAST(1 AS DOUBLE) AND CAST("id" AS DOUBLE)"""),
        (
            "case id when 1 then true when x then false end",
            """CASE WHEN "id" = CAST(1 AS BIGINT) THEN TRUE WHEN CAST("id" AS DOUBLE) = "x" THEN FALSE END""",
        ),
        (
            "case x when 1 then true when id then false end",
            """CASE "x" WHEN CAST(1 AS DOUBLE) THEN TRUE WHEN CAST("id" AS DOUBLE) THEN FALSE END""",
        ),
    ],
)
def test_between_and_case_compare_each_pair_in_its_own_type(sql, written):
    assert condition(sql) == written
