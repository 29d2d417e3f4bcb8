"""Domain schemas as Polars schemas, and frames converted to them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import narwhals as nw
import polars as pl

from ...domain.errors import BadInput
from ...domain.table.schema import DataType, Schema

_POLARS: dict[str, pl.DataType] = {
    "tinyint": pl.Int8(),
    "smallint": pl.Int16(),
    "int": pl.Int32(),
    "bigint": pl.Int64(),
    "float": pl.Float32(),
    "double": pl.Float64(),
    "string": pl.String(),
    "boolean": pl.Boolean(),
    "binary": pl.Binary(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us", "UTC"),
    "timestamp_ntz": pl.Datetime("us"),
}


def polars_type(data_type: DataType) -> pl.DataType:
    """A column type as Polars names it; timestamps are microseconds in UTC."""
    if data_type.name == "decimal":
        assert data_type.precision is not None
        return pl.Decimal(data_type.precision, data_type.scale or 0)
    return _POLARS[data_type.name]


def polars_schema(schema: Schema) -> pl.Schema:
    """The Polars types of a schema's columns, in order."""
    return pl.Schema({each.name: polars_type(each.type) for each in schema.columns})


def ddl_types(rows: pl.DataFrame) -> dict[str, str]:
    """The DDL types of a frame's columns; a Polars type without a DDL type counts as an array of strings."""
    return {name: _ddl_type(dtype) for name, dtype in rows.schema.items()}


def _ddl_type(dtype: pl.DataType) -> str:
    if isinstance(dtype, pl.Decimal):
        return f"decimal({dtype.precision},{dtype.scale})"
    if isinstance(dtype, pl.Datetime):
        return "timestamp" if dtype.time_zone else "timestamp_ntz"
    return next((name for name, known in _POLARS.items() if known == dtype), "array<string>")


def empty(schema: Schema) -> pl.DataFrame:
    """An empty frame with these columns."""
    return pl.DataFrame(schema=polars_schema(schema))


def stack(schema: Schema, frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Frames stacked vertically in a schema's columns; columns that a frame lacks are null."""
    return pl.concat([empty(schema), *frames], how="diagonal")


def lazy(rows: pl.DataFrame) -> nw.LazyFrame[Any]:
    """Computed rows as a lazy frame."""
    frame: nw.LazyFrame[Any] = nw.from_native(rows.lazy())
    return frame


def collect(frame: nw.LazyFrame[Any]) -> pl.DataFrame:
    """The rows of a frame, computed now."""
    rows: pl.DataFrame = frame.collect(backend="polars").to_native()
    return rows


def conform(rows: pl.DataFrame, schema: Schema, table: str) -> pl.DataFrame:
    """The rows in exactly a schema's columns and types.

    Raises:
        BadInput: a column is missing, or a value does not fit its type.
    """
    if missing := [name for name in schema.names if name not in rows.columns]:
        raise BadInput(f"table {table}: rows lack column {', '.join(missing)}; given: {', '.join(rows.columns)}")
    try:
        return rows.select(pl.col(name).cast(dtype) for name, dtype in polars_schema(schema).items())
    except pl.exceptions.PolarsError as error:
        raise BadInput(f"table {table}: rows do not fit its columns {schema.ddl}; cast them first: {error}") from error
