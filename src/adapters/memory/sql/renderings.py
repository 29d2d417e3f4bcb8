"""Each kind of node of a query as the DuckDB expression with the same result as in Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sqlglot import exp

from ....domain.errors import ConfigError
from ....domain.sql.node_types import COMPARISONS, DATE_UNITS
from ....domain.sql.parts import (
    branches_of,
    cases_of,
    keys_of,
    listed_type,
    meeting,
    places_of,
    texts_of,
    unit_of,
    values_of,
)
from ....domain.sql.types import DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, digits, type_of
from ....domain.table.schema import INTEGERS, NUMBERS, TIMES, DataType
from ....domain.table.sums import mark
from .arrays import array_sql, cast_sql, explode_sql, field_sql, split_sql
from .casts import as_type, call, cast_in_place, cast_to, try_cast
from .patterns import pattern_of

Render: TypeAlias = Callable[[exp.Expr], exp.Expr]

_WIDE = 19
"""A decimal of that many digits does not fit into 64 bits."""
_TRIMS = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _cast_all(nodes: list[exp.Expr], wanted: DataType) -> None:
    for each in nodes:
        cast_in_place(each, wanted)


def _nulled_sql(node: exp.Expr) -> exp.Expr:
    values = values_of(node, ("this", "expression"))
    _cast_all(values, meeting(values))
    return as_type(node.copy(), type_of(node))


def _compare_keys(node: exp.Expr, keys: list[exp.Expr]) -> None:
    """Compare the value of a CASE with the value of each WHEN, in the common type of these two."""
    value, *others = keys
    kinds = [meeting([value, each]) for each in others]
    if len({*kinds}) == 1:
        _cast_all(keys, kinds[0])
        return
    for each, other, kind in zip(cases_of(node), others, kinds, strict=True):
        each.set("this", _compare(exp.EQ, value, other, kind))
    node.set("this", None)


def _compare(comparison: type[exp.Binary], left: exp.Expr, right: exp.Expr, kind: DataType) -> exp.Expr:
    """A comparison of copies of two values, cast to a type."""
    return comparison(this=cast_to(left.copy(), kind), expression=cast_to(right.copy(), kind))


def _branched_sql(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.If) and isinstance(node.parent, exp.Case):
        return node
    if keys := keys_of(node):
        _compare_keys(node, keys)
    _cast_all(branches_of(node), type_of(node))
    return node


def _arithmetic_sql(node: exp.Expr) -> exp.Expr:
    wanted = type_of(node)
    if type_of(node.args["expression"]) == INTERVAL:
        return as_type(node.copy(), wanted)
    for each in (node.args["this"], node.args["expression"]):
        if wanted.name != "decimal" or type_of(each).name not in NUMBERS:
            cast_in_place(each, wanted)
    if wanted.name != "decimal":
        return node
    precision, scale = digits(type_of(node.args["this"]))
    if (wanted.precision or 0) >= _WIDE > precision:  # of two narrow decimals, DuckDB makes a narrow one
        cast_in_place(node.args["this"], DataType("decimal", _WIDE, scale))
    return as_type(node.copy(), wanted)


def _negative_sql(node: exp.Expr) -> exp.Expr:
    # DuckDB takes the least number of a type for one of the next larger type.
    return as_type(node.copy(), type_of(node)) if isinstance(node.this, exp.Literal) else node


def _whole_sql(node: exp.Expr) -> exp.Expr:
    name = "hw_div" if isinstance(node, exp.IntDiv) else "hw_mod"
    wanted = type_of(node)
    return call(name, cast_to(node.args["this"], wanted), cast_to(node.args["expression"], wanted))


def _joined_sql(node: exp.Expr) -> exp.Expr:
    made, *more = (cast_to(each, STRING) for each in texts_of(node))
    for each in more:
        made = exp.DPipe(this=made, expression=each, safe=True)
    return exp.Paren(this=made)


def _called(function: str, *names: str, then: DataType | None = None) -> Render:
    """A call of a DuckDB function with these arguments."""

    def sql(node: exp.Expr) -> exp.Expr:
        made: exp.Expr = call(function, *values_of(node, names))
        return made if then is None else as_type(made, then)

    return sql


def _called_with(function: str, **arguments: DataType) -> Render:
    """A call of a DuckDB function with these arguments, cast to types."""
    return lambda node: call(function, *(cast_to(node.args[name], kind) for name, kind in arguments.items()))


def _substring_sql(node: exp.Expr) -> exp.Expr:
    name = "hw_substring" if node.args.get("length") else "hw_tail"
    return call(name, *values_of(node, ("this", "start", "length")))


def _trimmed_sql(node: exp.Expr) -> exp.Expr:
    # Without this argument, DuckDB also trims other kinds of spaces.
    letters = node.args.get("expression") or exp.Literal.string(" ")
    return call(_TRIMS[str(node.args.get("position") or "").upper()], node.this, letters)


def _like_sql(node: exp.Expr) -> exp.Expr:
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _matched_sql(node: exp.Expr) -> exp.Expr:
    pattern = node.expression.unnest()
    if isinstance(pattern, exp.Literal):  # others are known only when they are used
        pattern = exp.Literal.string(pattern_of(pattern.name))
    return call("regexp_matches", node.this, pattern)


def _rounded_sql(node: exp.Expr) -> exp.Expr:
    wanted, places = type_of(node), exp.Literal.number(places_of(node))
    if wanted.name in INTEGERS:
        whole: exp.Expr = node.this
        return whole
    if wanted.name == "decimal":
        return as_type(node.this, wanted)
    return call("hw_round" if wanted == DOUBLE else "hw_round_float", node.this, places)


def _ceiling_sql(function: str) -> Render:
    return lambda node: as_type(call(function, node.this), type_of(node))


def _truncated_sql(node: exp.Expr) -> exp.Expr:
    wanted = type_of(node)
    unit = DATE_UNITS[unit_of(node)] if wanted == DATE else unit_of(node).lower()
    return as_type(call("date_trunc", exp.Literal.string(unit), cast_to(node.this, TIMESTAMP)), wanted)


def _apart_sql(node: exp.Expr) -> exp.Expr:
    if unit_of(node):
        raise ConfigError(
            f'{node.sql("spark")} counts whole days of 24 hours; write datediff(end, start), or use engine = "spark"'
        )
    return call("hw_days_apart", cast_to(node.this, DATE), cast_to(node.expression, DATE))


def _cast_sql(node: exp.Expr) -> exp.Expr:
    wanted = type_of(node)
    if node.args.get("safe"):
        raise ConfigError(f'{node.sql("spark")} follows other rules than CAST; write CAST, or use engine = "spark"')
    return cast_sql(node.this, wanted) if wanted.element else cast_to(node.this, wanted)


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


def _total_sql(node: exp.Expr) -> exp.Expr:
    if type_of(node) == DOUBLE and not isinstance(node.this, exp.Distinct):
        cast_in_place(node.this, DOUBLE)
    return _aggregated(node)


def _mean_sql(node: exp.Expr) -> exp.Expr:
    if not isinstance(node.this, exp.Distinct):
        cast_in_place(node.this, DOUBLE)
    return node


def _of_own_type(*names: str) -> Render:
    """The node with these arguments cast to its type."""

    def sql(node: exp.Expr) -> exp.Expr:
        _cast_all(values_of(node, names), type_of(node))
        return node

    return sql


def _membership_sql(node: exp.Expr) -> exp.Expr:
    if node.args.get("query") is None:
        values = [node.this, *node.expressions]
        _cast_all(values, listed_type(values))
    return node


def _between_sql(node: exp.Expr) -> exp.Expr:
    value, low, high = values_of(node, ("this", "low", "high"))
    kinds = [meeting([value, each]) for each in (low, high)]
    if kinds[0] == kinds[1]:
        _cast_all([value, low, high], kinds[0])
        return node
    above, below = _compare(exp.GTE, value, low, kinds[0]), _compare(exp.LTE, value, high, kinds[1])
    return exp.Paren(this=exp.And(this=above, expression=below))


def _compared(*names: str) -> Render:
    def sql(node: exp.Expr) -> exp.Expr:
        values = values_of(node, names)
        _cast_all(values, meeting(values))
        return node

    return sql


def _date_part(function: str) -> Render:
    def sql(node: exp.Expr) -> exp.Expr:
        place = node.this if type_of(node.this).name in TIMES else cast_to(node.this, TIMESTAMP)
        return as_type(call(function, place), INT)

    return sql


RENDERINGS: dict[type[exp.Expr], Render] = {
    **dict.fromkeys(COMPARISONS, _compared("this", "expression")),
    exp.Between: _between_sql,
    exp.In: _membership_sql,
    exp.Case: _branched_sql,
    exp.If: _branched_sql,
    **dict.fromkeys((exp.Coalesce, exp.Greatest, exp.Least), _of_own_type("this", "expressions")),
    exp.Nullif: _nulled_sql,
    exp.Add: _arithmetic_sql,
    exp.Sub: _arithmetic_sql,
    exp.Mul: _arithmetic_sql,
    exp.Neg: _negative_sql,
    exp.Div: _called_with("hw_quotient", this=DOUBLE, expression=DOUBLE),
    exp.IntDiv: _whole_sql,
    exp.Mod: _whole_sql,
    exp.Ceil: _ceiling_sql("ceil"),
    exp.Floor: _ceiling_sql("floor"),
    exp.Round: _rounded_sql,
    exp.Sqrt: _called_with("sqrt", this=DOUBLE),
    exp.Pow: _called_with("pow", this=DOUBLE, expression=DOUBLE),
    exp.Like: _like_sql,
    exp.RegexpLike: _matched_sql,
    exp.Concat: _joined_sql,
    exp.DPipe: _joined_sql,
    exp.Lower: _called("hw_lower", "this"),
    exp.Upper: _called("hw_upper", "this"),
    exp.Trim: _trimmed_sql,
    exp.Length: _called("length", "this", then=INT),
    exp.Substring: _substring_sql,
    exp.Replace: _called("replace", "this", "expression", "replacement"),
    exp.StartsWith: _called("starts_with", "this", "expression"),
    exp.EndsWith: _called("ends_with", "this", "expression"),
    exp.Contains: _called("contains", "this", "expression"),
    exp.StrPosition: _called("strpos", "this", "substr", then=INT),
    exp.Year: _date_part("year"),
    exp.Quarter: _date_part("quarter"),
    exp.Month: _date_part("month"),
    exp.Day: _date_part("day"),
    exp.DayOfMonth: _date_part("day"),
    exp.DayOfYear: _date_part("dayofyear"),
    exp.DayOfWeek: _date_part("hw_dayofweek"),
    exp.WeekOfYear: _date_part("weekofyear"),
    exp.Hour: _date_part("hour"),
    exp.Minute: _date_part("minute"),
    exp.Second: _date_part("second"),
    exp.Extract: _called_with("hw_seconds", expression=TIMESTAMP),
    exp.TimestampTrunc: _truncated_sql,
    exp.DateTrunc: _truncated_sql,
    exp.TsOrDsAdd: _called_with("hw_days_later", this=DATE, expression=INT),
    exp.DateDiff: _apart_sql,
    exp.TsOrDsToDate: lambda node: cast_to(node.this, DATE),
    exp.LastDay: _called_with("last_day", this=DATE),
    exp.AddMonths: _called_with("hw_months_later", this=DATE, expression=INT),
    exp.Cast: _cast_sql,
    exp.TryCast: _cast_sql,
    exp.RegexpSplit: split_sql,
    exp.Array: array_sql,
    exp.Dot: field_sql,
    exp.Explode: explode_sql,
    exp.Count: _aggregated,
    exp.Sum: _total_sql,
    exp.Avg: _mean_sql,
    exp.Filter: _aggregated,
    **dict.fromkeys((exp.Lag, exp.Lead), _of_own_type("this", "default")),
    exp.Window: _fitting,
}
"""Of nodes that DuckDB writes in another way than Spark; parts are rendered before their node."""
