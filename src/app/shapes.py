"""Columns and types of queries, found out on tables without rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from ..domain.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    import narwhals as nw

    from ..domain.materialized_view import Term
    from ..domain.schema import DataType


def columns_of(sql: str, inputs: Mapping[str, Schema]) -> Schema:
    """The columns of a query.

    Raises:
        ConfigError: it knows no such column or function, or no table has columns of such a type.
    """
    return Schema.of(rows_of(sql, {name: no_rows(schema) for name, schema in inputs.items()}))


def rows_of(sql: str, tables: Mapping[str, nw.LazyFrame[Any]]) -> nw.LazyFrame[Any]:
    """The rows of a query over Polars frames, of the types that Spark's answer has.

    Raises:
        ConfigError: it knows no such column or function.
    """
    # Whatever the backend: nothing is to start.
    from ..adapters.memory.queries import DuckQueries

    return DuckQueries().query(sql, tables)


def no_rows(schema: Schema) -> nw.LazyFrame[Any]:
    """A Polars frame of these columns, without rows."""
    from ..adapters.memory.schema import empty, lazy

    return lazy(empty(schema))


@frozen
class ValueTypes:
    """Types of values of inputs' rows."""

    inputs: Mapping[str, Schema]

    def __call__(self, name: str, term: Term) -> DataType:
        """The type of a value of an input's rows."""
        if term.column:
            return self.inputs[name][term.column]
        sql = f"SELECT {term.sql} AS value FROM {name}"  # noqa: S608 - parsed, and quoted
        return columns_of(sql, {name: self.inputs[name]})["value"]
