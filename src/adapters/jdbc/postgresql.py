"""Columns of PostgreSQL with values that Spark cannot read, or would change: infinite times, numbers of any length.

One such value would make its whole chunk unreadable. So the query returns it as a text, in a column of its own.
"""

from __future__ import annotations

from ...domain.table.schema import DataType
from .columns import DatabaseColumn

KIND = "postgresql"
_TEXTS = {
    **dict.fromkeys(("date", "numeric", "time", "timestamp", "timetz"), "CAST({name} AS text)"),
    "timestamptz": "CAST({name} AT TIME ZONE 'UTC' AS text)",
}
_TIMES = ("date", "timestamptz")
_DIGITS = 38
"""The digits of Spark's widest decimal."""
_UNBOUNDED_SCALE = 18
"""The scale in which Spark reads a numeric without one."""


def select(column: DatabaseColumn, name: str, wanted: DataType) -> tuple[str, str | None]:
    """The SQL for a column's value as Spark can read it, and for the text of other values, which is null for this one.

    Args:
        column: the column.
        name: its quoted name.
        wanted: its declared type.

    Returns:
        The second is None if Spark can read all values.
    """
    text = _TEXTS.get(column.type, name).format(name=name)
    if wanted.name == "string" or column.type not in (*_TIMES, "numeric"):
        return (text if wanted.name == "string" or column.type == "timestamp" else name), None
    if column.type in _TIMES:
        # Spark overflows beyond the year 294246; the years between are dead letters anyway.
        fits = f"{name} > '-infinity' AND {name} < '20000-01-01'"
        value = f"CASE WHEN {fits} THEN {name} END"
    else:
        precision, scale = _digits(column, wanted)
        fits = f"abs({name}) < 1e{precision - scale} AND {name} = round({name}, {scale})"  # false for NaN
        value = f"CAST(CASE WHEN {fits} THEN {name} END AS numeric({precision}, {scale}))"
    return value, f"CASE WHEN NOT ({fits}) THEN {text} END"


def _digits(column: DatabaseColumn, wanted: DataType) -> tuple[int, int]:
    """The precision and the scale in which a numeric is read: its own, or the declared ones if it has none."""
    if 0 < column.precision <= _DIGITS and column.scale <= column.precision:
        return column.precision, column.scale
    if wanted.precision is not None:
        return wanted.precision, wanted.scale or 0
    return _DIGITS, _UNBOUNDED_SCALE
