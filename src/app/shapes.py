"""Columns and types of queries, found out on tables without rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from ..domain.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..domain.materialized_view import Term
    from ..domain.schema import DataType


def columns_of(sql: str, inputs: Mapping[str, Schema]) -> Schema:
    """The columns of a query.

    Raises:
        ConfigError: it knows no such column or function, or no table has columns of such a type.
    """
    # Whatever the backend: nothing is to start, and its answer has the types that Spark's has.
    from ..adapters.memory.queries import DuckQueries
    from ..adapters.memory.schema import empty, lazy

    return Schema.of(DuckQueries().query(sql, {name: lazy(empty(schema)) for name, schema in inputs.items()}))


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
