"""The types that Spark gives to literals and operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, reduce
from math import isinf

from sqlglot import exp

from ..errors import ConfigError
from ..table.schema import FLOATS, INTEGERS, NUMBERS, DataType

BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP = map(
    DataType, ("bigint", "boolean", "date", "double", "int", "string", "timestamp")
)
VOID = DataType("void")
"""The type of a bare NULL."""
INTERVAL = DataType("interval")
OTHER = DataType("variant")
"""A type that tables do not have."""
_BESIDES = {"null": VOID, "interval": INTERVAL, "variant": OTHER}

_WIDTHS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_MOST = 38
_LEAST_SCALE = 6
_INT_DIGITS = 31
_BIGINT_DIGITS = 63


def type_of(node: exp.Expr) -> DataType:
    """The annotated type of a node.

    Raises:
        ConfigError: this engine does not support the type.
    """
    return named(node.type.sql("spark") if node.type else "unknown")


def set_type(node: exp.Expr, found: DataType) -> None:
    """Set the type of a node."""
    node.type = _node_type(found)


@cache
def named(ddl: str) -> DataType:
    """The type with a DDL name; types that only occur inside a query have one too.

    Raises:
        ConfigError: there is no such type.
    """
    return _BESIDES.get(ddl.lower()) or DataType.parse(ddl)


def element_of(array: DataType) -> DataType:
    """The type of an array's elements.

    Raises:
        ConfigError: it is not an array.
    """
    if array.element is None:
        raise ConfigError(f"an array is wanted, such as split(text, ','), not {array.ddl}")
    return array.element


@cache
def _node_type(found: DataType) -> exp.DataType:
    return node_type(found, lambda each: exp.DataType.build("NULL" if each == VOID else each.ddl, dialect="spark"))


def node_type(found: DataType, leaf: Callable[[DataType], exp.DataType] = _node_type) -> exp.DataType:
    """A type as sqlglot has it, which would not parse a struct of which a field is named as a word of SQL.

    Args:
        found: the type.
        leaf: makes those that are not nested.
    """
    if found.element is not None:
        return exp.DataType(this=exp.DType.ARRAY, expressions=[node_type(found.element, leaf)], nested=True)
    if found.fields:
        fields = [
            exp.ColumnDef(this=exp.to_identifier(each.name, quoted=True), kind=node_type(each.type, leaf))
            for each in found.fields
        ]
        return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)
    return leaf(found)


def literal_type(literal: exp.Expr) -> DataType:
    """The type of a literal: numbers with a point are decimals, those with an exponent doubles."""
    text = literal.name.lower()
    if literal.args["is_string"]:
        return STRING
    if "e" in text:
        if isinf(float(text)):
            raise ConfigError(f"number {text} is beyond a double; write cast('inf' as double)")
        return DOUBLE
    if "." in text:
        return _decimal_of(text)
    negative = isinstance(literal.parent, exp.Neg)  # the least number of a type has one bit more
    bits = (int(text) - negative).bit_length()
    if bits > _BIGINT_DIGITS:
        raise ConfigError(f"number {text} is beyond a bigint; write it as a decimal, {text}.0")
    return INT if bits <= _INT_DIGITS else BIGINT


def _decimal_of(text: str) -> DataType:
    whole, _, fraction = text.partition(".")
    digits = len((whole + fraction).lstrip("0"))
    return DataType("decimal", max(digits, len(fraction), 1), len(fraction))


def widest(types: Iterable[DataType]) -> DataType:
    """The common type of values of several types.

    Raises:
        ConfigError: their common type is text, or there is none.
    """
    return reduce(_wider, types, VOID)


def _wider(one: DataType, other: DataType) -> DataType:
    if other in {one, VOID}:
        return one
    if one == VOID:
        return other
    if {one.name, other.name} <= NUMBERS:
        return _wider_number(one, other)
    if {one.name, other.name} == {"date", "timestamp"}:
        return TIMESTAMP
    raise ConfigError(f"{one.ddl} meets {other.ddl}; cast one to the type of the other")


def _wider_number(one: DataType, other: DataType) -> DataType:
    names = {one.name, other.name}
    if names & FLOATS:
        return DataType("float") if names <= INTEGERS | {"float"} else DOUBLE
    if names <= INTEGERS:
        return max(one, other, key=lambda each: _WIDTHS[each.name])
    (p1, s1), (p2, s2) = digits(one), digits(other)
    return limited(max(p1 - s1, p2 - s2) + max(s1, s2), max(s1, s2))


def digits(number: DataType) -> tuple[int, int]:
    """Precision and scale of a decimal, or of the decimal that holds every value of an integer type."""
    return (number.precision, number.scale or 0) if number.precision is not None else (_WIDTHS[number.name], 0)


def limited(precision: int, scale: int) -> DataType:
    """A decimal type with these digits.

    Raises:
        ConfigError: it would fit only with fewer digits after the point.
    """
    kept = scale if precision <= _MOST else max(_MOST - (precision - scale), min(scale, _LEAST_SCALE))
    if kept != scale:
        raise ConfigError(f"a result of {precision} digits is more than a decimal holds; cast to smaller decimals")
    return DataType("decimal", min(precision, _MOST), scale)


def arithmetic_type(node: exp.Expr) -> DataType:
    """The type of a sum, a difference or a product.

    Raises:
        ConfigError: an operand is not a number.
    """
    left, right = type_of(node.args["this"]), type_of(node.args["expression"])
    for each in (left, right):
        if each != VOID and each.name not in NUMBERS:
            raise ConfigError(f"{node.sql('spark')} counts with {each.ddl}; cast it to a number")
    if "decimal" not in {left.name, right.name} or {left.name, right.name} & FLOATS or VOID in {left, right}:
        return widest((left, right))
    (p1, s1), (p2, s2) = (
        _operand_digits(each, of) for each, of in ((node.args["this"], left), (node.args["expression"], right))
    )
    if isinstance(node, exp.Mul):
        return limited(p1 + p2 + 1, s1 + s2)
    return limited(max(p1 - s1, p2 - s2) + max(s1, s2) + 1, max(s1, s2))


def _operand_digits(node: exp.Expr, found: DataType) -> tuple[int, int]:
    """The digits of an operand; an integer literal has as many as it shows."""
    plain = node.unnest()
    plain = plain.this if isinstance(plain, exp.Neg) else plain
    if isinstance(plain, exp.Literal) and found.name in INTEGERS:
        return len(plain.name.lstrip("0")) or 1, 0
    return digits(found)
