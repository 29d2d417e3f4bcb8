"""Typed values from the ways in which Maxwell, Debezium and Canal write them."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from ...duration import EPOCH, FIRST_MICRO, LAST_MICRO, WALL_EPOCH
from ...table.schema import TIMES, VALUE, Column
from ..conversion import Build, Choose, Convert, Refusal, Target, Undecodable, shown
from ..decode import FROM_JSON, FROM_TEXT, NUMERAL, or_document
from ..nested_values import ELEMENT, nested
from .message import Message

_TRUTH = {"0": False, "1": True, "false": False, "true": True}
_DAY_0 = EPOCH.toordinal()
_LAST_DAY = date.max.toordinal()
_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_PAST_9999_IN_MS = 253_402_300_800_000
SMALLEST_TIME = 10**8
"""Smaller numbers without a unit are days (until the year 275760) or times of a day sooner than times since 1970."""
_INFINITIES = frozenset(
    {9_223_372_036_825_200_000, -9_223_372_036_832_400_000, 9_223_372_036_825_200, -9_223_372_036_832_400}
)
"""Debezium's numbers for PostgreSQL's ``infinity`` and ``-infinity``, in microseconds and in milliseconds."""
CONNECT_UNITS = {
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
    "org.apache.kafka.connect.data.Timestamp": "ms",
}
CONNECT_DATES = frozenset({"io.debezium.time.Date", "org.apache.kafka.connect.data.Date"})
CONNECT_TEXTS = frozenset({"io.debezium.time.IsoTimestamp", "io.debezium.time.IsoDate"})
"""Wall times and days of ``time.precision.mode=isostring``, as texts with a Z behind them."""
_NUMBERED = ("timestamp", "timestamp_ntz")
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_SCALE = re.compile(r"-?[0-9]{1,4}")
CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"


def _truth(target: Target) -> Convert:
    """MySQL has no boolean: it writes 0 and 1."""

    def convert(value: Any) -> bool:
        if value is True or value is False:
            return value
        truth = _TRUTH.get(str(value).lower()) if type(value) in (int, str) else None
        if truth is None:
            raise target.refuse(value)
        return truth

    return convert


def _latin_1(target: Target) -> Convert:
    """Canal writes each byte as the character of its number."""

    def convert(value: Any) -> bytes:
        if type(value) is not str:
            raise target.refuse(value)
        try:
            return value.encode("latin-1")
        except UnicodeEncodeError as error:
            raise target.refuse(value, "characters that are not bytes") from error

    return convert


def _or_number(build: Build, of_number: Callable[[int], Any], target: Target) -> Convert:
    """Extend a converter to values written as whole numbers."""
    otherwise, refuse = build(target), target.refuse

    def convert(value: Any) -> Any:
        if type(value) is not int:
            return otherwise(value)
        try:
            return of_number(value)
        except (ValueError, OverflowError) as error:
            raise refuse(value, str(error)) from error

    return convert


def _day(days: int) -> date:
    if not 1 <= (ordinal := _DAY_0 + days) <= _LAST_DAY:
        raise OverflowError("out of range")
    return date.fromordinal(ordinal)


def _days(target: Target) -> Convert:
    return _or_number(FROM_JSON["date"], _day, target)


def unit_of(number: int) -> str:
    """Infer the unit of a time since 1970 from its size: the coarsest unit that gives a time before the year 10000.

    Milliseconds are never taken for another unit; those within 28 hours of 1970 (see `SMALLEST_TIME`), except 0, are
    refused. Microseconds from 1962 to 1977 are taken for milliseconds, and nanoseconds from these years for
    microseconds.

    >>> unit_of(1_700_000_000_000), unit_of(1_700_000_000_000_000), unit_of(1_700_000_000_000_000_000)
    ('ms', 'us', 'ns')

    Raises:
        ValueError: it is too small, or one of `_INFINITIES`, which a larger unit would make a time in 1677 or 2262.
    """
    if 0 < abs(number) < SMALLEST_TIME:
        raise ValueError("days, or a time of a day? declare the column as date or bigint, or set time_unit")
    if number in _INFINITIES:
        raise ValueError("PostgreSQL's infinity; declare the column as bigint, or set time_unit if it is another time")
    size = abs(number)
    return "ms" if size < _PAST_9999_IN_MS else "us" if size < _PAST_9999_IN_MS * 1000 else "ns"


def _micros(number: int, unit: str) -> int:
    if unit != "ns":
        return number * _MICROS[unit]
    if number % 1000:
        raise ValueError("finer than a microsecond")
    return number // 1000


def _micros_since_1970(unit: str | None) -> Callable[[int], int]:
    """A function that converts a number to microseconds since 1970: a `datetime` would take four times as long."""
    factor, known = _MICROS.get(unit or "ms"), unit is not None

    def time(number: int) -> int:
        if factor and (known or SMALLEST_TIME <= number < _PAST_9999_IN_MS):  # most times, without a further call
            micros = number * factor
        else:
            micros = _micros(number, unit or unit_of(number))
        if FIRST_MICRO <= micros <= LAST_MICRO:
            return micros
        raise OverflowError("out of range")

    return time


def _wall_times(unit: str | None) -> Build:
    wall = _micros_since_1970(unit)
    return lambda target: _or_number(FROM_JSON["timestamp_ntz"], wall, target)


def instants(unit: str | None) -> Build:
    """A `Build` for timestamps written as text, or as a number since 1970 on the wall clock of the source's zone.

    Args:
        unit: the unit of numbers: ``s ms us ns``; None: inferred from their size.
    """

    def build(target: Target) -> Convert:
        zone, wall = target.zone, _micros_since_1970(unit)
        if zone.key == "UTC":
            return _or_number(FROM_JSON["timestamp"], wall, target)
        return _or_number(
            FROM_JSON["timestamp"],
            lambda number: (WALL_EPOCH + timedelta(0, 0, wall(number))).replace(tzinfo=zone).astimezone(UTC),
            target,
        )

    return build


def _without_z(build: Build) -> Build:
    """A `Build` for `CONNECT_TEXTS`."""

    def build_wall(target: Target) -> Convert:
        convert = build(target)
        return lambda value: convert(value.removesuffix("Z") if type(value) is str else value)

    return build_wall


def with_time_unit(unit: str, written: Choose) -> Choose:
    """The `Build` of columns of plain JSON or CSV, where timestamps may also be whole numbers since 1970 in UTC.

    Args:
        unit: the unit of these numbers: ``s ms us ns``.
        written: how other values are written: `from_json` or `from_text`.
    """
    since = _micros_since_1970(unit)

    def choose(column: Column) -> Build:
        return numbered.get(column.type.name) or written(column)

    numbered = {name: _of_digits(partial(_or_number, FROM_JSON[name], since)) for name in _NUMBERED}
    numbered |= nested(choose)
    return choose


def _of_digits(build: Build) -> Build:
    """Extend a converter of whole numbers to those written as text."""

    def build_from_text(target: Target) -> Convert:
        convert = build(target)
        return lambda value: convert(int(value) if type(value) is str and _WHOLE.fullmatch(value) else value)

    return build_from_text


def scaled(unscaled: int, scale: int) -> Decimal:
    """The decimal of all digits of an unscaled number.

    >>> scaled(-1230, 2)
    Decimal('-12.30')
    """
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


def _unscaled(value: object, scale: object, refuse: Refusal) -> Decimal:
    """The decimal of an unscaled two's complement, in bytes or in Base64."""
    if not isinstance(value, str | bytes) or type(scale) is not int:
        raise refuse(value)
    try:
        unscaled = value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise refuse(value, "no base64") from error
    try:
        return scaled(int.from_bytes(unscaled, signed=True), scale)
    except (ValueError, OverflowError) as error:  # as Python refuses them
        raise refuse(value, "too many digits, or a scale out of range") from error


def _decimal_of_bytes(build: Build, scale: object) -> Build:
    """A `Build` for Kafka Connect's decimals, whose scale is in the schema."""

    def build_unscaled(target: Target) -> Convert:
        convert = build(target)
        return lambda value: convert(_unscaled(value, scale, target.refuse))

    return build_unscaled


def _decimals(target: Target) -> Convert:
    """A converter of numbers, texts, and Debezium's struct of scale and bytes; bytes without a scale are refused."""
    convert, refuse = FROM_TEXT["decimal"](target), target.refuse

    def of_any(value: Any) -> Any:
        if type(value) is dict:
            value = _unscaled(value.get("value"), value.get("scale"), refuse)
        try:
            return convert(value)
        except Undecodable as error:
            if type(value) is bytes or (type(value) is str and not NUMERAL.fullmatch(value)):
                raise refuse(value, "if it is bytes, send the schema or set decimal.handling.mode=string") from error
            raise

    return of_any


def _nested(choose: Choose) -> dict[str, Build]:
    """Builds of converters of nested values: arrays and objects, or their JSON text, as JSON columns are written."""
    return {name: or_document(build) for name, build in nested(choose).items()}


def written(column: Column) -> Build:
    """The `Build` for a column as Maxwell writes it: JSON values; numbers may be text, booleans 0 and 1."""
    return _WRITTEN[column.type.name]


_WRITTEN: Mapping[str, Build] = {**FROM_TEXT, "boolean": _truth, **_nested(written)}


def canal_written(column: Column) -> Build:
    """The `Build` for a column as Canal writes it: texts, with bytes as Latin-1."""
    return _latin_1 if column.type.name == "binary" else written(column)


def debezium_written(unit: str | None) -> Choose:
    """The `Build` of columns that Debezium writes without a schema: days, and times in a unit (`instants`)."""

    def choose(column: Column) -> Build:
        return numbered.get(column.type.name) or written(column)

    numbered = {
        "date": _days,
        "timestamp": instants(unit),
        "timestamp_ntz": _wall_times(unit),
        "decimal": _decimals,
        **_nested(choose),
    }
    return choose


def debezium_described(fields: Mapping[str, Message]) -> Choose:
    """The `Build` of columns that Debezium writes with a schema; a number is a time only if the schema says so."""

    def choose(column: Column) -> Build:
        described = fields.get(column.name, {})
        if column.type.is_nested:
            return _nested(debezium_described(_inside(described)))[column.type.name]
        logical = str(described.get("name"))
        if logical == CONNECT_DECIMAL:
            return _decimal_of_bytes(written(column), _scale(described))
        if column.type.name == "date" and logical in CONNECT_DATES:
            return _days
        if column.type.name in _NUMBERED and logical in CONNECT_UNITS:
            return debezium_written(CONNECT_UNITS[logical])(column)
        if column.type.name in TIMES and logical in CONNECT_TEXTS:
            return _without_z(written(column))
        return _decimals if column.type.name == "decimal" else written(column)

    return choose


def _inside(described: Message) -> dict[str, Message]:
    """The schemas of the values inside an array, a map or a struct, by field; empty if it describes none of them."""
    items, values, fields = (described.get(name) for name in ("items", "values", "fields"))
    if type(items) is dict:
        return {ELEMENT: items}
    if type(values) is dict:
        return {VALUE: values}
    return {str(each.get("field")): each for each in fields if type(each) is dict} if type(fields) is list else {}


def _scale(described: Message) -> int | None:
    parameters = described.get("parameters")
    scale = str(parameters.get("scale")) if type(parameters) is dict else ""
    return int(scale) if _SCALE.fullmatch(scale) else None


def fields_of(schema: Any) -> dict[str, Message]:
    """The schemas of a row's columns out of that of Debezium's envelope.

    Raises:
        Undecodable: it is not such a schema.
    """
    try:
        (row,) = (each for each in schema["fields"] if each["field"] == "after")
        return {each["field"]: each for each in row["fields"]}
    except (TypeError, KeyError, ValueError) as error:
        raise Undecodable(f"schema: that of Debezium's envelope wanted, not {shown(schema)}") from error
