"""Casts with the results of Spark's (not ANSI) casts: null for text that does not fit, fractions truncated."""

from __future__ import annotations

import re
from functools import cache

from sqlglot import exp

from ....domain.errors import ConfigError
from ....domain.sql.types import DOUBLE, STRING, VOID, node_type, set_type, type_of
from ....domain.table.schema import FLOATS, INTEGERS, TIMES, DataType

_DUCKDB = {
    "int": "INTEGER",
    "float": "REAL",
    "string": "VARCHAR",
    "binary": "BLOB",
    # Both sessions are in UTC, so an instant equals its wall-clock time.
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
}
_FROM_TEXT = {"boolean": "hw_boolean", "date": "hw_date", "timestamp": "hw_timestamp"}
_PLAIN_AS_TEXT = INTEGERS | {"boolean"}
_PLAIN_SCALE = 6
"""Spark writes small decimals of a larger scale with an exponent."""
_EXACT_DIGITS = 15
"""A decimal of at most this many digits becomes the nearest double by one division."""
_SPECIAL = re.compile(r"\s*(epoch|now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""Texts that mean a time to Spark where they are written out in a query."""


def call(function: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A call of a DuckDB function or of one of our macros."""
    return exp.Anonymous(this=function, expressions=list(arguments))


def as_type(value: exp.Expr, wanted: DataType) -> exp.Expr:
    """DuckDB's own cast; decimals that do not fit become null, as in Spark."""
    kind = exp.TryCast if wanted.name == "decimal" else exp.Cast
    return kind(this=value, to=_duckdb_type(wanted))


def try_cast(value: exp.Expr, wanted: DataType) -> exp.Expr:
    """DuckDB's own cast, null where the value does not fit."""
    return exp.TryCast(this=value, to=_duckdb_type(wanted))


def swap(node: exp.Expr, made: exp.Expr, place: tuple[exp.Expr | None, str | None, int | None]) -> None:
    """Replace the node by `made`, which may contain the node."""
    parent, key, index = place
    if made is not node and parent is not None and key is not None:
        parent.set(key, made, index)


def place_of(node: exp.Expr) -> tuple[exp.Expr | None, str | None, int | None]:
    """The place of a node; call it before the node is wrapped."""
    return node.parent, node.arg_key, node.index


def cast_in_place(node: exp.Expr, wanted: DataType) -> None:
    """Replace a node by its value in another type, as Spark casts it."""
    place = place_of(node)
    made = cast_to(node, wanted)
    set_type(made, wanted)
    swap(node, made, place)


def cast_to(node: exp.Expr, wanted: DataType) -> exp.Expr:
    """A node's value in another type, as Spark casts it.

    Raises:
        ConfigError: DuckDB would give another result.
    """
    found = type_of(node)
    if found == wanted:
        return node
    if found.name == "string":
        return _from_text(node, wanted)
    if wanted.name == "string":
        return _to_text(node, found)
    if found == VOID or _alike(found, wanted):
        return as_type(node, wanted)
    return _number(node, found, wanted)


def _duckdb_type(wanted: DataType) -> exp.DataType:
    return node_type(wanted, lambda each: _built(_DUCKDB.get(each.name, each.ddl)).copy())


@cache
def _built(ddl: str) -> exp.DataType:
    return exp.DataType.build(ddl, dialect="duckdb")


def _alike(found: DataType, wanted: DataType) -> bool:
    """Whether both engines give the same results."""
    if found.name in INTEGERS | {"boolean"}:
        return wanted.name in INTEGERS | FLOATS | ({"decimal"} - {found.name} if found.name != "boolean" else set())
    if found.name in FLOATS:
        return wanted.name in FLOATS
    if found.name == "decimal":
        return wanted.name == "decimal"
    return {found.name, wanted.name} <= TIMES


def _from_text(node: exp.Expr, wanted: DataType) -> exp.Expr:
    plain = node.unnest()
    if wanted.name in TIMES and isinstance(plain, exp.Literal) and _SPECIAL.match(plain.name):
        raise ConfigError(f"{plain.sql('spark')} is a time that Spark knows only as a literal; write it in digits")
    node = call("hw_stripped" if wanted.name in TIMES else "hw_trimmed", node)
    if wanted.name in _FROM_TEXT:
        return call(_FROM_TEXT[wanted.name], node)
    if wanted.name in INTEGERS:
        return try_cast(call("hw_whole", node), wanted)
    if wanted.name in FLOATS:
        return try_cast(call("hw_float", node), wanted)
    if wanted.name == "decimal":
        return try_cast(call("hw_number", node), wanted)
    raise _refusal(STRING, wanted)


def _to_text(node: exp.Expr, found: DataType) -> exp.Expr:
    if found.name in _PLAIN_AS_TEXT or found == VOID:
        return as_type(node, STRING)
    if found.name in TIMES:
        return call("hw_time_text", node)
    if found.name != "decimal" or (found.scale or 0) > _PLAIN_SCALE:
        raise _refusal(found, STRING)
    if found.precision == found.scale:  # DuckDB would write no zero before the point
        node = as_type(node, DataType("decimal", (found.precision or 0) + 1, found.scale))
    return as_type(node, STRING)


def _number(node: exp.Expr, found: DataType, wanted: DataType) -> exp.Expr:
    if found.name in FLOATS | {"decimal"} and wanted.name in INTEGERS:
        return as_type(call("trunc", node), wanted)
    if found.name in FLOATS and wanted.name == "decimal":  # from its shortest text, as in Java
        return try_cast(call("hw_number", as_type(as_type(node, DOUBLE), STRING)), wanted)
    if found.name == "decimal" and wanted.name in FLOATS:
        many = (found.precision or 0) > _EXACT_DIGITS
        return as_type(as_type(node, DataType("string")) if many else node, wanted)
    raise _refusal(found, wanted)


def _refusal(found: DataType, wanted: DataType) -> ConfigError:
    return ConfigError(f"a cast from {found.ddl} to {wanted.ddl} is not the same here as on Spark; leave it out")
