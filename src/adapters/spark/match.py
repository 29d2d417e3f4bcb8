"""Filters the matching rows of a read."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ...domain.table.change import Between, Matching
from ...domain.table.schema import DataType, Schema
from ..shared.match import literal
from .schema import literal_column, named
from .size import fits_one_task


def only_matching(rows: DataFrame, wanted: Matching, schema: Schema) -> DataFrame:
    """The matching rows."""
    for name, values in wanted.within.items():
        rows = rows.filter(_within(name, values, schema[name]))
    if wanted.keys is None:
        return rows
    keys = wanted.keys.to_native()
    if fits_one_task(rows, keys):
        rows, keys = rows.coalesce(1), F.broadcast(keys)
    return rows.join(keys, list(keys.columns), "left_semi")


def _within(name: str, values: tuple[Any, ...] | Between, data_type: DataType) -> Column:
    if isinstance(values, Between):
        return named(name).between(_constant(values.low, data_type), _constant(values.high, data_type))
    return named(name).isin(*(_constant(value, data_type) for value in values)) if values else F.lit(False)


def _constant(value: Any, data_type: DataType) -> Column:
    return literal_column(literal(value, data_type), data_type)
