"""The parts of a node of a query, as its type and every engine's rendering need them."""

from __future__ import annotations

from sqlglot import exp

from ..errors import ConfigError
from ..table.schema import NUMBERS, TIMES, Column, DataType
from .types import STRING, VOID, type_of, widest

TRUTH = frozenset({"boolean"})
_MOST_PLACES = 20


def values_of(node: exp.Expr, names: tuple[str, ...]) -> list[exp.Expr]:
    """The arguments with these names; lists are flattened."""
    given = (node.args.get(name) for name in names)
    return [each for one in given for each in (one if isinstance(one, list) else [one]) if isinstance(each, exp.Expr)]


def meeting(nodes: list[exp.Expr]) -> DataType:
    """The common type in which values are compared: text that is compared with a time is parsed as a time."""
    found = [type_of(each) for each in nodes if type_of(each) != VOID]
    times = [each for each in found if each.name in TIMES]
    return widest(times if times and {*found} - {*times} == {STRING} else found)


def listed_type(nodes: list[exp.Expr]) -> DataType:
    """The common type in which IN compares its values with its operand: a time beside text is compared as its text."""
    found = {type_of(each) for each in nodes} - {VOID}
    if STRING in found and {each.name for each in found - {STRING}} <= TIMES:
        return STRING
    return widest(map(type_of, nodes))


def cases_of(node: exp.Expr) -> list[exp.Expr]:
    """The branches of a CASE, each with its condition and value; an IF is its own only branch."""
    return list(node.args["ifs"]) if isinstance(node, exp.Case) else [node]


def keys_of(node: exp.Expr) -> list[exp.Expr]:
    """The value that a CASE compares, and the values of its WHENs; empty if each WHEN is a condition."""
    if not isinstance(node, exp.Case) or node.this is None:
        return []
    return [node.this, *(each.this for each in cases_of(node))]


def branches_of(node: exp.Expr) -> list[exp.Expr]:
    """The values that a CASE or an IF may return."""
    return [*(each.args["true"] for each in cases_of(node)), *values_of(node, ("default", "false"))]


def texts_of(node: exp.Expr) -> list[exp.Expr]:
    """What ``a || b`` or ``concat(a, b)`` joins."""
    return [node.args["this"], node.args["expression"]] if isinstance(node, exp.DPipe) else list(node.expressions)


def unit_of(node: exp.Expr) -> str:
    """The unit of time that a node names, in upper case; empty if none."""
    unit = node.args.get("unit")
    return str(unit.name).upper() if unit is not None else ""


def places_of(node: exp.Expr) -> int:
    """To how many places a number is rounded.

    Raises:
        ConfigError: the number of places is not written out.
    """
    given = node.args.get("decimals")
    if given is not None and not (isinstance(given, exp.Literal) and given.is_int and int(given.name) <= _MOST_PLACES):
        raise ConfigError(f"{node.sql('spark')}: write the places as a number from 0 to {_MOST_PLACES}")
    return int(given.name) if given is not None else 0


def only(node: exp.Expr, *names: str) -> None:
    """Refuse arguments with other names than these."""
    if more := [name for name, value in node.args.items() if value and name not in names]:
        raise ConfigError(f"{node.sql('spark')} uses {more[0]}, which is not known without Spark; leave it out")


def check(node: exp.Expr, allowed: frozenset[str], what: str) -> exp.Expr:
    """A node of one of these types; others are refused."""
    found = type_of(node)
    if found != VOID and found.name not in allowed:
        raise ConfigError(f"{node.sql('spark')} is {found.ddl} where {what} is wanted; cast it")
    return node


def number_type(node: exp.Expr) -> DataType:
    """The type of a node's only argument, which must be a number."""
    return type_of(check(node.this, NUMBERS, "a number"))


def field_of(node: exp.Expr) -> Column:
    """The field that ``struct.field`` takes; the case of its name does not matter.

    Raises:
        ConfigError: the struct has no such field, or it is no struct.
    """
    found, name = type_of(node.this), node.expression.name
    for each in found.fields:
        if each.name.lower() == name.lower():
            return each
    raise ConfigError(f"{node.sql('spark')}: {node.this.sql('spark')} is {found.ddl}, which has no field {name!r}")
