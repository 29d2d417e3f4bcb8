"""Arrays inside a query: the functions that make them, and `explode`, which turns them into rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ....domain.errors import ConfigError
from .casts import call, cast_in_place, cast_to
from .types import STRING, array_of, element_of, set_type, type_of, widest

if TYPE_CHECKING:
    from ....domain.table.schema import DataType

_ELEMENT = "hw_element"


def split_type(node: exp.Expr) -> DataType:
    """The type of ``split(text, pattern)``."""
    pattern = node.args["expression"]
    if node.args.get("limit") or not isinstance(pattern, exp.Literal) or not pattern.name:
        raise ConfigError(f"{node.sql('spark')}: memory splits text by a pattern that is written out, without a limit")
    if type_of(node.this) != STRING:
        raise ConfigError(f"{node.sql('spark')} is {type_of(node.this).ddl} where text is wanted; cast it")
    return array_of(STRING)


def split_sql(node: exp.Expr) -> exp.Expr:
    """The same for DuckDB."""
    return call("string_split_regex", node.this, node.args["expression"])


def array_type(node: exp.Expr) -> DataType:
    """The type of ``array(a, b, …)``."""
    return array_of(widest(map(type_of, node.expressions)))


def array_sql(node: exp.Expr) -> exp.Expr:
    """The same for DuckDB."""
    for each in list(node.expressions):
        cast_in_place(each, element_of(type_of(node)))
    return call("list_value", *node.expressions)


def cast_sql(array: exp.Expr, wanted: DataType) -> exp.Expr:
    """An array cast element by element."""
    element = exp.column(_ELEMENT)
    set_type(element, element_of(type_of(array)))
    each = exp.Lambda(this=cast_to(element, element_of(wanted)), expressions=[exp.to_identifier(_ELEMENT)])
    return call("list_transform", array, each)


def explode_type(node: exp.Expr) -> DataType:
    """The type of ``explode(array)``, which must be a column of its own."""
    if not isinstance(node.parent, exp.Alias):
        raise ConfigError(f"{node.sql('spark')} makes several rows of one: select it as a column of its own")
    return element_of(type_of(node.this))


def explode_sql(node: exp.Expr) -> exp.Expr:
    """The same for DuckDB."""
    return call("unnest", node.this)
