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
