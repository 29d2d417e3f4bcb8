"""Arrays on their way into rows: what makes one, and the table function that takes it apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ....domain.errors import ConfigError
from .casts import bring, brought, call
from .types import STRING, array_of, element_of, set_type, type_of, widest

if TYPE_CHECKING:
    from ....domain.schema import DataType

_ELEMENT = "hw_element"


def split_type(node: exp.Expr) -> DataType:
    """Of ``split(text, pattern)``."""
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
    """Of ``array(a, b, …)``."""
    return array_of(widest(map(type_of, node.expressions)))


def array_sql(node: exp.Expr) -> exp.Expr:
    """The same for DuckDB."""
    for each in list(node.expressions):
        bring(each, element_of(type_of(node)))
    return call("list_value", *node.expressions)


def cast_sql(array: exp.Expr, wanted: DataType) -> exp.Expr:
    """An array cast element by element."""
    element = exp.column(_ELEMENT)
    set_type(element, element_of(type_of(array)))
    each = exp.Lambda(this=brought(element, element_of(wanted)), expressions=[exp.to_identifier(_ELEMENT)])
    return call("list_transform", array, each)


def explode_type(node: exp.Expr) -> DataType:
    """Of ``explode(array)``, which may only be a column of its own."""
    if not isinstance(node.parent, exp.Alias):
        raise ConfigError(f"{node.sql('spark')} makes several rows of one: let it stand alone, as a column of its own")
    return element_of(type_of(node.this))


def explode_sql(node: exp.Expr) -> exp.Expr:
    """The same for DuckDB."""
    return call("unnest", node.this)
