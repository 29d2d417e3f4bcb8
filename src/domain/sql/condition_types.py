"""The types that Spark gives to conditions, and to values that are chosen by them."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ..errors import ConfigError
from ..table.schema import DataType
from .parts import TRUTH, branches_of, cases_of, check, keys_of, listed_type, meeting, only, values_of
from .types import BOOLEAN, VOID, type_of, widest


def logical_type(node: exp.Expr) -> DataType:
    """The type of AND, OR and NOT."""
    for each in node.iter_expressions():
        check(each, TRUTH, "a condition")
    return BOOLEAN


def _condition(node: exp.Expr) -> DataType:
    if type_of(check(node, TRUTH, "a condition")) == VOID:
        raise ConfigError(f"{node.sql('spark')} is always null, which Spark does not take for a condition; write FALSE")
    return BOOLEAN


def filtering_type(node: exp.Expr) -> DataType:
    """The type of a WHERE or a HAVING."""
    return _condition(node.this)


def joining_type(node: exp.Expr) -> DataType:
    """The type of a join, whose ON is a condition."""
    if (on := node.args.get("on")) is not None:
        _condition(on)
    return BOOLEAN


def is_type(node: exp.Expr) -> DataType:
    """The type of IS NULL, IS TRUE and IS FALSE."""
    if isinstance(node.expression, exp.Boolean):
        check(node.this, TRUTH, "a condition")
    return BOOLEAN


def branched_type(node: exp.Expr) -> DataType:
    """The type of a CASE or an IF: the common one of its values."""
    if keys := keys_of(node):
        for each in keys[1:]:
            meeting([keys[0], each])
    else:
        for each in cases_of(node):
            check(each.this, TRUTH, "a condition") if isinstance(node, exp.If) else _condition(each.this)
    return widest(map(type_of, branches_of(node)))


def if_type(node: exp.Expr) -> DataType:
    """The type of an IF, or of a WHEN of a CASE."""
    if not isinstance(node.parent, exp.Case) and node.args.get("false") is None:
        raise ConfigError(f"{node.sql('spark')} has no value for other rows; write it: if(condition, value, NULL)")
    return type_of(node.args["true"]) if isinstance(node.parent, exp.Case) else branched_type(node)


def membership_type(node: exp.Expr) -> DataType:
    """The type of IN."""
    only(node, "this", "expressions", "query")
    query = node.args.get("query")
    if query is None and not node.expressions:
        raise ConfigError(f"{node.sql('spark')} looks in no values; write FALSE")
    if query is None:
        listed_type([node.this, *node.expressions])
    elif type_of(node.this) != type_of(query.unnest().selects[0]):
        raise ConfigError(f"{node.sql('spark')} looks for another type than the query gives; cast one of them")
    return BOOLEAN


def compared(*names: str) -> Callable[[exp.Expr], DataType]:
    """A comparison of these arguments."""

    def typed(node: exp.Expr) -> DataType:
        only(node, *names)
        meeting(values_of(node, names))
        return BOOLEAN

    return typed


def between_type(node: exp.Expr) -> DataType:
    """The type of BETWEEN, which compares its value with each bound by itself."""
    only(node, "this", "low", "high")
    for bound in values_of(node, ("low", "high")):
        meeting([node.this, bound])
    return BOOLEAN


def chosen_type(node: exp.Expr) -> DataType:
    """The type of COALESCE, GREATEST and LEAST: the common one of their values."""
    values = values_of(node, ("this", "expressions"))
    if len(values) == 1 and not isinstance(node, exp.Coalesce):
        raise ConfigError(f"{node.sql('spark')} compares one value; write more, or only the value")
    return widest(map(type_of, values))
