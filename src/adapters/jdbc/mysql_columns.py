"""Columns of MySQL and MariaDB: their values as Spark reads them, and key values as texts and as SQL.

The servers write some values inexactly, and compare some otherwise with their own texts: a FLOAT has six digits in
its text, and the text of a BIT is compared as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from attrs import evolve

from ...domain.table.schema import DataType
from ..spark.schema import named
from . import decimals, times
from .columns import DatabaseColumn
from .keys import KeyColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BIT, _DECIMAL, _FLOAT = "bit", "decimal", "float"
_TEXT = "CAST({name} AS CHAR)"
_NUMBER = "CAST({name} AS UNSIGNED)"
_DOUBLE = "{name} * 1e0"
_ENUMS = frozenset({"enum", "set"})
_NUMBERED = _ENUMS | {_BIT}
"""Types that are ordered by their numbers."""
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_UNKNOWN = frozenset({"uuid", "inet4", "inet6"})
"""Types of MariaDB that Spark does not know."""
_KEYS = {
    _FLOAT: _DOUBLE,
    **dict.fromkeys(_NUMBERED, _NUMBER),
    **dict.fromkeys(_BYTES, "HEX({name})"),
    # Drivers refuse dates of zeros.
    **dict.fromkeys(("date", "datetime", "time", "timestamp", *_UNKNOWN), _TEXT),
}
_CREATED = """SELECT CAST(MAX(create_time) AS CHAR) FROM information_schema.tables
WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?"""
_HEX = re.compile(r"([0-9A-F]{2})*")
_DIGITS = re.compile(r"[0-9]+")


def with_identity(connection: Any, quoted: str, table: str, columns: Iterable[DatabaseColumn]) -> list[DatabaseColumn]:
    """The columns with the types ENUM and SET, which drivers call CHAR, and with the identity of their table.

    Args:
        connection: a connection to the database.
        quoted: the quoted name of the table.
        table: its name.
        columns: the columns, as the driver describes them.
    """
    listed = connection.prepareStatement(f"SHOW FULL COLUMNS FROM {quoted}").executeQuery()
    found = dict[str, tuple[str, str]]()
    while listed.next():
        found[listed.getString(1)] = listed.getString(2), listed.getString(3) or ""
    created = _created(connection, table)
    return [_identified(each, created, *found[each.name]) for each in columns]


def _created(connection: Any, table: str) -> str:
    """The time at which a table was created or altered; empty for a view."""
    *schema, name = table.split(".")
    asked = connection.prepareStatement(_CREATED)
    asked.setString(1, schema[-1] if schema else None)
    asked.setString(2, name)
    found = asked.executeQuery()
    return (found.next() and found.getString(1)) or ""


def _identified(column: DatabaseColumn, table: str, kind: str, collation: str) -> DatabaseColumn:
    own = _bare(kind)
    if own in _ENUMS:
        return evolve(column, type=own, table=table, order=f"{kind} {collation}")
    return evolve(column, table=table, order=f"{own} {collation}")


def select(kind: str, column: DatabaseColumn, name: str, wanted: DataType) -> tuple[str, str | None]:
    """The SQL for a column's value as Spark can read it, and for the text of other values, which is null for this one.

    Returns:
        The second is None if Spark can read all values.
    """
    own = _bare(column.type)
    if own == _DECIMAL and column.precision > decimals.DIGITS:
        text = _TEXT.format(name=name)
        return (text, None) if wanted.name == "string" else decimals.select(column, name, wanted, text)
    if own in _UNKNOWN:
        return _TEXT.format(name=name), None
    if own == _FLOAT:
        return _DOUBLE.format(name=name), None
    if own == _BIT and column.precision > 1:  # a BIT(1) is a boolean
        return _NUMBER.format(name=name), None
    return times.select(kind, column, name, wanted), None


def read_floats(rows: DataFrame, columns: Iterable[DatabaseColumn]) -> DataFrame:
    """The rows with each FLOAT, which was queried as a double, as a float."""
    floats = (column.name for column in columns if _bare(column.type) == _FLOAT)
    return rows.withColumns({name: named(name).cast("float") for name in floats})


def key_text(column: KeyColumn, name: str) -> str:
    """The SQL for the exact text of a key value: of bytes as hexadecimal digits, of a BIT, ENUM or SET its number."""
    return _KEYS.get(_bare(column.database_type), "{name}").format(name=name)


def literal(column: KeyColumn, text: str) -> str:
    """The SQL for a key value, by its text of `key_text`.

    Digits mean the same in every `sql_mode`; a backslash does not. The column's collation decides the comparison, as
    it comes before that of a literal.
    """
    own = _bare(column.database_type)
    if own in _NUMBERED and _DIGITS.fullmatch(text):
        return text
    if own in _BYTES and _HEX.fullmatch(text):
        return f"x'{text}'"
    return f"_utf8mb4 x'{text.encode().hex()}'"


def _bare(name: str) -> str:
    """The name of a type without its size and words such as UNSIGNED."""
    return re.split(r"[ (]", name.lower(), maxsplit=1)[0]
