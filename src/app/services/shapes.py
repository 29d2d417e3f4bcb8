"""Finds the columns and types of queries by running them on tables without rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen

from ...domain.table.schema import DataType, Schema

if TYPE_CHECKING:
    from ...domain.service.materialized_view import SourceExpr


def columns_of(sql: str, inputs: Mapping[str, Schema]) -> Schema:
    """Return the columns of a query.

    Raises:
        ConfigError: a column or function is unknown, or a column has a type that tables do not support.
    """
    return Schema.of(rows_of(sql, {name: no_rows(schema) for name, schema in inputs.items()}))


def rows_of(sql: str, tables: Mapping[str, nw.LazyFrame[Any]]) -> nw.LazyFrame[Any]:
    """Run a query over Polars frames; the result has the types of Spark's result.

    Raises:
        ConfigError: a column or function is unknown.
    """
    # DuckDB for every backend, so that no engine is started.
    from ...adapters.memory.queries import DuckQueries

    return DuckQueries().query(sql, tables)


def no_rows(schema: Schema) -> nw.LazyFrame[Any]:
    """Return a Polars frame with these columns and no rows."""
    from ...adapters.polars.schema import empty, lazy

    return lazy(empty(schema))


@frozen
class ValueTypes:
    """Finds the types of expressions over rows of the inputs."""

    inputs: Mapping[str, Schema]

    def __call__(self, name: str, expr: SourceExpr) -> DataType:
        """Return the type of an expression over rows of an input."""
        if expr.column:
            return self.inputs[name][expr.column]
        sql = f"SELECT {expr.sql} AS value FROM {name}"  # noqa: S608 - parsed, and quoted
        return columns_of(sql, {name: self.inputs[name]})["value"]
