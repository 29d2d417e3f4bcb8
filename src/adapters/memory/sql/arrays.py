"""Nested values inside a query, for DuckDB: making arrays, turning them into rows, and the fields of structs."""

from __future__ import annotations

from sqlglot import exp

from ....domain.sql.parts import field_of
from ....domain.sql.types import element_of, set_type, type_of
from ....domain.table.schema import DataType
from .casts import call, cast_in_place, cast_to
from .patterns import separator_of

_ELEMENT = "hw_element"


def split_sql(node: exp.Expr) -> exp.Expr:
    """``split(text, pattern)``."""
    separator = exp.Literal.string(separator_of(node.args["expression"].name))
    return call("string_split_regex", node.this, separator)


def array_sql(node: exp.Expr) -> exp.Expr:
    """``array(a, b, …)``."""
    for each in list(node.expressions):
        cast_in_place(each, element_of(type_of(node)))
    return call("list_value", *node.expressions)


def cast_sql(array: exp.Expr, wanted: DataType) -> exp.Expr:
    """An array cast element by element."""
    element = exp.column(_ELEMENT)
    set_type(element, element_of(type_of(array)))
    each = exp.Lambda(this=cast_to(element, element_of(wanted)), expressions=[exp.to_identifier(_ELEMENT)])
    return call("list_transform", array, each)


def explode_sql(node: exp.Expr) -> exp.Expr:
    """``explode(array)`` as a separate column."""
    return call("unnest", node.this)


def field_sql(node: exp.Expr) -> exp.Expr:
    """``struct.field``."""
    return call("struct_extract", node.this, exp.Literal.string(field_of(node).name))
