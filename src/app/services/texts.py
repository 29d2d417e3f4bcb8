"""The SQL texts of pipelines, as ``headwater check`` compiles them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import narwhals as nw
from attrs import frozen

from ...domain.service.input import PlainTable, ViewOf
from ...domain.sql import Expression, parse_statement
from ...domain.table.schema import Schema
from .shapes import no_rows

if TYPE_CHECKING:
    from ...domain.service.measures import Measure

_BATCH = "batch"


@frozen
class Text:
    """One SQL text of a pipeline.

    Args:
        key: its key in the pipeline's settings.
        sql: the query.
        tables: the tables that it reads, without rows, by name; None if the columns are known only at run time.
        needed: columns that its result must have.
        table: the published table that it defines; None for other texts.
    """

    key: str
    sql: str
    tables: Mapping[str, nw.LazyFrame[Any] | None]
    needed: tuple[str, ...] = ()
    table: str | None = None

    @property
    def unknown(self) -> tuple[str, ...]:
        """The tables that it reads whose columns are not known."""
        used = {name.lower() for name in parse_statement(self.sql).tables}
        return tuple(name for name, rows in self.tables.items() if rows is None and name.lower() in used)


class Columns(Protocol):
    """Knows the columns of the inputs of texts."""

    def inputs(self, inputs: Mapping[str, ViewOf | PlainTable]) -> Mapping[str, nw.LazyFrame[Any] | None]:
        """Return inputs as frames without rows, by name; None for those whose columns are known only at run time."""

    def plain(self, key: str, table: PlainTable) -> nw.LazyFrame[Any] | None:
        """Return a plain table without its rows; None if only the engine can read it.

        Raises:
            ConfigError: the path does not exist; the message begins with the key.
        """


def of_measures(measures: Iterable[Measure], schema: Schema) -> Iterator[Text]:
    """Yield the expressions of measures over rows of a schema, without those that are a column of it."""
    columns = {name.lower() for name in schema.names}
    for measure in measures:
        for _, expression in measure.expressions:
            if expression.bare is None or expression.bare.lower() not in columns:
                yield of_row(f"measures.{measure.name}", expression, schema)


def of_row(key: str, expression: Expression, schema: Schema) -> Text:
    """Return the text of an expression over rows of a schema."""
    sql = f"SELECT {expression.sql} AS value FROM {_BATCH}"  # noqa: S608 - parsed, and quoted
    return Text(key, sql, {_BATCH: no_rows(schema)})
