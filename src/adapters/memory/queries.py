"""User-supplied SQL over Polars frames: DuckDB computes it eagerly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import polars as pl

from ...domain.duration import DAY_MICROS, FIRST_MICRO, LAST_MICRO
from ...domain.errors import BadInput, ConfigError, SumOverflow, first_line
from ...domain.ports import QueryEngine
from ...domain.sql import parse_statement
from ...domain.sql.parsing import quote
from ...domain.table.sums import overflow, read_overflow
from ..polars.schema import collect, ddl_types, lazy, polars_schema, without_zone
from .scan import scan_files, state
from .sql.compile import CompiledQuery, compile_query
from .sql.macros import MACROS, message_of

if TYPE_CHECKING:
    import duckdb

_KNOWN_QUERIES = 256
"""The number of queries that need not be parsed and compiled again; a deployment asks the same ones in every epoch."""
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    # Queries see only the given frames: no files, no network, no variables of this program.
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "python_enable_replacements": "false",
}


_SUM_TOO_LARGE = ("Overflow in SUM of DECIMAL", "Overflow in HUGEINT addition")
"""DuckDB's messages if a sum of decimals overflows, on the way or at its end."""


_Types: TypeAlias = "tuple[tuple[str, tuple[tuple[str, str], ...]], ...]"
"""The DDL types of each table's columns."""


_idle: list[duckdb.DuckDBPyConnection] = []
"""Databases that stay open between queries, of all deployments: to open one costs more than a small query.

None holds a table, so a query sees no other query's. Each thread that queries takes one out.
"""


class DuckQueries(QueryEngine):
    """DuckDB over Polars frames. Several threads may query at the same time."""

    def query(self, sql: str, tables: Mapping[str, nw.LazyFrame[Any]], *, lenient: bool = False) -> nw.LazyFrame[Any]:
        statement = _parse(sql)
        statement.check_tables(tables)
        used = {name.lower() for name in statement.tables}
        frames = {name.lower(): collect(frame) for name, frame in tables.items() if name.lower() in used}
        try:
            plan = _compile(
                statement.sql, tuple((name, tuple(ddl_types(rows).items())) for name, rows in frames.items()), lenient
            )
        except ConfigError as error:
            raise ConfigError(f"{quote(sql)}: {error}") from error
        rows = self._run(sql, plan, frames)
        return lazy(_in_range(rows, sql, lenient=lenient))

    def scan(self, path: str, format: str) -> nw.LazyFrame[Any]:  # noqa: A002 - the port's word
        return scan_files(path, format)

    def state(self, path: str, format: str) -> str:  # noqa: A002 - the port's word
        return state(path, format)

    def _run(self, sql: str, plan: CompiledQuery, frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        import duckdb

        try:
            with _database() as database:
                for name, frame in frames.items():
                    # In lower case, as the compiled query has them: DuckDB takes A and a for one, but not Ä and ä.
                    database.register(name, _without_zones(frame).rename(str.lower).to_arrow())
                rows = database.sql(plan.sql).to_arrow_table()
                for name in frames:
                    database.unregister(name)
        except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException) as error:
            raise ConfigError(f"{quote(sql)}: DuckDB does not take it: {first_line(error)}") from error
        except duckdb.Error as error:
            message = message_of(str(error))
            if (found := _overflow(message, sql)) is not None:
                raise found from error
            line, _, _ = message.partition("\n")
            raise BadInput(f"{quote(sql)} failed on a value: {line}") from error
        return _as_declared(pl.DataFrame(rows), plan)


_parse = lru_cache(_KNOWN_QUERIES)(parse_statement)


@lru_cache(_KNOWN_QUERIES)
def _compile(sql: str, tables: _Types, lenient: bool) -> CompiledQuery:  # noqa: FBT001 - a key of the cache
    return compile_query(sql, {name: dict(columns) for name, columns in tables}, lenient=lenient)


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database without tables; it is closed after an error."""
    try:
        database = _idle.pop()
    except IndexError:
        database = _open_database()
    with ExitStack() as closing:
        closing.callback(database.close)
        yield database
        closing.pop_all()
    _idle.append(database)


def _open_database() -> duckdb.DuckDBPyConnection:
    import duckdb

    database = duckdb.connect(config=_SETTINGS)
    database.execute("SET TimeZone = 'UTC'")
    for macro in MACROS:
        database.execute(f"CREATE MACRO {macro}")
    return database


def _in_range(rows: pl.DataFrame, sql: str, *, lenient: bool) -> pl.DataFrame:
    """The rows; a time outside the years 1 to 9999, which `datetime` cannot hold, raises `BadInput`, or is null."""
    for name, dtype in rows.schema.items():
        micros = {pl.Date: DAY_MICROS, pl.Datetime: 1}.get(dtype.base_type())
        if micros is None:
            continue
        outside = ~rows[name].to_physical().is_between(FIRST_MICRO // micros, LAST_MICRO // micros)
        if lenient:
            rows = rows.with_columns(rows[name].set(outside, None))
        elif outside.any():
            raise BadInput(f"{quote(sql)}: column {name!r} has a time outside 0001-01-01 to 9999-12-31; leave it out")
    return rows


def _overflow(message: str, sql: str) -> SumOverflow | None:
    """The error if DuckDB's message says that a sum does not fit; else None."""
    if any(words in message for words in _SUM_TOO_LARGE):
        return overflow(quote(sql), "decimal(38)", {})
    return read_overflow(message)


def _without_zones(frame: pl.DataFrame) -> pl.DataFrame:
    """Instants as wall-clock times in UTC, so that DuckDB needs no time zone to compute with them."""
    nested = {name: dtype for name, dtype in frame.schema.items() if dtype.is_nested()}
    return frame.with_columns(
        pl.col(pl.Datetime(time_zone="*")).dt.convert_time_zone("UTC").dt.replace_time_zone(None),
        *(pl.col(name).cast(without_zone(dtype)) for name, dtype in nested.items()),
    )


def _as_declared(rows: pl.DataFrame, plan: CompiledQuery) -> pl.DataFrame:
    wanted = polars_schema(plan.schema)
    return rows.select(
        _declared(column, name, dtype) for column, (name, dtype) in zip(rows.columns, wanted.items(), strict=True)
    )


def _declared(column: str, name: str, dtype: pl.DataType) -> pl.Expr:
    value = pl.col(column)
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        return value.cast(pl.Datetime("us")).dt.replace_time_zone("UTC").alias(name)
    return value.cast(dtype).alias(name)
