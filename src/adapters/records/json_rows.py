"""Reads rows out of an engine, part by part, with JSON values that the JSON sources can read back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import narwhals as nw
import polars as pl

from ...domain.ports import FrameEngine, FrameFunctions
from ...domain.source.conversion import show_value
from ...domain.table.schema import FLOATS, DataType, Schema

Cell: TypeAlias = "str | int | float | bool | list[Cell] | dict[str, Cell] | None"
"""A value as JSON has it."""

_MICROS = "%Y-%m-%dT%H:%M:%S%.6f"
_ZEROS = r"\.?0*$"


def json_rows(frame: nw.LazyFrame[Any], schema: Schema, engine: FrameEngine) -> Iterator[list[Cell]]:
    """The rows of `cell_frames`, each with its values; NaN and infinities are strings."""
    for cells in cell_frames(frame, schema, engine):
        # Those that are, or may have inside, floating-point numbers.
        numbers = {name for name, dtype in cells.schema.items() if dtype.is_float() or dtype.is_nested()}
        columns = (map(show_value, column.to_list()) if column.name in numbers else column for column in cells)
        yield from map(list, zip(*columns, strict=True))


def cell_frames(frame: nw.LazyFrame[Any], schema: Schema, engine: FrameEngine) -> Iterator[pl.DataFrame]:
    """The rows of a frame in its order, part by part, values in the order of a schema.

    Timestamps become ISO-8601 in UTC, dates ISO-8601, decimals strings, binary Base64; null stays null. -0.0 becomes
    0.0, as in changes, so that equal values are one text. Nested values are lists and structs of such values. Without
    columns there are no rows: a table whose versions each have their own columns has none before the first version.
    """
    if not schema.columns:
        return
    converted = [_convert(pl.col(column.name), column.type).alias(column.name) for column in schema.columns]
    for part in engine.parts(_plain(frame, schema, engine)):
        yield part.to_polars().select(converted)


def cells_of(rows: Iterable[Sequence[Cell]], schema: Schema) -> pl.DataFrame:
    """Rows of JSON values, as a part of `cell_frames`."""
    types = {column.name: _cell_type(column.type) for column in schema.columns}
    return pl.DataFrame(list(rows), types, orient="row")


def _plain(frame: nw.LazyFrame[Any], schema: Schema, engine: FrameFunctions) -> nw.LazyFrame[Any]:
    """The columns in order, timestamps as microseconds: engines would convert times with the process's time zone."""
    picked = []
    for at, column in enumerate(schema.columns):
        source = column.name
        if any(kind.name == "timestamp" for _, kind in column.type.leaves()):
            source = f"_micros_{at}"
            frame = engine.wall_micros(frame, column.name, into=source, zone="UTC")
        picked.append(nw.col(source).alias(column.name))
    return frame.select(*picked)


def _cell_type(kind: DataType) -> pl.DataType:
    if kind.element is not None:
        return pl.List(_cell_type(kind.element))
    if kind.fields:
        return pl.Struct({each.name: _cell_type(each.type) for each in kind.fields})
    if kind.name in FLOATS:
        return pl.Float64()
    return pl.Boolean() if kind.name == "boolean" else pl.Int64() if kind.name.endswith("int") else pl.String()


def _convert(value: pl.Expr, kind: DataType) -> pl.Expr:
    if kind.element is not None:
        return value.list.eval(_convert(pl.element(), kind.element))
    if kind.fields:
        fields = (_convert(value.struct.field(each.name), each.type).alias(each.name) for each in kind.fields)
        return pl.when(value.is_not_null()).then(pl.struct(*fields))
    return _CONVERTED[kind.name](value) if kind.name in _CONVERTED else value


def _without_zeros(moment: pl.Expr) -> pl.Expr:
    """A moment as text, without the zeros at the end of its fraction."""
    return moment.dt.to_string(_MICROS).str.replace(_ZEROS, "")


_CONVERTED: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "timestamp": lambda value: _without_zeros(value.cast(pl.Datetime("us"))) + "Z",
    "timestamp_ntz": _without_zeros,
    "date": lambda value: value.dt.to_string("%Y-%m-%d"),
    "decimal": lambda value: value.cast(pl.String),
    "binary": lambda value: value.bin.encode("base64"),
    **dict.fromkeys(FLOATS, lambda value: pl.when(value != 0).then(value).otherwise(value.abs())),
}
