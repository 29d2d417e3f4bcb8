"""Reads rows out of an engine, part by part, with JSON values that the JSON sources can read back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import narwhals as nw
import polars as pl

from ...domain.ports import FrameEngine, FrameFunctions
from ...domain.table.schema import DataType, Schema

Cell: TypeAlias = "str | int | float | bool | None"
"""A value as JSON has it."""

_MICROS = "%Y-%m-%dT%H:%M:%S%.6f"
_ZEROS = r"\.?0*$"


def json_rows(frame: nw.LazyFrame[Any], schema: Schema, engine: FrameEngine) -> Iterator[list[Cell]]:
    """The rows of `cell_frames`, each with its values; NaN and infinities are strings."""
    for cells in cell_frames(frame, schema, engine):
        columns = (map(show_number, column) if column.dtype.is_float() else column for column in cells)
        yield from map(list, zip(*columns, strict=True))


def cell_frames(frame: nw.LazyFrame[Any], schema: Schema, engine: FrameEngine) -> Iterator[pl.DataFrame]:
    """The rows of a frame in its order, part by part, values in the order of a schema.

    Timestamps become ISO-8601 in UTC, dates ISO-8601, decimals strings, binary Base64; null stays null.
    """
    converted = [_convert(column.name, column.type) for column in schema.columns]
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
        if column.type.name == "timestamp":
            source = f"_micros_{at}"
            frame = engine.wall_micros(frame, column.name, into=source, zone="UTC")
        picked.append(nw.col(source).alias(column.name))
    return frame.select(*picked)


def _cell_type(kind: DataType) -> pl.DataType:
    if kind.name in {"float", "double"}:
        return pl.Float64()
    return pl.Boolean() if kind.name == "boolean" else pl.Int64() if kind.name.endswith("int") else pl.String()


def _convert(name: str, kind: DataType) -> pl.Expr:
    value = pl.col(name)
    match kind.name:
        case "timestamp":
            return _without_zeros(value.cast(pl.Datetime("us"))) + "Z"
        case "timestamp_ntz":
            return _without_zeros(value)
        case "date":
            return value.dt.to_string("%Y-%m-%d")
        case "decimal":
            return value.cast(pl.String)
        case "binary":
            return value.bin.encode("base64")
        case _:
            return value


def _without_zeros(moment: pl.Expr) -> pl.Expr:
    """A moment as text, without the zeros at the end of its fraction."""
    return moment.dt.to_string(_MICROS).str.replace(_ZEROS, "")


def show_number(value: float | None) -> float | str | None:
    """The same number; NaN and infinities, which JSON lacks, become strings as Spark spells them."""
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
