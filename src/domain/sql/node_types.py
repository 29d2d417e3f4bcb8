"""The type that Spark gives to each kind of node of a query. Without Spark, the types of other nodes are unknown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from ..errors import ConfigError
from ..table.schema import FLOATS, INTEGERS, NUMBERS, TIMES, DataType
from .aggregate_types import count_type, distinct_type, extreme_type, mean_type, offset_type, total_type, window_type
from .condition_types import (
    between_type,
    branched_type,
    chosen_type,
    compared,
    filtering_type,
    if_type,
    is_type,
    joining_type,
    logical_type,
    membership_type,
)
from .parts import (
    check,
    field_of,
    number_type,
    only,
    places_of,
    texts_of,
    unit_of,
    values_of,
)
from .types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    STRING,
    TIMESTAMP,
    VOID,
    arithmetic_type,
    digits,
    element_of,
    limited,
    literal_type,
    named,
    type_of,
    widest,
)

TypeOf: TypeAlias = Callable[[exp.Expr], DataType]

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
DATE_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    **dict.fromkeys(("MONTH", "MON", "MM"), "month"),
    "QUARTER": "quarter",
    "WEEK": "week",
}
"""The units of ``trunc(date, unit)``."""
_TIME_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
_DAY_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"})
_WHOLE, _PARTS = re.compile(r"[+-]?\d+"), re.compile(r"[+-]?\d+(\.\d+)?")
_TEXT = frozenset({"string"})
_TIMES_OR_TEXT = TIMES | _TEXT


def _is(found: DataType) -> Callable[[exp.Expr], DataType]:
    return lambda _: found


def _of_this(node: exp.Expr) -> DataType:
    return type_of(node.this)


def _sum_type(node: exp.Expr) -> DataType:
    """The type of an addition or a subtraction: of numbers, or of a time and an interval."""
    left, right = type_of(node.args["this"]), type_of(node.args["expression"])
    if right == INTERVAL and left.name in TIMES:
        by_day = left == DATE and unit_of(node.args["expression"]).removesuffix("S") in _DAY_UNITS
        return left if by_day or left != DATE else TIMESTAMP
    return arithmetic_type(node)


def _interval_type(node: exp.Expr) -> DataType:
    number, unit = node.this, unit_of(node).removesuffix("S")
    form = _PARTS if unit == "SECOND" else _WHOLE
    known = isinstance(number, exp.Literal) and form.fullmatch(number.name)
    if not known or unit not in _TIME_UNITS or unit == "QUARTER":
        raise ConfigError(f"{node.sql('spark')} is not an interval that is known without Spark; write INTERVAL 1 DAY")
    return INTERVAL


def _quotient_type(node: exp.Expr) -> DataType:
    found = {type_of(node.args["this"]), type_of(node.args["expression"])}
    widest(found)
    names = {each.name for each in found}
    if not names <= NUMBERS | {"void"} or ("decimal" in names and not names & FLOATS):
        raise ConfigError(f"{node.sql('spark')} divides decimals, or no numbers; cast one side to double")
    return DOUBLE


def _whole_type(node: exp.Expr) -> DataType:
    for each in (node.args["this"], node.args["expression"]):
        check(each, INTEGERS, "a whole number")
    return (
        BIGINT
        if isinstance(node, exp.IntDiv)
        else widest((type_of(node.args["this"]), type_of(node.args["expression"])))
    )


def _substring_type(node: exp.Expr) -> DataType:
    only(node, "this", "start", "length")
    check(node.this, _TEXT, "text")
    for each in values_of(node, ("start", "length")):
        check(each, INTEGERS, "a whole number")
    return STRING


def _trimmed_type(node: exp.Expr) -> DataType:
    only(node, "this", "expression", "position")
    for each in values_of(node, ("this", "expression")):
        check(each, _TEXT, "text")
    return STRING


def _rounded_type(node: exp.Expr) -> DataType:
    only(node, "this", "decimals")
    found, places = number_type(node), places_of(node)
    if found.name == "decimal":
        precision, scale = digits(found)
        return limited(precision - scale + min(scale, places) + 1, min(scale, places))
    return found


def _ceiling_type(node: exp.Expr) -> DataType:
    only(node, "this")
    found = number_type(node)
    if found.name != "decimal":
        return BIGINT
    precision, scale = digits(found)
    return DataType("decimal", max(precision - scale + 1, 1), 0)


def _root_type(node: exp.Expr) -> DataType:
    for each in node.iter_expressions():
        check(each, NUMBERS, "a number")
    return DOUBLE


def _seconds_type(node: exp.Expr) -> DataType:
    check(node.expression, _TIMES_OR_TEXT, "a date or a timestamp")
    return DataType("decimal", 8, 6)


def _truncated_type(node: exp.Expr) -> DataType:
    only(node, "this", "unit")
    to_date = isinstance(node, exp.DateTrunc)
    check(node.this, _TIMES_OR_TEXT, "a date or a timestamp")
    if unit_of(node) not in (DATE_UNITS if to_date else _TIME_UNITS):
        raise ConfigError(
            f"{node.sql('spark')}: unknown unit; known: {', '.join(DATE_UNITS if to_date else sorted(_TIME_UNITS))}"
        )
    return DATE if to_date else TIMESTAMP


def _day_type(node: exp.Expr) -> DataType:
    only(node, "this", "expression", "unit")
    if unit_of(node) not in {"", "DAY"}:
        raise ConfigError(f"{node.sql('spark')}: only days are counted without Spark; use date_add(date, days)")
    check(node.this, _TIMES_OR_TEXT, "a date")
    return DATE


def _days_type(node: exp.Expr) -> DataType:
    check(node.expression, INTEGERS - {"bigint"}, "an int or a smaller whole number")
    return _day_type(node)


def _apart_type(node: exp.Expr) -> DataType:
    _day_type(node)
    check(node.expression, _TIMES_OR_TEXT, "a date")
    return BIGINT if unit_of(node) else INT


def _of_time(answer: DataType, *also: str) -> TypeOf:
    """A function of one time, which may have these other arguments."""

    def typed(node: exp.Expr) -> DataType:
        only(node, "this", *also)
        check(node.this, _TIMES_OR_TEXT, "a date or a timestamp")
        return answer

    return typed


def _months_type(node: exp.Expr) -> DataType:
    only(node, "this", "expression")
    check(node.this, _TIMES_OR_TEXT, "a date")
    check(node.expression, INTEGERS, "a whole number")
    return DATE


def _cast_type(node: exp.Expr) -> DataType:
    only(node, "this", "to", "safe")
    return named(node.args["to"].sql("spark"))


def _subquery_type(node: exp.Expr) -> DataType:
    return type_of(node.this.selects[0]) if isinstance(node.this, exp.Query) else type_of(node.this)


def _texts(*names: str, answer: DataType = STRING) -> TypeOf:
    """A function with text arguments of these names, and no others."""

    def typed(node: exp.Expr) -> DataType:
        only(node, *names)
        for each in values_of(node, names):
            check(each, _TEXT, "text")
        return answer

    return typed


def _joined_type(node: exp.Expr) -> DataType:
    if isinstance(node, exp.DPipe) and isinstance(node.expression, (exp.Add, exp.Sub)):
        raise ConfigError(f"{node.sql('spark')}: Spark joins the texts first; write parentheses")
    for each in texts_of(node):
        type_of(each)
    return STRING


def _split_type(node: exp.Expr) -> DataType:
    pattern = node.args["expression"]
    if node.args.get("limit") or not isinstance(pattern, exp.Literal) or not pattern.name:
        raise ConfigError(
            f"{node.sql('spark')}: without Spark, text is split by a pattern that is written out, without a limit"
        )
    check(node.this, _TEXT, "text")
    return DataType.array(STRING)


def _array_type(node: exp.Expr) -> DataType:
    return DataType.array(widest(map(type_of, node.expressions)))


def _explode_type(node: exp.Expr) -> DataType:
    if not isinstance(node.parent, exp.Alias):
        raise ConfigError(f"{node.sql('spark')} makes several rows of one: select it as a column of its own")
    return element_of(type_of(node.this))


NODE_TYPES: dict[type[exp.Expr], TypeOf] = {
    exp.Literal: literal_type,
    exp.Boolean: _is(BOOLEAN),
    exp.Null: _is(VOID),
    exp.Interval: _interval_type,
    exp.Paren: _of_this,
    exp.Alias: _of_this,
    exp.Subquery: _subquery_type,
    exp.And: logical_type,
    exp.Or: logical_type,
    exp.Not: logical_type,
    **dict.fromkeys(COMPARISONS, compared("this", "expression")),
    exp.Where: filtering_type,
    exp.Having: filtering_type,
    exp.Join: joining_type,
    exp.Between: between_type,
    exp.Is: is_type,
    exp.In: membership_type,
    exp.Exists: _is(BOOLEAN),
    exp.Case: branched_type,
    exp.If: if_type,
    exp.Coalesce: chosen_type,
    exp.Greatest: chosen_type,
    exp.Least: chosen_type,
    exp.Nullif: _of_this,
    exp.Add: _sum_type,
    exp.Sub: _sum_type,
    exp.Mul: arithmetic_type,
    exp.Div: _quotient_type,
    exp.IntDiv: _whole_type,
    exp.Mod: _whole_type,
    exp.Neg: number_type,
    exp.Abs: number_type,
    exp.Ceil: _ceiling_type,
    exp.Floor: _ceiling_type,
    exp.Round: _rounded_type,
    exp.Sqrt: _root_type,
    exp.Pow: _root_type,
    exp.Like: _texts("this", "expression", answer=BOOLEAN),
    exp.RegexpLike: _texts("this", "expression", answer=BOOLEAN),
    exp.Concat: _joined_type,
    exp.DPipe: _joined_type,
    exp.Lower: _texts("this"),
    exp.Upper: _texts("this"),
    exp.Trim: _trimmed_type,
    exp.Length: _texts("this", answer=INT),
    exp.Substring: _substring_type,
    exp.Replace: _texts("this", "expression", "replacement"),
    **dict.fromkeys((exp.StartsWith, exp.EndsWith, exp.Contains), _texts("this", "expression", answer=BOOLEAN)),
    exp.StrPosition: _texts("this", "substr", answer=INT),
    **dict.fromkeys((exp.Year, exp.Quarter, exp.Month, exp.Day), _of_time(INT)),
    **dict.fromkeys((exp.DayOfMonth, exp.DayOfYear, exp.DayOfWeek, exp.WeekOfYear), _of_time(INT)),
    **dict.fromkeys((exp.Hour, exp.Minute, exp.Second), _of_time(INT)),
    exp.Extract: _seconds_type,
    exp.TimestampTrunc: _truncated_type,
    exp.DateTrunc: _truncated_type,
    exp.TsOrDsAdd: _days_type,
    exp.DateDiff: _apart_type,
    exp.TsOrDsToDate: _of_time(DATE, "safe"),
    exp.LastDay: _of_time(DATE, "safe"),
    exp.AddMonths: _months_type,
    exp.Cast: _cast_type,
    exp.TryCast: _cast_type,
    exp.RegexpSplit: _split_type,
    exp.Array: _array_type,
    exp.Dot: lambda node: field_of(node).type,
    exp.Explode: _explode_type,
    exp.Count: count_type,
    exp.Sum: total_type,
    exp.Avg: mean_type,
    exp.Min: extreme_type,
    exp.Max: extreme_type,
    exp.Distinct: distinct_type,
    exp.Filter: _of_this,
    exp.RowNumber: _is(INT),
    exp.Rank: _is(INT),
    exp.DenseRank: _is(INT),
    exp.PercentRank: _is(DOUBLE),
    exp.CumeDist: _is(DOUBLE),
    exp.Lag: offset_type,
    exp.Lead: offset_type,
    exp.Window: window_type,
}
