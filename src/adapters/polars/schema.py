"""Domain schemas as Polars schemas, and frames converted to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import narwhals as nw
import polars as pl
from narwhals.dtypes import DType

from ...domain.errors import BadInput, ConfigError
from ...domain.sql.types import OTHER
from ...domain.table.schema import DataType, Schema


@lru_cache
def polars_type(data_type: DataType) -> pl.DataType:
    """A column type as Polars names it; timestamps are microseconds in UTC."""
    return nw.Schema({"": data_type.narwhals}).to_polars()[""]


def polars_schema(schema: Schema) -> pl.Schema:
    """The Polars types of a schema's columns, in order."""
    return pl.Schema({each.name: polars_type(each.type) for each in schema.columns})


def ddl_types(rows: pl.DataFrame) -> dict[str, str]:
    """The DDL types of a frame's columns; that of a type that tables do not have is `OTHER`."""
    return {name: _ddl_type(dtype) for name, dtype in nw.from_native(rows).schema.items()}


def _ddl_type(dtype: DType) -> str:
    try:
        return DataType.of(dtype).ddl
    except ConfigError:
        return OTHER.ddl


def without_zone(dtype: pl.DataType) -> pl.DataType:
    """A type in which times have no zone."""
    return _mapped(dtype, lambda each: pl.Datetime(each.time_unit) if isinstance(each, pl.Datetime) else each)


def in_micros(dtype: pl.DataType) -> pl.DataType:
    """A type with numbers in the place of instants."""
    return _mapped(dtype, lambda each: pl.Int64() if isinstance(each, pl.Datetime) and each.time_zone else each)


def cut_to_micros(dtype: pl.DataType) -> pl.DataType:
    """A type in which times are microseconds."""
    return _mapped(dtype, lambda each: pl.Datetime("us", each.time_zone) if isinstance(each, pl.Datetime) else each)


def _mapped(dtype: pl.DataType, leaf: Callable[[pl.DataType], pl.DataType]) -> pl.DataType:
    """A type with other types in the place of those inside that are not nested."""
    if isinstance(dtype, pl.List):
        return pl.List(_mapped(instance_of(dtype.inner), leaf))
    if isinstance(dtype, pl.Struct):
        return pl.Struct({each.name: _mapped(instance_of(each.dtype), leaf) for each in dtype.fields})
    return leaf(dtype)


def instance_of(dtype: Any) -> pl.DataType:
    """The type; Polars has some types of nested values as classes."""
    found: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return found


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


def map_rows(
    frame: nw.LazyFrame[Any],
    function: Callable[[pl.DataFrame], pl.DataFrame],
    added: Mapping[str, pl.DataType] = MappingProxyType({}),
) -> nw.LazyFrame[Any]:
    """The rows that a function makes of a frame's rows: the same columns, and `added`."""
    native: pl.LazyFrame = nw.to_native(frame)
    # Filters on the result must not be pushed down to the rows.
    pushed = dict.fromkeys(("predicate_pushdown", "projection_pushdown", "slice_pushdown"), False)
    return nw.from_native(native.map_batches(function, schema={**native.collect_schema(), **added}, **pushed))
