"""The columns of a table, as a JDBC driver describes them."""

from __future__ import annotations

from typing import Any

from attrs import frozen

_NO_NULLS = 0
"""`java.sql.ResultSetMetaData.columnNoNulls`."""
_NUMBERS = frozenset({-6, -5, 2, 3, 4, 5, 6, 7, 8})
"""The types of `java.sql.Types` that are numbers, from TINYINT to DOUBLE."""


@frozen
class DatabaseColumn:
    """A column of a table, as the driver describes it.

    Args:
        name: its name.
        type: the database's name of its type.
        precision: the digits of a number; 0 if they are not limited.
        scale: the digits of a number after the point.
        nullable: whether it may be null; False only if it is declared so.
        is_number: whether the database orders its values as numbers.
        table: what identifies the table among all that have had its name; empty if that is not known.
        order: what decides the order of its values, if they are no numbers: its type, collation and list of values.
    """

    name: str
    type: str
    precision: int
    scale: int
    nullable: bool
    is_number: bool
    table: str = ""
    order: str = ""

    @classmethod
    def of(cls, found: Any, at: int) -> DatabaseColumn:
        """A column of a result set's metadata, by its place from 1."""
        numbers = found.getPrecision(at), found.getScale(at)
        kind = found.isNullable(at) != _NO_NULLS, found.getColumnType(at) in _NUMBERS
        own = found.getColumnTypeName(at)
        return cls(found.getColumnLabel(at), own, *numbers, *kind, order=own)
