"""Times in the results of user-supplied SQL: a year that only Spark can represent stops the job."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from ...domain.duration import DAY_MICROS, FIRST_MICRO, LAST_MICRO
from ...domain.errors import BadInput
from ...domain.sql.parsing import quote
from .schema import quoted
from .sums import text

_MARK = "headwater-time:"
_BEGIN = re.compile(rf"(?:^|(?:Exception|Error): (?:\[\w+\] )?){_MARK}([^\n]*)")
_COUNTED: dict[type[spark_types.DataType], tuple[str, int]] = {
    spark_types.DateType: ("unix_date({})", DAY_MICROS),
    spark_types.TimestampType: ("unix_micros({})", 1),
    spark_types.TimestampNTZType: ("unix_micros(CAST({} AS timestamp_ltz))", 1),
}
"""SQL that counts a time from 1970, and the microseconds of one unit."""


def in_range(rows: DataFrame, sql: str, *, lenient: bool = False) -> DataFrame:
    """The rows of a query; a time outside 0001-01-01 to 9999-12-31 in UTC stops the job, or is null."""
    timed = {each.name: _COUNTED[type(each.dataType)] for each in rows.schema.fields if type(each.dataType) in _COUNTED}
    if not timed:
        return rows
    columns = (_checked(name, *timed[name], sql, lenient) if name in timed else quoted(name) for name in rows.columns)
    return rows.selectExpr(*columns)


def read_out_of_range(message: str) -> BadInput | None:
    """The error in Spark's message, if such a time raised it; else None."""
    found = _BEGIN.search(message)
    return BadInput(found[1]) if found else None


def _checked(name: str, count: str, step: int, sql: str, lenient: bool) -> str:  # noqa: FBT001 - in the row of its query
    column = quoted(name)
    why = f"{quote(sql)}: column {name!r} has a time outside 0001-01-01 to 9999-12-31; leave it out"
    inside = f"{count.format(column)} BETWEEN {FIRST_MICRO // step} AND {LAST_MICRO // step}"
    outside = "NULL" if lenient else f"raise_error({text(_MARK + why)})"
    return f"IF({column} IS NULL OR {inside}, {column}, {outside}) AS {column}"
