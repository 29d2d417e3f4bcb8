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
