"""Exact sums in Spark SQL: where Spark would wrap around or return null, the job stops with an error.

Each sum has a few aggregates, its parts, and one expression over them, so it needs no separate job. Integers may wrap
around on the way: their sum is right if it is close to the sum of their upper halves. Decimals without spare digits are
added up in two parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from ...domain.table.sums import MARK, SUM, counts, named, shown
from .schema import quoted

_HALF = 32
"""The number of bits in a bigint's lower half."""
_LEAST = f"{1 - 2**63}L - 1L"
_ROOM = 28
"""Up to this precision, Spark's sum of decimals, which has ten digits more, fits any number of rows."""
_LOW_DIGITS = 29
"""The digits of a decimal's lower part: a billion values of either part can be added up."""
_MOST_SCALE = 6
"""Up to this scale, Spark adds two decimals of 38 digits without losing digits."""


@frozen
class Total:
    """The sum of a column, in the column's type; null if there are no values.

    Args:
        parts: SQL of aggregates, each one call, by the name of its column.
        answer: SQL over these columns and the group's columns.
    """

    parts: Mapping[str, str]
    answer: str


def total(rows: DataFrame, name: str, by: Sequence[str]) -> Total:
    """The sum of a column, which stops the job if it does not fit.

    Args:
        rows: the frame with the column.
        name: the name of the column.
        by: the columns of the group; the error contains their values.
    """
    kind = rows.schema[name].dataType
    raised = _raised(name, kind, by)
    if isinstance(kind, spark_types.DecimalType):
        return _decimal(name, kind, raised)
    if isinstance(kind, spark_types.LongType):
        return _bigint(name, raised, negated=name.startswith(SUM))
    if isinstance(kind, spark_types.IntegralType):
        return _integer(name, kind, raised)
    return _plain(name)


def counted_or_total(rows: DataFrame, name: str, by: Sequence[str]) -> Total:
    """As `total`; our own columns that count rows always fit and are not checked."""
    return _plain(name) if counts(name) else total(rows, name, by)


def _part(role: str, name: str) -> str:
    return f"_part_{role}_{name}"


def _plain(name: str) -> Total:
    low = _part("sum", name)
    return Total({low: f"sum({quoted(name)})"}, quoted(low))


def _integer(name: str, kind: spark_types.DataType, raised: str) -> Total:
    sum_, ddl = quoted(_part("sum", name)), kind.simpleString()
    answer = f"IF({sum_} <> CAST({sum_} AS {ddl}), {raised}, CAST({sum_} AS {ddl}))"
    return Total(_plain(name).parts, answer)


def _bigint(name: str, raised: str, *, negated: bool) -> Total:
    """The sum of bigints; with `negated`, its negative value must fit too."""
    column, high = quoted(name), _part("high", name)
    sum_ = quoted(_part("sum", name))
    upper = f"shiftright({column}, {_HALF})"
    if negated:
        upper = f"IF({column} = {_LEAST}, {raised}, {upper})"
    fits = f"abs({quoted(high)} - shiftright({sum_}, {_HALF})) < {2 ** (_HALF - 1)}L"
    if negated:
        fits += f" AND {sum_} > {_LEAST}"
    answer = f"CASE WHEN {sum_} IS NULL OR ({fits}) THEN {sum_} ELSE {raised} END"
    return Total({**_plain(name).parts, high: f"sum({upper})"}, answer)


def _decimal(name: str, kind: spark_types.DecimalType, raised: str) -> Total:
    column, given = quoted(name), _part("count", name)
    parts, answer = dict(_plain(name).parts), quoted(_part("sum", name))
    if kind.precision > _ROOM and kind.scale <= _MOST_SCALE:
        wide, high, low = f"decimal(38,{kind.scale})", _part("high", name), _part("low", name)
        unit = f"CAST('1E{_LOW_DIGITS - kind.scale}' AS {wide})"
        parts = {high: f"sum({column} div {unit})", low: f"sum({column} % {unit})"}
        rest = f"CAST({quoted(low)} AS {wide})"
        answer = f"CAST({quoted(high)} + ({rest} div {unit}) AS decimal(10,0)) * {unit} + {rest} % {unit}"
    answer = f"coalesce(CAST({answer} AS {kind.simpleString()}), IF({quoted(given)} = 0, NULL, {raised}))"
    return Total({**parts, given: f"count({column})"}, answer)


def _raised(name: str, kind: spark_types.DataType, by: Sequence[str]) -> str:
    """The SQL of an error that `sums.read_overflow` reads."""
    group = ", ".join(f"{text(each)}, CAST({quoted(each)} AS string)" for each in shown(tuple(by)))
    fields = f"'sum', {text(named(name))}, 'type', '{kind.simpleString()}'"
    fields += f", 'group', named_struct({group})" if group else ""
    return f"raise_error(concat('{MARK}', to_json(named_struct({fields}))))"


def text(value: str) -> str:
    """A text as an SQL literal."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
