"""The types that Spark gives to aggregates and to functions over a window."""

from __future__ import annotations

from sqlglot import exp

from ..errors import ConfigError
from ..table.schema import INTEGERS, DataType
from .parts import number_type, only, values_of
from .types import BIGINT, DOUBLE, VOID, digits, type_of, widest

_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead, exp.PercentRank, exp.CumeDist)
_SUM_DIGITS = 10
"""A sum of decimals has this many digits more than its values."""


def count_type(node: exp.Expr) -> DataType:
    """The type of a count: of rows, or of one expression."""
    only(node, "this", "big_int")
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
    if isinstance(node.this, _RANKS) and not node.args.get("order"):
        raise ConfigError(f"{node.sql('spark')} needs an ORDER BY")
    return type_of(node.this)


def offset_type(node: exp.Expr) -> DataType:
    """The type of the value in an earlier or later row."""
    only(node, "this", "offset", "default")
    return widest([type_of(node.this), *map(type_of, values_of(node, ("default",)))])


def distinct_type(node: exp.Expr) -> DataType:
    """The type of the values that are counted once."""
    only(node, "expressions")
    return type_of(node.expressions[0]) if node.expressions else VOID
