"""The values of a column: the pattern of those that convert exactly, and their conversion.

A pattern has one group, the value's text, which is null if the value is. A conversion gives null for a text that it
does not convert exactly as the strict decoder does; such a record goes to that decoder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

import polars as pl
from attrs import frozen

from ....domain.duration import FIRST_MICRO, LAST_MICRO, microseconds
from ....domain.source.changelog.values import SMALLEST_TIME
from ....domain.source.decode import LARGEST_FLOAT
from ....domain.table.schema import DataType
from .sample import ESCAPED_TEXT, Node, Unlearnable

Make: TypeAlias = Callable[["DataType", "Node", "Writing"], "Cell"]

Convert: TypeAlias = Callable[[pl.Series], pl.Series]

# Each alternative begins with other characters than the next: only then is matching one pass over the text.
INTEGER = "0|-?[1-9][0-9]*"
NUMBER = r"-(?:0\.[0-9]+|[1-9][0-9]*(?:\.[0-9]+)?)|0(?:\.[0-9]+)?|[1-9][0-9]*(?:\.[0-9]+)?"
SCALAR = rf'(?:"{ESCAPED_TEXT}"|{NUMBER}|true|false|null)'
"""Any value of those kinds that the strict decoder reads as JSON, without a group."""
SOME_TEXT = r'"([^"\\\x00-\x1f]+)"'
"""A string that is not empty and has no escapes."""
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = re.compile(rf'"{_DAY}([ T])[0-9:]{{8}}(\.[0-9]{{1,6}})?(Z)?"')
_BITS: dict[str, type[pl.DataType]] = {
    "tinyint": pl.Int8,
    "smallint": pl.Int16,
    "int": pl.Int32,
    "bigint": pl.Int64,
}
_FIRST, _LAST = datetime(1, 1, 3), datetime(9999, 12, 30)  # noqa: DTZ001 - wall times
_EDGES = (timedelta(0), timedelta(minutes=59, seconds=59, microseconds=999_999))
"""The first and the last moment of an hour."""
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1, "size": 1_000}
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
SAFE_DIGITS = 18
_LONGEST_TIME = len("YYYY-MM-DD HH:MM:SS.ffffff")
_ESCAPES = {r"\"": '"', r"\\": "\\", r"\/": "/", r"\b": "\b", r"\f": "\f", r"\n": "\n", r"\r": "\r", r"\t": "\t"}


@frozen(eq=False)
class Cell:
    """The pattern of a column's values that are not null, with one group, and their conversion; see the module."""

    pattern: str
    convert: Convert

    @property
    def nullable(self) -> str:
        """The pattern of the values, nulls included."""
        return f"(?:null|{self.pattern})"


@frozen
class Writing:
    """How values are written.

    Args:
        zone: IANA zone of times without an offset.
        texts: whether numbers and booleans may be texts, and booleans 0 and 1.
        unit: the unit of numeric times: ``s ms us``, ``size``: milliseconds if it is small enough; None: none are.
        days: whether a date may be the number of days since 1970.
        base64: whether bytes are Base64.
    """

    zone: str
    texts: bool = True
    unit: str | None = None
    days: bool = False
    base64: bool = True


def cell(type_: DataType, sample: Node, writing: Writing) -> Cell:
    """The cell of a column, for values that are written as in a sample, which is not null.

    Raises:
        Unlearnable: the strict decoder must read such values.
    """
    if sample.kind not in ("string", "number", "bool"):
        raise Unlearnable(f"{type_.ddl}: {sample.kind}")
    return _MAKERS[type_.name](type_, sample, writing)


def _cell(body: str, sample: Node, convert: Convert) -> Cell:
    quote = '"' if sample.kind == "string" else ""
    return Cell(f"{quote}({body}){quote}", convert)


def known(certain: pl.Series, values: pl.Series) -> pl.Series:
    """The values that are certain; null for all others."""
    return values if certain.all() else pl.select(pl.when(certain).then(values)).to_series()


def _number(sample: Node, writing: Writing) -> None:
    if sample.kind == "bool" or (sample.kind == "string" and not writing.texts):
        raise Unlearnable("no number")


def _integer(type_: DataType, sample: Node, writing: Writing) -> Cell:
    _number(sample, writing)
    kind = _BITS[type_.name]
    body = "-?[0-9]+" if sample.kind == "string" else INTEGER
    return _cell(body, sample, lambda texts: texts.cast(kind, strict=False))


def _floating(type_: DataType, sample: Node, writing: Writing) -> Cell:
    _number(sample, writing)
    largest = LARGEST_FLOAT[type_.name]

    def convert(texts: pl.Series) -> pl.Series:
        numbers = texts.cast(pl.Float64, strict=False)
        return known(numbers.abs() <= largest, numbers).cast(pl.Float32 if type_.name == "float" else pl.Float64)

    return _cell(NUMBER, sample, convert)


def _decimal(type_: DataType, sample: Node, _writing: Writing) -> Cell:
    precision, scale = type_.precision or 0, type_.scale or 0
    if sample.kind == "bool" or precision <= scale:
        raise Unlearnable("decimal")
    whole = "-?[0-9]+" if sample.kind == "string" else "-?(?:[1-9][0-9]*|0)"

    def convert(texts: pl.Series) -> pl.Series:
        # Not all versions of Polars check the precision.
        length = texts.str.len_bytes().cast(pl.Int64)
        point = texts.str.find(".", literal=True).cast(pl.Int64).fill_null(length)
        before = point - texts.str.starts_with("-").cast(pl.Int64)
        fits = (length - point - 1 <= scale) & (before <= precision - scale)
        return known(fits, texts.cast(pl.Decimal(precision, scale), strict=False))

    return _cell(rf"{whole}(?:\.[0-9]+)?" if scale else whole, sample, convert)


def _string(_type: DataType, sample: Node, _writing: Writing) -> Cell:
    if sample.kind == "string":
        return _cell(ESCAPED_TEXT, sample, unescaped)
    if sample.kind == "number":
        return _cell(INTEGER, sample, safe_numeral)
    raise Unlearnable("text")


def safe_numeral(texts: pl.Series) -> pl.Series:
    """Whole numbers as text; null for those of more digits than are always read."""
    return known(texts.str.len_bytes() <= SAFE_DIGITS, texts)


def unescaped(texts: pl.Series) -> pl.Series:
    """Texts with the characters that escapes of `ESCAPED_TEXT` stand for."""
    if not texts.str.contains("\\", literal=True).any():
        return texts
    return texts.str.replace_many(list(_ESCAPES), list(_ESCAPES.values()))


def _boolean(_type: DataType, sample: Node, writing: Writing) -> Cell:
    if not writing.texts and sample.kind != "bool":
        raise Unlearnable("boolean")
    words = ["true", "1"]
    return _cell("true|false|0|1" if writing.texts else "true|false", sample, lambda texts: texts.is_in(words))


def _binary(_type: DataType, sample: Node, writing: Writing) -> Cell:
    if sample.kind != "string" or not writing.base64:
        raise Unlearnable("bytes")
    return _cell("[A-Za-z0-9+/]*=?=?", sample, lambda texts: texts.str.decode("base64", strict=False))


def _date(_type: DataType, sample: Node, writing: Writing) -> Cell:
    if sample.kind == "number" and writing.days:
        return _cell(INTEGER, sample, _date_of_days)
    if sample.kind != "string":
        raise Unlearnable("date")
    return _cell(_DAY, sample, lambda texts: known(texts >= "0001", texts.str.to_date("%Y-%m-%d", strict=False)))


def _date_of_days(texts: pl.Series) -> pl.Series:
    days = texts.cast(pl.Int64, strict=False)
    return known(days.is_between(_FIRST_DAY, _LAST_DAY), days).cast(pl.Int32).cast(pl.Date)


def _time(type_: DataType, sample: Node, writing: Writing) -> Cell:
    pattern, wall, has_offset = _numeric_time(writing.unit) if sample.kind == "number" else _written_time(sample)
    if type_.name == "timestamp_ntz":
        if has_offset:
            raise Unlearnable("an offset")
        return _cell(pattern, sample, wall)
    zone = "UTC" if has_offset else writing.zone
    return _cell(pattern, sample, lambda texts: _to_utc(wall(texts), zone))


def _numeric_time(unit: str | None) -> tuple[str, Convert, bool]:
    if unit is None or unit not in _MICROS:
        raise Unlearnable("a number is not a time")
    factor = _MICROS[unit]
    first, last = -(-FIRST_MICRO // factor), LAST_MICRO // factor

    def convert(texts: pl.Series) -> pl.Series:
        numbers = texts.cast(pl.Int64, strict=False)
        fits = numbers.is_between(first, last)
        if unit == "size":
            fits &= (numbers == 0) | (numbers.abs() >= SMALLEST_TIME)
        return (known(fits, numbers) * factor).cast(pl.Datetime("us"))

    return INTEGER, convert, False


def _written_time(sample: Node) -> tuple[str, Convert, bool]:
    if not (form := _TIME.fullmatch(sample.text)):
        raise Unlearnable("a time of another form")
    mark, fraction, zulu = form[1], form[2], form[3] or ""
    pattern = f"{_DAY}{mark}[0-9]{{2}}:[0-9]{{2}}:[0-5][0-9]" + (r"\.[0-9]+" if fraction else "") + zulu
    layout = f"%Y-%m-%d{mark}%H:%M:%S" + ("%.f" if fraction else "") + zulu
    longest = _LONGEST_TIME + len(zulu)

    def convert(texts: pl.Series) -> pl.Series:
        times = texts.str.to_datetime(layout, time_unit="us", strict=False)
        certain = times.to_physical() >= FIRST_MICRO  # Polars has a year 0
        return known(certain & (texts.str.len_bytes() <= longest) if fraction else certain, times)

    return pattern, convert, bool(zulu)


_MAKERS: dict[str, Make] = {
    **dict.fromkeys(_BITS, _integer),
    **dict.fromkeys(LARGEST_FLOAT, _floating),
    "decimal": _decimal,
    "string": _string,
    "boolean": _boolean,
    "binary": _binary,
    "date": _date,
    "timestamp": _time,
    "timestamp_ntz": _time,
}


def _to_utc(wall: pl.Series, zone: str) -> pl.Series:
    """Instants of wall times; null where an hour has two offsets, and in the first and last days that there are."""
    if zone == "UTC":
        return wall.dt.replace_time_zone("UTC")
    hours = wall.dt.truncate("1h")
    known = hours.unique().drop_nulls()
    offsets = pl.Series([_offset(hour, ZoneInfo(zone)) for hour in known], dtype=pl.Int64)
    micros = hours.replace_strict(known, offsets, default=None, return_dtype=pl.Int64)
    return (wall.cast(pl.Int64) - micros).cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def _offset(hour: datetime, zone: ZoneInfo) -> int | None:
    """The offset of a whole hour in microseconds; None if it has two, or is unknown."""
    if not _FIRST < hour < _LAST:
        return None
    moments = [(hour + edge).replace(tzinfo=zone, fold=fold) for fold in (0, 1) for edge in _EDGES]
    first, *others = {moment.utcoffset() for moment in moments}
    return None if others or first is None else microseconds(first)
