"""Reads rows out of an engine, a few at a time, with JSON values that the JSON sources can read back."""

from __future__ import annotations

import base64
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from decimal import Decimal

    from ...domain.ports import FrameEngine, FrameFunctions
    from ...domain.table.schema import DataType, Schema

Cell: TypeAlias = "str | int | float | bool | None"
"""A value as JSON has it."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def json_rows(frame: nw.LazyFrame[Any], schema: Schema, engine: FrameEngine) -> Iterator[list[Cell]]:
    """The rows of a frame in its order, values in the order of a schema.

    Timestamps become ISO-8601 in UTC, dates ISO-8601, decimals strings, binary Base64, NaN and infinities strings; null
    stays None.
    """
    readers = [_reader(column.type) for column in schema.columns]
    for values in engine.iterate(_plain(frame, schema, engine)):
        yield [None if value is None else read(value) for read, value in zip(readers, values, strict=True)]


def _plain(frame: nw.LazyFrame[Any], schema: Schema, engine: FrameFunctions) -> nw.LazyFrame[Any]:
    """The columns in order, timestamps as microseconds: engines would convert times with the process's time zone."""
    picked = []
    for at, column in enumerate(schema.columns):
        source = column.name
        if column.type.name == "timestamp":
            source = f"_micros_{at}"
            frame = engine.wall_micros(frame, column.name, into=source, zone="UTC")
        picked.append(nw.col(source).alias(column.name))
    return frame.select(*picked)


def _reader(kind: DataType) -> Callable[[Any], Cell]:
    match kind.name:
        case "timestamp":
            return _instant
        case "timestamp_ntz" | "date":
            return _iso
        case "decimal":
            return _decimal
        case "binary":
            return _base64
        case "float" | "double":
            return _number
        case _:
            return _as_it_is


def _as_it_is(value: Any) -> Cell:
    return value  # type: ignore[no-any-return]


def _instant(micros: int) -> str:
    return _iso(_EPOCH + timedelta(microseconds=micros)).replace("+00:00", "Z")


def _iso(value: Any) -> str:
    text: str = value.isoformat()
    head, dot, fraction = text.partition(".")
    zone = "+00:00" if fraction.endswith("+00:00") else ""
    return f"{head}{dot}{fraction.removesuffix(zone).rstrip('0')}{zone}"


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _number(value: float) -> float | str:
    """NaN and infinities, which JSON lacks, become strings as Spark spells them."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
