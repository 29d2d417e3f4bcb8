"""The checks of ``headwater check`` besides the settings: packages, plain tables and every SQL text."""

from __future__ import annotations

from datetime import date
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from ...domain.errors import ConfigError, HeadwaterError
from ...domain.service.cumulate import CumulateSettings
from ...domain.service.materialized_view import ALL, MaterializedView, ViewSettings
from ...domain.service.retraction import RetractionSettings
from ...domain.service.snapshots import PlainTable, SnapshotSettings
from ...domain.service.wide_table import WideTableSettings
from ...domain.sql import check_column_names, parse_statement, with_parameters
from ...domain.table.schema import Schema
from ..registry.backends import load_backend
from ..registry.packages import not_installed
from ..registry.sources import load_source_kind
from ..run.clock import SystemClock
from .container import Container, in_order, prefix_errors, view_of
from .shapes import no_rows, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import narwhals as nw

    from ...domain.ports import QueryEngine
    from ...domain.service.base import Service
    from ...domain.service.measures import Measure
    from ...domain.service.retraction import PastTable
    from ...domain.service.snapshots import Input
    from ...domain.sql import Expression
    from ..config import Deployment, PipelineSettings

_BATCH = "batch"
_SOME_DAY = date(2000, 1, 1)


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


def check_packages(deployment: Deployment) -> None:
    """Refuse a backend, a source or an output whose packages are not installed; no package is imported.

    Raises:
        NotInstalled: names the extra to install.
    """
    backend = load_backend(deployment.backend.name)
    needed = dict(backend.packages)
    if not backend.spark_settings():
        for name in {name for pipeline in deployment.pipelines.values() for name in pipeline.sources}:
            needed.update(load_source_kind(deployment.sources[name].input.kind).packages)
    if any(each.publish for each in deployment.pipelines.values()):
        needed["confluent_kafka"] = "kafka"
    for package, extra in needed.items():
        if find_spec(package) is None:
            raise not_installed(package, extra)


def check_queries(deployment: Deployment, services: Mapping[str, Service]) -> Iterator[str]:
    """Compile every SQL text over tables without rows; on the memory backend by its own rules.

    For a backend on Spark, nothing is started: only the names of columns are checked.

    Args:
        deployment: to check.
        services: of its pipelines, by name.

    Yields:
        A message for each text that can only be checked at run time.

    Raises:
        ConfigError: a text is refused, or a plain table does not exist.
    """
    checker = _Checker(deployment, services)
    for name in in_order(deployment):
        pipeline = deployment.pipelines[name]
        with prefix_errors(pipeline.place or name):
            yield from checker.check(pipeline)


@define(eq=False)
class _Checker:
    """Checks pipelines one after the other; a pipeline that reads others comes after them.

    Args:
        deployment: to check.
        services: of its pipelines, by name.
    """

    deployment: Deployment
    services: Mapping[str, Service]
    _published: dict[tuple[str, str], nw.LazyFrame[Any]] = field(init=False, factory=dict)

    @cached_property
    def queries(self) -> QueryEngine | None:
        """The query engine of the backend if it is DuckDB, which needs nothing to be started; else None."""
        from ...adapters.memory.queries import DuckQueries

        if load_backend(self.deployment.backend.name).spark_settings():
            return None
        try:
            queries = Container(self.deployment, SystemClock()).queries
        except HeadwaterError:
            return None  # it runs no SQL; a pipeline that needs SQL is refused elsewhere
        return queries if isinstance(queries, DuckQueries) else None

    def check(self, pipeline: PipelineSettings) -> Iterator[str]:
        """Compile the texts of one pipeline; see `check_queries`."""
        for text in self._texts(pipeline):
            with prefix_errors(text.key):
                rows = self._answer(text)
                if rows is not None:
                    _check_needed(text, rows)
                elif text.unknown:
                    unknown = ", ".join(text.unknown)
                    yield f"{pipeline.name}: {text.key}: the columns of {unknown} are known only when it runs"
            if text.table and rows is not None:
                self._published[pipeline.name, text.table] = rows

    def _answer(self, text: Text) -> nw.LazyFrame[Any] | None:
        """The result of a text as a frame without rows; None if only the engine knows its columns."""
        if text.unknown:
            return None
        tables = {name: rows for name, rows in text.tables.items() if rows is not None}
        if self.queries is not None:
            return self.queries.query(text.sql, tables)
        check_column_names(text.sql, {name: rows.collect_schema().names() for name, rows in tables.items()})
        try:
            return rows_of(text.sql, tables)
        except HeadwaterError:
            return None  # Spark may run what memory refuses

    def _texts(self, pipeline: PipelineSettings) -> Iterator[Text]:
        settings = pipeline.service
        if isinstance(settings, SnapshotSettings):
            tables = self._inputs(settings.inputs)
            for name, sql in settings.tables.items():
                yield Text(f"tables.{name}", sql, tables, settings.keys.get(name, ()), table=name)
        elif isinstance(settings, ViewSettings):
            yield from self._of_view(settings)
        elif isinstance(settings, RetractionSettings | CumulateSettings):
            yield from _of_measures(settings.measures, settings.schema)
            if isinstance(settings, RetractionSettings) and settings.past:
                yield from self._of_past(settings.past)
        elif isinstance(settings, WideTableSettings):
            yield from _of_topics(settings)

    def _of_view(self, settings: ViewSettings) -> Iterator[Text]:
        service, tables = self.services[settings.pipeline], self._inputs(settings.inputs)
        assert isinstance(service, MaterializedView)
        yield Text("sql", settings.sql, tables, service.views[0].schema.names)
        for name, sql in settings.changes.items():
            if sql != ALL:
                yield Text(f"changes.{name}", sql, tables, service.routes.scope)

    def _of_past(self, past: PastTable) -> Iterator[Text]:
        tables = {name: self._plain(f"past.tables.{name}", each) for name, each in past.tables.items()}
        if past.sql is not None:
            yield Text("past.sql", with_parameters(past.sql, {"cut": _SOME_DAY}), tables)

    def _inputs(self, inputs: Mapping[str, Input]) -> dict[str, nw.LazyFrame[Any] | None]:
        return {name: self._input(name, each) for name, each in inputs.items()}

    def _input(self, name: str, each: Input) -> nw.LazyFrame[Any] | None:
        if isinstance(each, PlainTable):
            return self._plain(f"inputs.{name}", each)
        spec = view_of(each, self.services)
        return no_rows(spec.schema) if spec.schema.columns else self._published.get((each.pipeline, spec.name))

    def _plain(self, key: str, table: PlainTable) -> nw.LazyFrame[Any] | None:
        """A plain table without its rows; None if only the engine can read it.

        Raises:
            ConfigError: the path does not exist.
        """
        from ...adapters.memory.scan import columns_at

        with prefix_errors(key):
            if self.queries is not None:
                return columns_at(table.path, table.format)
            if _is_pattern(table.path):
                return None
            if not Path(table.path).exists():
                raise ConfigError(f"there is nothing at {table.path}; put a {table.format} table there")
        try:
            return columns_at(table.path, table.format)
        except HeadwaterError:
            return None  # Spark may read it


def _check_needed(text: Text, rows: nw.LazyFrame[Any]) -> None:
    schema = Schema.of(rows)
    if missing := [name for name in text.needed if name.lower() not in {each.lower() for each in schema.names}]:
        raise ConfigError(f"the query has no column {missing[0]!r}; it has: {', '.join(schema.names)}")


def _of_measures(measures: Iterable[Measure], schema: Schema) -> Iterator[Text]:
    for measure in measures:
        for _, expression in measure.expressions:
            yield _of_row(f"measures.{measure.name}", expression, schema)


def _of_topics(settings: WideTableSettings) -> Iterator[Text]:
    for topic in settings.topics:
        for each in (*topic.columns, *topic.sequence):
            yield _of_row(f"topics.{topic.name}.{each.name}", each.expression, topic.schema)
        if topic.where:
            yield _of_row(f"topics.{topic.name}.where", topic.where, topic.schema)


def _of_row(key: str, expression: Expression, schema: Schema) -> Text:
    sql = f"SELECT {expression.sql} AS value FROM {_BATCH}"  # noqa: S608 - parsed, and quoted
    return Text(key, sql, {_BATCH: no_rows(schema)})


def _is_pattern(path: str) -> bool:
    """Whether Spark reads a path as more than a local file or folder: as a URI, or as a pattern for several files."""
    return ":" in path.split("/", 1)[0] or any(letter in path for letter in "*?[{")
