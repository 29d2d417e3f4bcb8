"""Columns of PostgreSQL with values that Spark cannot read or would change: times, and numbers of any length.

For times see `times`. A number that Spark cannot read would make its whole chunk unreadable. So the query returns it as
a text, in a column of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve

from ...domain.table.schema import DataType
from . import decimals
from .columns import DatabaseColumn

KIND = "postgresql"
_NUMERIC = "numeric"
_TEXTS = {
    **dict.fromkeys(("date", "float4", "float8", _NUMERIC, "time", "timestamp", "timetz"), "CAST({name} AS text)"),
    "timestamptz": "CAST({name} AT TIME ZONE 'UTC' AS text)",
}
_TIMES = ("date", "timestamp", "timestamptz")
_NUMERICS = "_numeric"
_ARRAY = "CAST(CAST({name} AS text) AS text[])"
"""The texts of an array as its type writes them. Cast one by one, an `inet` would get a mask."""
_NO_TEXTS = frozenset({"_bool", "_box", "_bytea"})
"""Arrays whose elements these texts do not equal: a single `bool` is read as `true`, and bytes as UTF-8."""
_TEXTS_OF = {
    **dict.fromkeys(("_date", "_timestamp"), "CAST({name} AS text[])"),
    "_timestamptz": (
        "CASE WHEN array_ndims({name}) > 1 THEN CAST({name} AS text[])"  # as those of other types
        " WHEN {name} IS NOT NULL THEN ARRAY(SELECT CAST(each AT TIME ZONE 'UTC' AS text)"
        " FROM unnest({name}) WITH ORDINALITY AS of(each, at) ORDER BY at) END"
    ),
}
"""The texts of arrays, whose types have these names."""
_IDENTITY = """SELECT attname, CAST(attrelid AS text), CAST(attcollation AS text) FROM pg_attribute
WHERE attnum > 0 AND attrelid = CAST({table} AS regclass)"""
_SAME_ORDER = {"varchar": "text"}


def with_identity(connection: Any, table: str, columns: Iterable[DatabaseColumn]) -> list[DatabaseColumn]:
    """The columns with the OID of their table and the collations that decide the order of texts.

    Args:
        connection: a connection to the database.
        table: the quoted name of the table.
        columns: the columns, as the driver describes them.
    """
    listed = connection.prepareStatement(_IDENTITY.format(table=literal(table))).executeQuery()
    found = dict[str, tuple[str, str]]()
    while listed.next():
        found[listed.getString(1)] = listed.getString(2), listed.getString(3)
    return [
        evolve(each, table=found[each.name][0], order=f"{_SAME_ORDER.get(each.type, each.type)} {found[each.name][1]}")
        for each in columns
    ]


def select(column: DatabaseColumn, name: str, wanted: DataType) -> tuple[str, str | None]:
    """The SQL for a column's value as Spark can read it, and for the text of other values, which is null for this one.

    Returns:
        The second is None if Spark can read all values.
    """
    if wanted.element is not None:
        return _select_array(column, name, wanted.element)
    text = _TEXTS.get(column.type, name).format(name=name)
    if wanted.name == "string" or column.type in _TIMES:
        return text, None
    return decimals.select(column, name, wanted, text) if column.type == _NUMERIC else (name, None)


def _select_array(column: DatabaseColumn, name: str, element: DataType) -> tuple[str, str | None]:
    """As `select`, for an array with elements of a declared type."""
    as_text = element.name == "string" and column.type not in _NO_TEXTS
    if column.type != _NUMERICS or as_text:
        return _TEXTS_OF.get(column.type, _ARRAY if as_text else "{name}").format(name=name), None
    fits, kind = decimals.condition(column, "each", element)
    fit = f"(SELECT coalesce(bool_and({fits}), true) FROM unnest({name}) AS each)"  # noqa: S608 - the name is quoted
    return f"CAST(CASE WHEN {fit} THEN {name} END AS {kind}[])", f"CASE WHEN NOT {fit} THEN CAST({name} AS text) END"


def literal(text: str) -> str:
    """A text in SQL. PostgreSQL reads a quoted literal in the type of the column, whatever that is: a uuid, an enum."""
    quoted = "'" + text.replace("'", "''") + "'"
    # After an E, a backslash means the same whatever the server's settings say.
    return "E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted
