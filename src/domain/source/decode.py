"""The strict conversion of a record's values to the types of its columns, for all engines.

Nothing is guessed or rounded. If a value does not fit its column's type exactly, the record is `Undecodable`, and
becomes a dead letter with the reason. Only `float` and `double` take the nearest value; see `converters`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
from datetime import UTC, date, datetime
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation, Overflow
from math import isfinite, isnan, nextafter
from struct import Struct
from typing import Any
from zoneinfo import ZoneInfo

from ..table.schema import NESTED, Column, Schema
from .conversion import Build, Choose, Convert, Refusal, Target, ToJson, show_number, show_value
from .nested_values import nested

ONE_OBJECT = 'write one whole object a line; if the file is one array, set layout = "array"'
INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
LARGEST_FLOAT = {"float": nextafter(2.0**128 - 2.0**103, 0), "double": sys.float_info.max}
"""The largest value of each type before rounding to it: above it the nearest float is infinite."""
NUMERAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SAFE_DIGITS = 18
_PLAIN = len("YYYY-MM-DD HH:MM:SS")
_MARKS = ("-- ::", "--T::")
_WALL_FORMS = "write YYYY-MM-DD HH:MM[:SS[.ffffff]], with a space or T"
_FORMS = f"{_WALL_FORMS}, and Z or +HH:MM at the end if it has an offset"
_A_NUMBER = "a number; write it as text, or declare the column as bigint"
_A_TIME = "a number; set time_unit to its unit, or declare the column as bigint"
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}(?::?[0-5][0-9])?)?"
)


def _integer(target: Target) -> Convert:
    refuse, half = target.refuse, 2 ** (INTEGER_BITS[target.type.name] - 1)
    least = -half

    def convert(value: Any) -> int:
        if type(value) is int and least <= value < half:
            return value
        if type(value) is not int and not (type(value) is Decimal and value.is_finite()):
            raise refuse(value)
        if not least <= value < half:
            raise refuse(value, "out of range")
        if value != (whole := int(value)):
            raise refuse(value, "not a whole number")
        return whole

    return convert


def _floating(target: Target) -> Convert:
    return _exactly(_nearest(target), target) if target.typed else _nearest(target)


def _exactly(convert: Convert, target: Target) -> Convert:
    """Refuse binary numbers that would lose value; a decimal becomes the nearest one, as in JSON."""
    kept = Struct("f" if target.type.name == "float" else "d")

    def exactly(value: Any) -> float:
        number: float = convert(value)
        if type(value) is not Decimal and (found := kept.unpack(kept.pack(number))[0]) != value and not isnan(number):
            raise target.refuse(value, f"it would become {found}; declare a type that has all its digits")
        return number

    return exactly


def _nearest(target: Target) -> Convert:
    refuse, largest = target.refuse, LARGEST_FLOAT[target.type.name]

    def convert(value: Any) -> float:
        if type(value) not in (int, Decimal, float):
            raise refuse(value)
        if type(value) is float and not isfinite(value):  # JSON has no such number, Avro and Protobuf do
            return value
        try:
            number = float(value)
        except OverflowError as error:
            raise refuse(value, "out of range") from error
        if not -largest <= number <= largest:
            raise refuse(value, "out of range")
        return number

    return convert


def _number(text: str, target: Target) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise target.refuse(text, "an exponent out of range") from error


def _decimal(target: Target) -> Convert:
    refuse, precision, scale = target.refuse, target.type.precision or 0, target.type.scale or 0
    exactly = Context(precision, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact, InvalidOperation, Overflow])
    step = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        if type(value) is str and NUMERAL.fullmatch(value):
            value = _number(value, target)
        if type(value) is not int and not (type(value) is Decimal and value.is_finite()):
            raise refuse(value)
        try:
            return exactly.quantize(value, step)
        except Inexact as error:
            raise refuse(value, f"more than {scale} decimals") from error
        except (InvalidOperation, Overflow) as error:
            raise refuse(value, f"more than {precision - scale} digits before the point") from error

    return convert


def _string(target: Target) -> Convert:
    to_json = target.to_json

    def convert(value: Any) -> str:
        if type(value) is str:
            return value
        if type(value) is bytes:
            raise target.refuse(value, "bytes; declare the column as binary")
        if type(value) is float and type(value := show_number(value)) is str:  # only of messages with schemas
            return value
        text = to_json(value)
        return to_json(show_value(value)) if "null" in text else text  # it writes NaN as null, too

    return convert


def _boolean(target: Target) -> Convert:
    def convert(value: Any) -> bool:
        if type(value) is not bool:
            raise target.refuse(value)
        return value

    return convert


def _binary(target: Target) -> Convert:
    def convert(value: Any) -> bytes:
        if type(value) is bytes:
            return value
        if type(value) is not str:
            raise target.refuse(value)
        if target.typed:
            raise target.refuse(value, "a text; declare the column as string")
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            raise target.refuse(value, "no base64") from error

    return convert


def _hint(value: Any, forms: str) -> str:
    """What to do about a value that is not a date or a time; `forms` says how a text is written."""
    return forms if type(value) is str else _A_NUMBER if type(value) is int else ""


def _time_hint(value: Any, forms: str, target: Target) -> str:
    is_number = type(value) is int or (type(value) is str and value.isdecimal())
    return _A_TIME if target.takes_unit and is_number else _hint(value, forms)


def _date(target: Target) -> Convert:
    def convert(value: Any) -> date:
        if type(value) is not str or not _DATE.fullmatch(value):
            raise target.refuse(value, _hint(value, "write YYYY-MM-DD"))
        try:
            return date.fromisoformat(value)
        except ValueError as error:
            raise target.refuse(value, "no such day") from error

    return convert


def _is_plain(text: str) -> bool:
    """Whether a text can only be a time of the form ``YYYY-MM-DD HH:MM:SS``; ten times as fast as the pattern."""
    return len(text) == _PLAIN and text[4::3] in _MARKS and text.isascii()


def _timestamp(target: Target) -> Convert:
    refuse, zone = target.refuse, UTC if target.zone.key == "UTC" else target.zone

    def convert(value: Any) -> datetime:
        if type(value) is not str or not (plain := _is_plain(value) or _TIMESTAMP.fullmatch(value)):
            raise refuse(value, _time_hint(value, _FORMS, target))
        try:
            if plain is True and zone is UTC:
                return datetime.fromisoformat(value)
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
        except ValueError as error:
            raise refuse(value, "no such time") from error
        except OverflowError as error:
            raise refuse(value, "out of range: 0001-01-01 to 9999-12-31 in UTC") from error

    return convert


def _wall_time(target: Target) -> Convert:
    def convert(value: Any) -> datetime:
        if type(value) is not str or not (form := _TIMESTAMP.fullmatch(value)):
            raise target.refuse(value, _time_hint(value, _WALL_FORMS, target))
        if form[1]:
            raise target.refuse(value, "an offset is not allowed here")
        try:
            return datetime.fromisoformat(value)
        except ValueError as error:
            raise target.refuse(value, "no such time") from error

    return convert


def from_json(column: Column) -> Build:
    """The `Build` for a column of JSON values."""
    return FROM_JSON[column.type.name]


FROM_JSON: dict[str, Build] = {
    **dict.fromkeys(INTEGER_BITS, _integer),
    **dict.fromkeys(LARGEST_FLOAT, _floating),
    "decimal": _decimal,
    "string": _string,
    "boolean": _boolean,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _wall_time,
    **nested(from_json),
}
"""Builds of converters from JSON values, by type name."""


def _of_numeral(build: Build) -> Build:
    """Extend a converter of numbers to numbers written as text."""

    def build_from_text(target: Target) -> Convert:
        convert = build(target)

        def from_text(value: Any) -> Any:
            if type(value) is not str:
                return convert(value)
            if value.isdecimal() and len(value) <= _SAFE_DIGITS and value.isascii():
                return convert(int(value))
            # Most numbers are recognised without the pattern, which is slower.
            if (value.replace(".", "", 1).isdecimal() and value.isascii()) or NUMERAL.fullmatch(value):
                return convert(_number(value, target))
            raise target.refuse(value)

        return from_text

    return build_from_text


def _decimal_of_text(target: Target) -> Convert:
    """As `_of_numeral`, twice as fast for texts with exactly the column's scale, as databases write them."""
    convert, precision, scale = _of_numeral(_decimal)(target), target.type.precision or 0, target.type.scale or 0

    def from_text(value: Any) -> Any:
        fits = type(value) is str and len(value) <= precision and value[-scale - 1 : -scale] == "."
        if fits and value.replace(".", "", 1).isdecimal() and value.isascii():
            return Decimal(value)
        return convert(value)

    return from_text


def or_document(build: Build) -> Build:
    """Extend a converter of JSON values to their JSON text, as databases write the values of JSON columns."""

    def build_from_text(target: Target) -> Convert:
        convert = build(target)

        def from_text(value: Any) -> Any:
            if type(value) is str and (value := _document(value, target.refuse)) is None:
                return None
            return convert(value)

        return from_text

    return build_from_text


def _document(text: str, refuse: Refusal) -> Any:
    try:
        found = json.loads(text, parse_float=Decimal, parse_constant=Decimal)
        json.dumps(found, ensure_ascii=False, default=str).encode()  # half of a surrogate pair is no text
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise refuse(text, "not JSON") from error
    return found


def _truth(target: Target) -> Convert:
    words = {"true": True, "false": False}

    def convert(text: str) -> bool:
        if (truth := words.get(text.lower())) is None:
            raise target.refuse(text)
        return truth

    return convert


FROM_TEXT = {
    **FROM_JSON,
    **{name: _of_numeral(FROM_JSON[name]) for name in (*INTEGER_BITS, *LARGEST_FLOAT)},
    "decimal": _decimal_of_text,
    "boolean": _truth,
    **{name: or_document(FROM_JSON[name]) for name in NESTED},
}


def from_text(column: Column) -> Build:
    """The `Build` for a column whose values are all text (CSV)."""
    return FROM_TEXT[column.type.name]


def converters(
    schema: Schema, *, zone: str, to_json: ToJson, written: Choose = from_json, typed: bool = False
) -> tuple[tuple[str, Convert], ...]:
    """The name and the converter of each column.

    Args:
        schema: the columns.
        zone: IANA zone of timestamps without an offset; an ambiguous wall time is the earlier instant.
        to_json: writes a value that is not a string into a string column.
        written: how values are written.
        typed: whether values have the types of a schema: bytes are bytes, and integers and floats lose no value. Else
            bytes are texts in Base64, and a `float` or `double` is the value nearest to a number.
    """
    tz, takes_unit = ZoneInfo(zone), not typed and written in (from_json, from_text)
    return tuple(
        (each.name, written(each)(Target(each.type, Refusal(each.name, each.type), tz, to_json, typed, takes_unit)))
        for each in schema.columns
    )
