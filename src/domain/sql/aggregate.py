"""Aggregates over the rows of a group: the SQL of measures."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen
from sqlglot import exp

from ..errors import ConfigError
from .expression import Expression, expression_of
from .notation import check_grouping
from .parsing import parse, quote

Function: TypeAlias = Literal["count", "count_distinct", "approx_count_distinct", "sum", "avg", "min", "max"]

ALLOWED = "count(*), count(x), count(distinct x), sum(x), avg(x), min(x), max(x)"

_FUNCTIONS: dict[type[exp.Expr], Function] = {
    exp.ApproxDistinct: "approx_count_distinct",
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}


@frozen
class Aggregate:
    """An aggregate function over an expression.

    Args:
        function: the function.
        argument: its argument, an expression over one row; None for ``count(*)``.
    """

    function: Function
    argument: Expression | None


def parse_aggregate(text: str) -> Aggregate:
    """Parse one measure.

    Raises:
        ConfigError: it is not an allowed measure (the message lists them), or its argument needs more than one row.

    >>> parse_aggregate("count(distinct user_id)").function
    'count_distinct'
    """
    tree = parse(text)
    check_grouping(text)
    if isinstance(tree, exp.Filter):
        raise ConfigError(f"measure {quote(text)} has a FILTER; give its condition under the key where")
    if type(tree) not in _FUNCTIONS:
        raise _refusal(text)
    return _aggregate(tree, text)


def _aggregate(tree: exp.Expr, text: str) -> Aggregate:
    function, argument = _FUNCTIONS[type(tree)], tree.this
    if isinstance(argument, exp.Distinct) and function == "count" and len(argument.expressions) == 1:
        function, argument = "count_distinct", argument.expressions[0]
    if isinstance(argument, exp.Star) and function == "count" and not _has_more(tree, argument):
        return Aggregate("count", None)
    if not isinstance(argument, exp.Condition) or isinstance(argument, exp.Star) or _has_more(tree):
        raise _refusal(text)
    expression = expression_of(argument)
    expression.check_of_one_row()
    return Aggregate(function, expression)


def _has_more(*trees: exp.Expr) -> bool:
    """Whether there is more than one argument: further ones, ``EXCEPT`` of a star, or the accuracy of an estimate."""
    return any(each.args.get(part) for each in trees for part in ("expressions", "except_", "except", "accuracy"))


def _refusal(text: str) -> ConfigError:
    return ConfigError(f"{quote(text)} is not a measure; allowed are {ALLOWED}, where x is an expression of one row")
