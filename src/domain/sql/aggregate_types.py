"""The types that Spark gives to aggregates and to functions over a window."""

from __future__ import annotations

from math import inf

from sqlglot import exp

from ..errors import ConfigError
from ..table.schema import INTEGERS, DataType
from .parts import number_type, only, unit_of, values_of
from .types import BIGINT, DOUBLE, VOID, digits, type_of, widest

_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.PercentRank, exp.CumeDist)
_SUM_DIGITS = 10
"""A sum of decimals has this many digits more than its values."""


def count_type(node: exp.Expr) -> DataType:
    """The type of a count: of rows, or of one expression."""
    only(node, "this", "big_int")
    if node.this is None:
        raise ConfigError(f"{node.sql('spark')} counts nothing; write count(*)")
    if isinstance(node.this, exp.Distinct) and len(node.this.expressions) != 1:
        raise ConfigError(f"{node.sql('spark')} counts several columns; count one expression")
    return BIGINT


def total_type(node: exp.Expr) -> DataType:
    """The type of a sum; a decimal gets ten digits more."""
    only(node, "this")
    found = number_type(node)
    if found.name == "decimal":
        precision, scale = digits(found)
        return DataType("decimal", min(precision + _SUM_DIGITS, 38), scale)
    return BIGINT if found.name in INTEGERS else DOUBLE


def mean_type(node: exp.Expr) -> DataType:
    """The type of a mean; decimals are refused."""
    only(node, "this")
    found = number_type(node)
    if found.name == "decimal":
        raise ConfigError(f"{node.sql('spark')} divides decimals; cast to double, or keep sum and count apart")
    return DOUBLE


def extreme_type(node: exp.Expr) -> DataType:
    """The type of the least or the greatest value."""
    only(node, "this")
    return type_of(node.this)


def window_type(node: exp.Expr) -> DataType:
    """The type of a function over a window."""
    only(node, "this", "partition_by", "order", "spec", "alias", "over")
    shown, order, spec = node.sql("spark"), node.args.get("order"), node.args.get("spec")
    if isinstance(node.this, _RANKS) and not order:
        raise ConfigError(f"{shown} needs an ORDER BY")
    if isinstance(node.this, exp.Filter) or isinstance(node.this.this, exp.Distinct):
        raise ConfigError(f"{shown}: Spark knows no DISTINCT or FILTER in a window; write sum(CASE WHEN … THEN … END)")
    ordered = node.find_ancestor(exp.Order, exp.Query)
    if isinstance(ordered, exp.Order) and isinstance(ordered.parent, exp.Query):
        raise ConfigError(f"{shown} is in ORDER BY: select it as a column, and order by its name")
    if spec and (isinstance(node.this, _RANKS) or not _is_frame(spec, order)):
        raise ConfigError(f"{shown}: Spark does not take this frame; write ROWS BETWEEN 1 PRECEDING AND CURRENT ROW")
    return type_of(node.this)


def _is_frame(spec: exp.Expr, order: exp.Expr | None) -> bool:
    """Whether Spark knows a frame: so many rows, or values of a number, or times of a timestamp."""
    bounds = [each for each in (spec.args.get("start"), spec.args.get("end")) if isinstance(each, exp.Expr)]
    kind = str(spec.args.get("kind")).upper()
    if spec.args.get("exclude") or kind not in {"ROWS", "RANGE"}:
        return False
    if kind == "ROWS" or not bounds:
        return all(each.is_int for each in bounds) and _offset(spec, "start") <= _offset(spec, "end")
    if order is None or len(order.expressions) != 1:
        return False
    key = type_of(order.expressions[0].this)
    times = key.name.startswith("timestamp")
    if times and len({unit_of(each).removesuffix("S").replace("WEEK", "DAY") for each in bounds}) > 1:
        return False
    return all(isinstance(each, exp.Interval) if times else each.is_int for each in bounds)


def _offset(spec: exp.Expr, side: str) -> float:
    """How many rows a bound of a frame is behind the current one; below 0 if before it."""
    bound, sign = spec.args.get(side), -1 if str(spec.args.get(f"{side}_side")).upper() == "PRECEDING" else 1
    if isinstance(bound, exp.Expr):
        return sign * int(bound.to_py())
    return sign * inf if str(bound).upper() == "UNBOUNDED" else 0


def offset_type(node: exp.Expr) -> DataType:
    """The type of the value in an earlier or later row; the value where there is no such row is cast to it."""
    only(node, "this", "offset", "default")
    if (offset := node.args.get("offset")) is not None and not offset.is_int:
        raise ConfigError(f"{node.sql('spark')}: write the offset as a whole number")
    found = type_of(node.this)
    widest([found, *map(type_of, values_of(node, ("default",)))])  # refuses a default of another kind
    return found


def distinct_type(node: exp.Expr) -> DataType:
    """The type of the values that are counted once."""
    only(node, "expressions")
    return type_of(node.expressions[0]) if node.expressions else VOID
