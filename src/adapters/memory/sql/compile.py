"""Compiles a query in Spark's dialect, over tables of known columns, into a DuckDB query with the same results."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from sqlglot import exp

from ....domain.sql.typing import type_query
from ....domain.table.schema import Schema
from .casts import call, place_of, swap
from .renderings import RENDERINGS
from .zeros import normalize_zeros


@frozen
class CompiledQuery:
    """A query for DuckDB.

    Args:
        sql: its text.
        schema: the schema of its rows, with Spark's types; the case of names may differ.
    """

    sql: str
    schema: Schema


def compile_query(sql: str, tables: Mapping[str, Mapping[str, str]], *, lenient: bool = False) -> CompiledQuery:
    """Compile a query that has been parsed once before.

    Args:
        sql: in Spark's dialect.
        tables: the DDL types of each table's columns.
        lenient: whether a value of the result that cannot be computed is null.

    Raises:
        ConfigError: there is no such column or function, or DuckDB would give another result than Spark.
    """
    query = type_query(sql, tables)
    normalize_zeros(query.tree)
    _render(query.tree)
    if lenient:
        for each in query.tree.selects:
            if not isinstance(each.unalias(), exp.Column):
                each.set("this", call("try", each.this))
    return CompiledQuery(query.tree.sql(dialect="duckdb"), query.schema)


def _render(tree: exp.Expr) -> None:
    for node in reversed(list(tree.walk(bfs=True))):
        render = RENDERINGS.get(type(node))
        if render is None:
            continue
        place, found = place_of(node), node.type
        made = render(node)
        made.type = found
        swap(node, made, place)
