"""The type of each part of a query in Spark, and the DuckDB expression with the same result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen
from sqlglot import exp

from ....domain.errors import ConfigError
from ....domain.table.schema import INTEGERS, NUMBERS, DataType
from ....domain.table.sums import mark
from .arrays import array_sql, array_type, cast_sql, explode_sql, explode_type, split_sql, split_type
from .casts import as_type, call, cast_in_place, cast_to, try_cast
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
    is_array,
    limited,
    literal_type,
    named,
    type_of,
    widest,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_TIME_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
_DATE_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    **dict.fromkeys(("MONTH", "MON", "MM"), "month"),
    "QUARTER": "quarter",
    "WEEK": "week",
}
_DAY_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"})


@frozen
class Rule:
    """One kind of node.

    Args:
        type: returns the node's type in Spark, from the types of its parts.
        sql: returns the node for DuckDB, from parts that are converted already; None if it needs no change.
    """

    type: Callable[[exp.Expr], DataType]
    sql: Callable[[exp.Expr], exp.Expr] | None = None


def _is(found: DataType) -> Callable[[exp.Expr], DataType]:
    return lambda _: found


def _of_this(node: exp.Expr) -> DataType:
    return type_of(node.this)


def _only(node: exp.Expr, *names: str) -> None:
    """Refuse arguments with other names than these."""
    if more := [name for name, value in node.args.items() if value and name not in names]:
        raise ConfigError(f"{node.sql('spark')} uses {more[0]}, which the memory backend does not; leave it out")


def _check(node: exp.Expr, allowed: frozenset[str], what: str) -> exp.Expr:
    found = type_of(node)
    if found != VOID and found.name not in allowed:
        raise ConfigError(f"{node.sql('spark')} is {found.ddl} where {what} is wanted; cast it")
    return node


# ---- operators


def _logical(node: exp.Expr) -> DataType:
    for each in node.iter_expressions():
        _check(each, frozenset({"boolean"}), "a condition")
    return BOOLEAN


def _meeting(nodes: list[exp.Expr]) -> DataType:
    """The common type in which values are compared: text that is compared with a time is parsed as a time."""
    found = [type_of(each) for each in nodes if type_of(each) != VOID]
    times = [each for each in found if each.name in _TIMES]
    return widest(times if times and {*found} - {*times} == {STRING} else found)


def _values(node: exp.Expr, names: tuple[str, ...]) -> list[exp.Expr]:
    """The arguments with these names; lists are flattened."""
    given = (node.args.get(name) for name in names)
    return [each for one in given for each in (one if isinstance(one, list) else [one]) if isinstance(each, exp.Expr)]


def _cast_all(nodes: list[exp.Expr], wanted: DataType) -> None:
    for each in nodes:
        cast_in_place(each, wanted)


def _compared(*names: str) -> Rule:
    """A comparison of these arguments."""

    def typed(node: exp.Expr) -> DataType:
        _only(node, *names)
        _meeting(_values(node, names))
        return BOOLEAN

    def sql(node: exp.Expr) -> exp.Expr:
        values = _values(node, names)
        _cast_all(values, _meeting(values))
        return node

    return Rule(typed, sql)


def _nulled_sql(node: exp.Expr) -> exp.Expr:
    values = _values(node, ("this", "expression"))
    _cast_all(values, _meeting(values))
    return as_type(node.copy(), type_of(node))


def _chosen(*names: str) -> Rule:
    """A function that returns one of these arguments."""

    def typed(node: exp.Expr) -> DataType:
        return widest(map(type_of, _values(node, names)))

    def sql(node: exp.Expr) -> exp.Expr:
        _cast_all(_values(node, names), type_of(node))
        return node

    return Rule(typed, sql)


def _joining(node: exp.Expr) -> DataType:
    if (on := node.args.get("on")) is not None:
        _check(on, frozenset({"boolean"}), "a condition")
    return BOOLEAN


def _branches(node: exp.Expr) -> list[exp.Expr]:
    """The values that a CASE or an IF may return."""
    ifs = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    return [*(each.args["true"] for each in ifs), *_values(node, ("default", "false"))]


def _branched_type(node: exp.Expr) -> DataType:
    ifs = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    if isinstance(node, exp.Case) and node.this is not None:
        _meeting([node.this, *(each.this for each in ifs)])
    else:
        for each in ifs:
            _check(each.this, frozenset({"boolean"}), "a condition")
    return widest(map(type_of, _branches(node)))


def _branched_sql(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.If) and isinstance(node.parent, exp.Case):
        return node
    ifs = node.args["ifs"] if isinstance(node, exp.Case) else [node]
    if isinstance(node, exp.Case) and node.this is not None:
        keys = [node.this, *(each.this for each in ifs)]
        _cast_all(keys, _meeting(keys))
    _cast_all(_branches(node), type_of(node))
    return node


def _if_type(node: exp.Expr) -> DataType:
    return type_of(node.args["true"]) if isinstance(node.parent, exp.Case) else _branched_type(node)


def _sum_type(node: exp.Expr) -> DataType:
    """The type of an addition or a subtraction: of numbers, or of a time and an interval."""
    left, right = type_of(node.args["this"]), type_of(node.args["expression"])
    if right == INTERVAL and left.name in _TIMES:
        by_day = left == DATE and _unit(node.args["expression"]).removesuffix("S") in _DAY_UNITS
        return left if by_day or left != DATE else TIMESTAMP
    return arithmetic_type(node)


def _arithmetic_sql(node: exp.Expr) -> exp.Expr:
    wanted = type_of(node)
    if type_of(node.args["expression"]) == INTERVAL:
        return as_type(node.copy(), wanted)
    for each in (node.args["this"], node.args["expression"]):
        if wanted.name != "decimal" or type_of(each).name not in NUMBERS:
            cast_in_place(each, wanted)
    return as_type(node.copy(), wanted) if wanted.name == "decimal" else node


def _interval_type(node: exp.Expr) -> DataType:
    if not isinstance(node.this, exp.Literal) or _unit(node).removesuffix("S") not in _TIME_UNITS:
        raise ConfigError(f"{node.sql('spark')} is not an interval that memory knows; write INTERVAL 1 DAY")
    return INTERVAL


def _quotient_type(node: exp.Expr) -> DataType:
    found = {type_of(node.args["this"]), type_of(node.args["expression"])}
    widest(found)
    names = {each.name for each in found}
    if not names <= NUMBERS | {"void"} or ("decimal" in names and not names & {"float", "double"}):
        raise ConfigError(f"{node.sql('spark')} divides decimals, or no numbers; cast one side to double")
    return DOUBLE


def _quotient_sql(node: exp.Expr) -> exp.Expr:
    return call("hw_quotient", cast_to(node.args["this"], DOUBLE), cast_to(node.args["expression"], DOUBLE))


def _whole_type(node: exp.Expr) -> DataType:
    for each in (node.args["this"], node.args["expression"]):
        _check(each, INTEGERS, "a whole number")
    return (
        BIGINT
        if isinstance(node, exp.IntDiv)
        else widest((type_of(node.args["this"]), type_of(node.args["expression"])))
    )


def _whole_sql(node: exp.Expr) -> exp.Expr:
    name = "hw_div" if isinstance(node, exp.IntDiv) else "hw_mod"
    wanted = type_of(node)
    return call(name, cast_to(node.args["this"], wanted), cast_to(node.args["expression"], wanted))


def _number_type(node: exp.Expr) -> DataType:
    return type_of(_check(node.this, NUMBERS, "a number"))


# ---- text


def _texts(*names: str, answer: DataType = STRING, make: Callable[[exp.Expr], exp.Expr] | None = None) -> Rule:
    """A function with text arguments of these names, and no others."""

    def typed(node: exp.Expr) -> DataType:
        _only(node, *names)
        for each in _values(node, names):
            _check(each, frozenset({"string"}), "text")
        return answer

    return Rule(typed, make)


def _joined_type(node: exp.Expr) -> DataType:
    for each in _joined(node):
        cast_to(each.copy(), STRING)
    return STRING


def _joined(node: exp.Expr) -> list[exp.Expr]:
    return [node.args["this"], node.args["expression"]] if isinstance(node, exp.DPipe) else list(node.expressions)


def _joined_sql(node: exp.Expr) -> exp.Expr:
    made, *more = (cast_to(each, STRING) for each in _joined(node))
    for each in more:
        made = exp.DPipe(this=made, expression=each, safe=True)
    return exp.Paren(this=made)


def _called(function: str, *names: str, then: DataType | None = None) -> Callable[[exp.Expr], exp.Expr]:
    """A call of a DuckDB function with these arguments."""

    def sql(node: exp.Expr) -> exp.Expr:
        made: exp.Expr = call(function, *_values(node, names))
        return made if then is None else as_type(made, then)

    return sql


def _substring_type(node: exp.Expr) -> DataType:
    _only(node, "this", "start", "length")
    _check(node.this, frozenset({"string"}), "text")
    for each in _values(node, ("start", "length")):
        _check(each, INTEGERS, "a whole number")
    return STRING


def _substring_sql(node: exp.Expr) -> exp.Expr:
    name = "hw_substring" if node.args.get("length") else "hw_tail"
    return call(name, *_values(node, ("this", "start", "length")))


_TRIMS = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _trimmed_type(node: exp.Expr) -> DataType:
    _only(node, "this", "expression", "position")
    for each in _values(node, ("this", "expression")):
        _check(each, frozenset({"string"}), "text")
    return STRING


def _trimmed_sql(node: exp.Expr) -> exp.Expr:
    # Without this argument, DuckDB also trims other kinds of spaces.
    letters = node.args.get("expression") or exp.Literal.string(" ")
    return call(_TRIMS[str(node.args.get("position") or "").upper()], node.this, letters)


def _like_sql(node: exp.Expr) -> exp.Expr:
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


# ---- numbers


def _rounded_type(node: exp.Expr) -> DataType:
    found, places = _number_type(node), _places(node)
    if found.name == "decimal":
        precision, scale = digits(found)
        return limited(precision - scale + min(scale, places) + 1, min(scale, places))
    return DOUBLE if found.name == "float" else found


def _places(node: exp.Expr) -> int:
    _only(node, "this", "decimals")
    given = node.args.get("decimals")
    if given is not None and not (isinstance(given, exp.Literal) and given.is_int and int(given.name) <= _MOST_PLACES):
        raise ConfigError(f"{node.sql('spark')}: write the places as a number from 0 to {_MOST_PLACES}")
    return int(given.name) if given is not None else 0


_MOST_PLACES = 20


def _rounded_sql(node: exp.Expr) -> exp.Expr:
    wanted, places = type_of(node), exp.Literal.number(_places(node))
    if wanted.name in INTEGERS:
        whole: exp.Expr = node.this
        return whole
    return call("hw_round", cast_to(node.this, DOUBLE), places) if wanted == DOUBLE else as_type(node.this, wanted)


def _ceiling_type(node: exp.Expr) -> DataType:
    _only(node, "this")
    found = _number_type(node)
    if found.name != "decimal":
        return BIGINT
    precision, scale = digits(found)
    return DataType("decimal", max(precision - scale + 1, 1), 0)


def _ceiling_sql(function: str) -> Callable[[exp.Expr], exp.Expr]:
    return lambda node: as_type(call(function, node.this), type_of(node))


def _root_type(node: exp.Expr) -> DataType:
    for each in node.iter_expressions():
        _check(each, NUMBERS, "a number")
    return DOUBLE


def _power_sql(node: exp.Expr) -> exp.Expr:
    return call("pow", cast_to(node.this, DOUBLE), cast_to(node.expression, DOUBLE))


# ---- times


def _as_time(node: exp.Expr, wanted: DataType) -> exp.Expr:
    """A time, or text that is parsed as a time."""
    return cast_to(_check(node, _TIMES | {"string"}, "a date or a timestamp"), wanted)


def _date_part(function: str, more: str = "") -> Rule:
    def typed(node: exp.Expr) -> DataType:
        _only(node, "this")
        _check(node.this, _TIMES | {"string"}, "a date or a timestamp")
        return INT

    def sql(node: exp.Expr) -> exp.Expr:
        place = node.this if type_of(node.this).name in _TIMES else _as_time(node.this, TIMESTAMP)
        return as_type(call(f"hw_{function}" if more else function, place), INT)

    return Rule(typed, sql)


def _seconds_type(node: exp.Expr) -> DataType:
    _check(node.expression, _TIMES | {"string"}, "a date or a timestamp")
    return DataType("decimal", 8, 6)


def _seconds_sql(node: exp.Expr) -> exp.Expr:
    return call("hw_seconds", _as_time(node.expression, TIMESTAMP))


def _truncated_type(node: exp.Expr) -> DataType:
    _only(node, "this", "unit")
    to_date = isinstance(node, exp.DateTrunc)
    _check(node.this, _TIMES | {"string"}, "a date or a timestamp")
    if _unit(node) not in (_DATE_UNITS if to_date else _TIME_UNITS):
        raise ConfigError(
            f"{node.sql('spark')}: unknown unit; known: {', '.join(_DATE_UNITS if to_date else sorted(_TIME_UNITS))}"
        )
    return DATE if to_date else TIMESTAMP


def _unit(node: exp.Expr) -> str:
    unit = node.args.get("unit")
    return str(unit.name).upper() if unit is not None else ""


def _truncated_sql(node: exp.Expr) -> exp.Expr:
    wanted = type_of(node)
    unit = _DATE_UNITS[_unit(node)] if wanted == DATE else _unit(node).lower()
    return as_type(call("date_trunc", exp.Literal.string(unit), _as_time(node.this, TIMESTAMP)), wanted)


def _days_type(node: exp.Expr) -> DataType:
    _only(node, "this", "expression", "unit")
    if _unit(node) not in {"", "DAY"}:
        raise ConfigError(f"{node.sql('spark')}: the memory backend counts days alone; use date_add(date, days)")
    _check(node.this, _TIMES | {"string"}, "a date")
    return DATE


def _days_sql(node: exp.Expr) -> exp.Expr:
    days = as_type(_check(node.expression, INTEGERS, "a whole number"), INT)
    return call("hw_days_later", _as_time(node.this, DATE), days)


def _apart_type(node: exp.Expr) -> DataType:
    _days_type(node)
    _check(node.expression, _TIMES | {"string"}, "a date")
    return INT


def _apart_sql(node: exp.Expr) -> exp.Expr:
    return call("hw_days_apart", _as_time(node.this, DATE), _as_time(node.expression, DATE))


def _date_type(node: exp.Expr) -> DataType:
    _only(node, "this", "safe")
    _check(node.this, _TIMES | {"string"}, "a date or a timestamp")
    return DATE


def _date_sql(node: exp.Expr) -> exp.Expr:
    return _as_time(node.this, DATE)


def _last_day_sql(node: exp.Expr) -> exp.Expr:
    return call("last_day", _as_time(node.this, DATE))


def _months_sql(node: exp.Expr) -> exp.Expr:
    return call("hw_months_later", _as_time(node.this, DATE), as_type(node.expression, INT))


def _months_type(node: exp.Expr) -> DataType:
    _only(node, "this", "expression")
    _check(node.this, _TIMES | {"string"}, "a date")
    _check(node.expression, INTEGERS, "a whole number")
    return DATE


def _cast_type(node: exp.Expr) -> DataType:
    _only(node, "this", "to", "safe")
    wanted = named(node.args["to"].sql("spark").lower())
    _cast(node.this.copy(), wanted)
    return wanted


def _cast_sql(node: exp.Expr) -> exp.Expr:
    return _cast(node.this, type_of(node))


def _cast(value: exp.Expr, wanted: DataType) -> exp.Expr:
    return cast_sql(value, wanted) if is_array(wanted) else cast_to(value, wanted)


# ---- aggregates and windows


def _within(node: exp.Expr) -> bool:
    """Whether a window or a filter belongs to the aggregate: the cast goes outside of it."""
    return isinstance(node.parent, (exp.Window, exp.Filter))


def _aggregated(node: exp.Expr) -> exp.Expr:
    return node if _within(node) else _fitting(node)


def _fitting(node: exp.Expr) -> exp.Expr:
    """An aggregate cast to its type; a sum that does not fit stops the query."""
    inner = node
    while isinstance(inner, (exp.Window, exp.Filter)):
        inner = inner.this
    wanted = type_of(node)
    if not isinstance(inner, exp.Sum) or wanted == DOUBLE:
        return as_type(node.copy(), wanted)
    message = exp.Literal.string(mark(inner.sql("spark"), wanted.ddl))
    return call("hw_fitting", node.copy(), try_cast(node.copy(), wanted), message)


def _count_type(node: exp.Expr) -> DataType:
    _only(node, "this", "big_int")
    if isinstance(node.this, exp.Distinct) and len(node.this.expressions) != 1:
        raise ConfigError(f"{node.sql('spark')} counts several columns; count one expression")
    return BIGINT


def _total_type(node: exp.Expr) -> DataType:
    _only(node, "this")
    found = _number_type(node)
    if found.name == "decimal":
        precision, scale = digits(found)
        return DataType("decimal", min(precision + _MORE_DIGITS, 38), scale)
    return BIGINT if found.name in INTEGERS else DOUBLE


_MORE_DIGITS = 10


def _total_sql(node: exp.Expr) -> exp.Expr:
    if type_of(node) == DOUBLE and not isinstance(node.this, exp.Distinct):
        cast_in_place(node.this, DOUBLE)
    return _aggregated(node)


def _mean_type(node: exp.Expr) -> DataType:
    _only(node, "this")
    found = _number_type(node)
    if found.name == "decimal":
        raise ConfigError(f"{node.sql('spark')} divides decimals; cast to double, or keep sum and count apart")
    return DOUBLE


def _mean_sql(node: exp.Expr) -> exp.Expr:
    if not isinstance(node.this, exp.Distinct):
        cast_in_place(node.this, DOUBLE)
    return node


def _extreme_type(node: exp.Expr) -> DataType:
    _only(node, "this")
    return type_of(node.this)


def _window_type(node: exp.Expr) -> DataType:
    _only(node, "this", "partition_by", "order", "spec", "alias", "over")
    if isinstance(node.this, _RANKS) and not node.args.get("order"):
        raise ConfigError(f"{node.sql('spark')} needs an ORDER BY")
    return type_of(node.this)


def _windowed(node: exp.Expr) -> exp.Expr:
    return _fitting(node)


def _offset_type(node: exp.Expr) -> DataType:
    _only(node, "this", "offset", "default")
    return widest([type_of(node.this), *map(type_of, _values(node, ("default",)))])


def _offset_sql(node: exp.Expr) -> exp.Expr:
    _cast_all(_values(node, ("this", "default")), type_of(node))
    return node


def _distinct_type(node: exp.Expr) -> DataType:
    _only(node, "expressions")
    return type_of(node.expressions[0]) if node.expressions else VOID


_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.PercentRank, exp.CumeDist)


def _subquery_type(node: exp.Expr) -> DataType:
    return type_of(node.this.selects[0]) if isinstance(node.this, exp.Query) else type_of(node.this)


def _membership_type(node: exp.Expr) -> DataType:
    _only(node, "this", "expressions", "query")
    query = node.args.get("query")
    if query is None:
        _meeting([node.this, *node.expressions])
    elif type_of(node.this) != type_of(query.unnest().selects[0]):
        raise ConfigError(f"{node.sql('spark')} looks for another type than the query gives; cast one of them")
    return BOOLEAN


def _membership_sql(node: exp.Expr) -> exp.Expr:
    if node.args.get("query") is None:
        values = [node.this, *node.expressions]
        _cast_all(values, _meeting(values))
    return node


_LOGIC = Rule(_logical)
_COMPARISON = _compared("this", "expression")
_CASTS = Rule(_cast_type, _cast_sql)
_CHOICE = _chosen("this", "expressions")

RULES: dict[type[exp.Expr], Rule] = {
    exp.Literal: Rule(literal_type),
    exp.Boolean: Rule(_is(BOOLEAN)),
    exp.Null: Rule(_is(VOID)),
    exp.Interval: Rule(_interval_type),
    exp.Paren: Rule(_of_this),
    exp.Alias: Rule(_of_this),
    exp.Subquery: Rule(_subquery_type),
    # conditions
    exp.And: _LOGIC,
    exp.Or: _LOGIC,
    exp.Not: _LOGIC,
    exp.EQ: _COMPARISON,
    exp.NEQ: _COMPARISON,
    exp.GT: _COMPARISON,
    exp.GTE: _COMPARISON,
    exp.LT: _COMPARISON,
    exp.LTE: _COMPARISON,
    exp.NullSafeEQ: _COMPARISON,
    exp.NullSafeNEQ: _COMPARISON,
    exp.Where: _LOGIC,
    exp.Having: _LOGIC,
    exp.Join: Rule(_joining),
    exp.Between: _compared("this", "low", "high"),
    exp.Is: Rule(_is(BOOLEAN)),
    exp.In: Rule(_membership_type, _membership_sql),
    exp.Exists: Rule(_is(BOOLEAN)),
    exp.Case: Rule(_branched_type, _branched_sql),
    exp.If: Rule(_if_type, _branched_sql),
    exp.Coalesce: _CHOICE,
    exp.Greatest: _CHOICE,
    exp.Least: _CHOICE,
    exp.Nullif: Rule(_of_this, _nulled_sql),
    # numbers
    exp.Add: Rule(_sum_type, _arithmetic_sql),
    exp.Sub: Rule(_sum_type, _arithmetic_sql),
    exp.Mul: Rule(arithmetic_type, _arithmetic_sql),
    exp.Div: Rule(_quotient_type, _quotient_sql),
    exp.IntDiv: Rule(_whole_type, _whole_sql),
    exp.Mod: Rule(_whole_type, _whole_sql),
    exp.Neg: Rule(_number_type),
    exp.Abs: Rule(_number_type),
    exp.Ceil: Rule(_ceiling_type, _ceiling_sql("ceil")),
    exp.Floor: Rule(_ceiling_type, _ceiling_sql("floor")),
    exp.Round: Rule(_rounded_type, _rounded_sql),
    exp.Sqrt: Rule(_root_type, lambda node: call("sqrt", cast_to(node.this, DOUBLE))),
    exp.Pow: Rule(_root_type, _power_sql),
    # text
    exp.Like: _texts("this", "expression", answer=BOOLEAN, make=_like_sql),
    exp.RegexpLike: _texts("this", "expression", answer=BOOLEAN, make=_called("regexp_matches", "this", "expression")),
    exp.Concat: Rule(_joined_type, _joined_sql),
    exp.DPipe: Rule(_joined_type, _joined_sql),
    exp.Lower: _texts("this", make=_called("hw_lower", "this")),
    exp.Upper: _texts("this", make=_called("hw_upper", "this")),
    exp.Trim: Rule(_trimmed_type, _trimmed_sql),
    exp.Length: _texts("this", answer=INT, make=_called("length", "this", then=INT)),
    exp.Substring: Rule(_substring_type, _substring_sql),
    exp.Replace: _texts(
        "this", "expression", "replacement", make=_called("replace", "this", "expression", "replacement")
    ),
    exp.StartsWith: _texts("this", "expression", answer=BOOLEAN, make=_called("starts_with", "this", "expression")),
    exp.EndsWith: _texts("this", "expression", answer=BOOLEAN, make=_called("ends_with", "this", "expression")),
    exp.Contains: _texts("this", "expression", answer=BOOLEAN, make=_called("contains", "this", "expression")),
    exp.StrPosition: _texts("this", "substr", answer=INT, make=_called("strpos", "this", "substr", then=INT)),
    # times
    exp.Year: _date_part("year"),
    exp.Quarter: _date_part("quarter"),
    exp.Month: _date_part("month"),
    exp.Day: _date_part("day"),
    exp.DayOfMonth: _date_part("day"),
    exp.DayOfYear: _date_part("dayofyear"),
    exp.DayOfWeek: _date_part("dayofweek", more="from one"),
    exp.WeekOfYear: _date_part("weekofyear"),
    exp.Hour: _date_part("hour"),
    exp.Minute: _date_part("minute"),
    exp.Second: _date_part("second"),
    exp.Extract: Rule(_seconds_type, _seconds_sql),
    exp.TimestampTrunc: Rule(_truncated_type, _truncated_sql),
    exp.DateTrunc: Rule(_truncated_type, _truncated_sql),
    exp.TsOrDsAdd: Rule(_days_type, _days_sql),
    exp.DateDiff: Rule(_apart_type, _apart_sql),
    exp.TsOrDsToDate: Rule(_date_type, _date_sql),
    exp.LastDay: Rule(_date_type, _last_day_sql),
    exp.AddMonths: Rule(_months_type, _months_sql),
    exp.Cast: _CASTS,
    exp.TryCast: _CASTS,
    # arrays
    exp.RegexpSplit: Rule(split_type, split_sql),
    exp.Array: Rule(array_type, array_sql),
    exp.Explode: Rule(explode_type, explode_sql),
    # aggregates and windows
    exp.Count: Rule(_count_type, _aggregated),
    exp.Sum: Rule(_total_type, _total_sql),
    exp.Avg: Rule(_mean_type, _mean_sql),
    exp.Min: Rule(_extreme_type),
    exp.Max: Rule(_extreme_type),
    exp.Distinct: Rule(_distinct_type),
    exp.Filter: Rule(_of_this, _aggregated),
    exp.RowNumber: Rule(_is(INT)),
    exp.Rank: Rule(_is(INT)),
    exp.DenseRank: Rule(_is(INT)),
    exp.PercentRank: Rule(_is(DOUBLE)),
    exp.CumeDist: Rule(_is(DOUBLE)),
    exp.Lag: Rule(_offset_type, _offset_sql),
    exp.Lead: Rule(_offset_type, _offset_sql),
    exp.Window: Rule(_window_type, _windowed),
}
