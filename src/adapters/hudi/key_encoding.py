"""Values of key and partition columns as text, for Hudi's record keys and the names of its folders.

Hudi's own key generators confuse null with a word for it, and a separator with the same character inside a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from ...domain.duration import moment_of
from ...domain.table.schema import INTEGERS, DataType, Schema
from ..spark.schema import quoted

# An underscore begins the two hexadecimal digits of a byte, so no value is written like these.
NULL, EMPTY = "null_", "empty_"
SEPARATOR = "~"
_PLAIN = INTEGERS | {"boolean", "date", "timestamp"}


def key_text(schema: Schema, names: Sequence[str]) -> str:
    """SQL that encodes the values of columns as one unique text; null if one of them is null."""
    return _joined(_text(name, schema[name]) for name in names)


def folder_text(schema: Schema, names: Sequence[str]) -> str:
    """As `key_text`, but null is encoded too; the text can be decoded and is a valid folder name."""
    return _joined(f"coalesce({_text(name, schema[name])}, '{NULL}')" for name in names)


def folder_values(text: str, schema: Schema, names: Sequence[str]) -> dict[str, Any]:
    """The column values encoded in a folder name; values that cannot be decoded are left out."""
    values: dict[str, Any] = {}
    for name, value in zip(names, text.split(SEPARATOR), strict=True):
        with suppress(KeyError, ValueError, ArithmeticError):  # Spark has types and dates that Python does not have
            values[name] = None if value == NULL else _READERS[schema[name].name](_unescaped(value))
    return values


def _joined(texts: Iterable[str]) -> str:
    return "concat(" + f", '{SEPARATOR}', ".join(texts) + ")"


def _text(name: str, data_type: DataType) -> str:
    column = quoted(name)
    match data_type.name:
        case "timestamp":
            column = f"unix_micros({column})"
        case "float" | "double":
            column = f"{column} + 0"  # 0.0 and -0.0 are equal
        case "binary":
            column = f"hex({column})"
    plain = f"CAST({column} AS string)"
    return plain if data_type.name in _PLAIN else _escaped(plain)


def _escaped(text: str) -> str:
    """SQL that keeps letters, digits and ``-``, and writes each other byte as ``_`` and two hexadecimal digits."""
    escaped = f"url_encode({text})"
    for mark, code in (("_", "%5F"), (".", "%2E"), ("*", "%2A"), ("+", "%20"), ("%", "_")):
        escaped = f"replace({escaped}, '{mark}', '{code}')"
    return f"if({text} = '', '{EMPTY}', {escaped})"


def _unescaped(text: str) -> str:
    return "" if text == EMPTY else unquote(text.replace("_", "%"))


_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(INTEGERS, int),
    "boolean": "true".__eq__,
    "date": date.fromisoformat,
    "decimal": Decimal,
    "string": str,
    "timestamp": lambda text: moment_of(int(text)),
    "timestamp_ntz": datetime.fromisoformat,
}
