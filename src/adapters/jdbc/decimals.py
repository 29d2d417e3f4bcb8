"""Numbers of more digits than Spark's decimals have. One such value would make its whole chunk unreadable."""

from __future__ import annotations

from ...domain.table.schema import DataType
from .columns import DatabaseColumn

DIGITS = 38
"""The digits of Spark's widest decimal."""
_UNBOUNDED_SCALE = 18
"""The scale in which Spark reads a number that has no scale, or too many digits."""


def select(column: DatabaseColumn, name: str, wanted: DataType, text: str) -> tuple[str, str]:
    """The SQL for a decimal as Spark can read it, and for the text of other values, which is null for this one.

    Args:
        column: the column.
        name: its quoted name.
        wanted: its declared type.
        text: the SQL for its text.
    """
    fits, kind = condition(column, name, wanted)
    return f"CAST(CASE WHEN {fits} THEN {name} END AS {kind})", f"CASE WHEN NOT ({fits}) THEN {text} END"


def condition(column: DatabaseColumn, name: str, wanted: DataType) -> tuple[str, str]:
    """The SQL that tells whether a decimal has a value that Spark can read, and the type in which it does.

    Args:
        column: the column, or one with arrays of such decimals.
        name: the SQL for the decimal.
        wanted: its declared type.
    """
    precision, scale = _digits(column, wanted)
    limit = "1" + "0" * (precision - scale)  # `1e20` is inexact in MySQL
    fits = f"abs({name}) < {limit} AND {name} = round({name}, {scale})"  # false for NaN
    return fits, f"decimal({precision}, {scale})"


def _digits(column: DatabaseColumn, wanted: DataType) -> tuple[int, int]:
    """The precision and the scale in which a number is read: its own, or the declared ones if Spark has no such."""
    if 0 < column.precision <= DIGITS and column.scale <= column.precision:
        return column.precision, column.scale
    precision, scale = (wanted.precision, wanted.scale or 0) if wanted.precision else (DIGITS, _UNBOUNDED_SCALE)
    # MySQL has fewer decimal places than Spark. Of its own, a column needs no more than it has.
    return precision, min(scale, max(column.scale, 0)) if column.precision else scale
