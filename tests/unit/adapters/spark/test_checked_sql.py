"""How sums in user-supplied SQL are made to fail on overflow on Spark; the query contract runs the results."""

from __future__ import annotations

import pytest

from headwater.adapters.spark import checked_sql
from headwater.domain.errors import SumOverflow
from headwater.domain.table.sums import MARK, mark, overflow, read_overflow


@pytest.mark.parametrize(
    ("sql", "made"),
    [
        ("SELECT sum(a) AS s FROM t", "SELECT try_sum(a) AS s FROM t"),
        ("SELECT Avg ( a ) AS s FROM t", "SELECT try_avg(a) AS s FROM t"),
        ("SELECT sum(DISTINCT a) AS s FROM t", "SELECT try_sum(DISTINCT a) AS s FROM t"),
        ("SELECT sum(a) FILTER (WHERE b > (1)) AS s FROM t", "SELECT try_sum(a) FILTER (WHERE b > (1)) AS s FROM t"),
        ("SELECT sum(a) OVER w AS s FROM t WINDOW w AS ()", "SELECT try_sum(a) OVER w AS s FROM t WINDOW w AS ()"),
        ("SELECT round(sum(f(a)) + 1, 2) AS s FROM t -- end", "SELECT round(try_sum(f(a)) + 1, 2) AS s FROM t"),
        (
            "SELECT sum(sum(a)) OVER (ORDER BY b) AS s FROM t GROUP BY b",
            "SELECT try_sum(try_sum(a)) OVER (ORDER BY b) AS s FROM t GROUP BY b",
        ),
    ],
)
def test_calls_are_replaced_with_all_that_belongs_to_them(sql: str, made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_sql, "_FORM", "{function}({values}){suffix}")
    assert checked_sql.check_sums(sql) == made


@pytest.mark.parametrize(
    "sql", ["SELECT a AS sum FROM t", "SELECT 'sum(a)' AS s, `avg` FROM t", "SELECT t.sum, x.avg FROM t -- sum(a)"]
)
def test_other_words_stay(sql: str) -> None:
    assert checked_sql.check_sums(sql) == sql


def test_the_error_is_told_in_the_words_of_the_query() -> None:
    made = checked_sql.check_sums("SELECT sum( a\n + 'it''s' ) AS s FROM t")
    assert "coalesce(try_sum(a\n + 'it''s'), IF(count(a\n + 'it''s') = 0, NULL, raise_error('" in made


def test_a_message_tells_of_a_sum_only_where_an_engine_raised_it() -> None:
    words = mark("sum(a) in 'x'", "bigint")
    for message in (words, f"Job aborted: java.lang.RuntimeException: {words}\n\tat org", f"[E] Error: [U_1] {words}"):
        found = read_overflow(message)
        assert isinstance(found, SumOverflow)
        assert str(found) == str(overflow("sum(a) in 'x'", "bigint", {}))
    assert read_overflow(f"Exception: the plan has raise_error({words})") is None
    assert read_overflow(f"Exception: {MARK} and more") is None
