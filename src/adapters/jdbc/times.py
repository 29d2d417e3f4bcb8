"""Wall-clock times, dates of some databases and short texts of MySQL are queried as texts, and Spark reads these.

Drivers read a wall-clock time in the zone of the JVM. There it may not exist, and Spark shifts it by that zone. They
read dates in Java's former calendar, in which those from 5 to 14 October 1582 are later ones. Dates and times of zeros,
which MySQL has, fail in its drivers, and infinite ones, which PostgreSQL has, in Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...domain.table.schema import DataType
from ..spark.schema import named
from . import mysql
from .columns import DatabaseColumn

_WALL, _INSTANT, _DATE = "timestamp_ntz", "timestamp", "date"
"""The types in which Spark reads texts."""
_DATETIMES = dict.fromkeys(("datetime", "datetime2", "smalldatetime"), _WALL)
_TYPES = _DATETIMES | dict.fromkeys(("timestamp", "timestamp without time zone"), _WALL)
# A TIMESTAMP of MySQL is an instant, which its session shows in UTC.
_OF_MYSQL = MappingProxyType({"datetime": _WALL, "timestamp": _INSTANT, "date": _DATE})
_TYPES_OF = {
    **dict.fromkeys(mysql.KINDS, _OF_MYSQL),
    "oracle": {"timestamp": _WALL, "date": _WALL},
    "postgresql": {"date": _DATE, "timestamp": _WALL, "timestamptz": _INSTANT},
    "sqlserver": {**_DATETIMES, "date": _DATE},  # its `timestamp` is a row's version
}
"""By kind of database, where `_TYPES` does not hold."""
_TEXTS = {
    **dict.fromkeys(mysql.KINDS, "CAST({name} AS CHAR)"),
    "db2": "VARCHAR_FORMAT({name}, 'YYYY-MM-DD HH24:MI:SS.FF6')",
    "oracle": "TO_CHAR(CAST({name} AS TIMESTAMP), 'SYYYY-MM-DD HH24:MI:SS.FF6')",
    "sqlserver": "CONVERT(varchar(40), {name}, 121)",
}
_PADDED = dict.fromkeys(mysql.KINDS, frozenset({"char", "enum", "set"}))
"""Texts that Spark would pad with the blanks that the database leaves out."""
_STANDARD = "CAST({name} AS VARCHAR(40))"
_ARRAYS = {
    ("postgresql", "_date"): _DATE,
    ("postgresql", "_timestamp"): _WALL,
    ("postgresql", "_timestamptz"): _INSTANT,
}
"""By kind of database and type: arrays whose elements are read as texts."""
_DAY = r"^[+-]?\d{4,}-\d\d-\d\d$"
"""A day whose text Spark reads exactly. Of others it ignores what follows a blank, such as the ` BC` of PostgreSQL."""
_NO_TIME = "headwater_no_time_{}"


def time_type(kind: str, column: DatabaseColumn) -> str | None:
    """Spark's type of the times of a column whose texts are read; None if it is read as it is."""
    return _TYPES_OF.get(kind, _TYPES).get(column.type.split("(")[0].lower())


def select(kind: str, column: DatabaseColumn, name: str, wanted: DataType) -> str:
    """The SQL for a column's value."""
    of_day, padded = column.type.lower() == "time", column.type.lower() in _PADDED.get(kind, ())
    is_text = (wanted.name == "string" and (of_day or padded)) or time_type(kind, column) is not None
    return _TEXTS.get(kind, _STANDARD).format(name=name) if is_text else name


def read_texts(
    kind: str, rows: DataFrame, columns: Mapping[DatabaseColumn, DataType]
) -> tuple[DataFrame, dict[str, str]]:
    """The rows with times in the place of their texts, and the columns with those texts that are no times.

    Returns:
        The second has a column of the frame for the name of each column of times; see `Database.chunk`.
    """
    unread = dict[str, str]()
    for at, (column, wanted) in enumerate(columns.items()):
        found = time_type(kind, column) if wanted.element is None else _ARRAYS.get((kind, column.type))
        if "string" in {wanted.name, wanted.element and wanted.element.name} or found is None:
            continue
        text = named(column.name)
        if wanted.element is not None:
            time, no_time = _read_array(text, found)
        else:
            time = _as_time(text, found)
            no_time = time.isNull()
        unread[column.name] = _NO_TIME.format(at)
        rows = rows.withColumns({unread[column.name]: F.when(no_time, text.cast("string")), column.name: time})
    return rows, unread


def _read_array(texts: Column, kind: str) -> tuple[Column, Column]:
    """The times of an array of texts, and whether one of these is no time."""
    no_time = F.exists(texts, lambda each: each.isNotNull() & _as_time(each, kind).isNull())
    return F.when(~no_time, F.transform(texts, lambda each: _as_time(each, kind))), no_time


def _as_time(text: Column, kind: str) -> Column:
    if kind == _DATE:
        return F.when(text.rlike(_DAY), text).cast(kind)
    return (F.concat(text, F.lit("Z")) if kind == _INSTANT else text).cast(kind)
