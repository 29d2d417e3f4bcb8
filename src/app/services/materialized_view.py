"""Materialized views, as a kind of service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import narwhals as nw

from ...domain.errors import ConfigError, HeadwaterError, prefix_errors
from ...domain.ledger.retention import Retention
from ...domain.ports import Source
from ...domain.service.input import ViewOf
from ...domain.service.materialized_view import (
    ALIGN,
    ALL,
    MaterializedView,
    Shapes,
    ViewSettings,
    check_declared,
    check_query,
)
from ...domain.table.query_columns import match_names
from ...domain.table.schema import Schema
from ...domain.table.view_spec import ViewSpec
from ..deployment.deployment import PipelineSettings, SourceSettings
from ..document.section import Section
from ..document.value_types import DURATION, SCHEMA, SOME_TEXTS, TEXT, choice, keys_of, named, one_text
from ..run.view_inputs import ViewInputs
from .explain_view import explain_view
from .inputs import describe_inputs, view_named
from .keys import ANY_STREAM
from .kind import Parts, ServiceKind, SourceParts
from .shapes import ValueTypes, columns_of, no_rows, rows_of
from .texts import Columns, Text


class MaterializedViewKind(ServiceKind[ViewSettings, MaterializedView]):
    """A query over views of other pipelines, kept up to date by the changes of these."""

    keys = ANY_STREAM | keys_of(
        ViewSettings,
        inputs=named(TEXT),
        key=SOME_TEXTS,
        sql=one_text("a query such as 'SELECT state, orders FROM states'"),
        changes=named(TEXT),
        schema=SCHEMA,
        align=choice(*ALIGN),
        lag=DURATION,
    )

    def parse(self, table: Section, sources: Mapping[str, SourceSettings]) -> PipelineSettings:  # noqa: ARG002 - it reads pipelines
        inputs = {name: view_named(table.text("inputs", name)) for name in table["inputs"]}
        table.build(lambda: check_query(table["sql"], inputs), "sql")
        own = {
            **table.fields(ViewSettings),
            "inputs": inputs,
            "changes": {name: _change(table, name, inputs) for name in table["changes"]},
        }
        return PipelineSettings(None, table.build(lambda: ViewSettings(table.name, **own)))

    def build(self, settings: ViewSettings, parts: Parts) -> MaterializedView:
        queries = parts.queries
        inputs = {name: parts.view(each) for name, each in settings.inputs.items()}
        columns = {name: each.schema for name, each in inputs.items()}
        schema = _view_columns(settings, columns)
        service = MaterializedView(settings, Shapes(schema, inputs, ValueTypes(columns)), parts.engine, queries)
        for name, sql in settings.changes.items():
            rows = None if sql == ALL else _result(sql, columns)
            if rows is not None:
                with prefix_errors(f"changes.{name}"):
                    match_names(service.routes.scope, rows.collect_schema().names())
        return service

    def open(self, settings: ViewSettings, pipeline: PipelineSettings, parts: SourceParts) -> Source:  # noqa: ARG002 - it has no source
        """Open views of other pipelines, as of one event time."""
        return ViewInputs(settings, parts.runner, parts.generation)

    def reads(self, settings: ViewSettings) -> Mapping[str, ViewOf]:
        return settings.inputs

    def check(self, settings: ViewSettings, views: Mapping[str, ViewSpec], retention: Retention) -> None:  # noqa: ARG002 - for others
        """Refuse inputs whose changes cannot be read, or that show no moment which the others could be read at."""
        for name, spec in views.items():
            pipeline = settings.inputs[name].pipeline
            if settings.aligned and spec.undated:
                raise ConfigError(
                    f"inputs.{name}: rows of {pipeline!r} as of the moment of other inputs would be wrong:"
                    f' {spec.undated}; or set align = "newest" here'
                )
            if settings.aligned and spec.moments is False:
                raise ConfigError(
                    f"inputs.{name}: view {pipeline!r} shows its inputs at their newest publication, so it cannot be"
                    f' read as of the moment of other inputs: set align = "before" in pipelines.{pipeline}, or'
                    ' align = "newest" here'
                )
            if not (spec.key and spec.schema.columns):
                raise ConfigError(
                    f"inputs.{name}: view {spec.name!r} of {settings.inputs[name].pipeline!r} has no key, or no columns"
                    " before it is published, so its changes cannot be read; read a view with a key, or use snapshots"
                )

    def texts(self, settings: ViewSettings, service: MaterializedView, columns: Columns) -> Iterator[Text]:
        tables = columns.inputs(settings.inputs)
        yield Text("sql", settings.sql, tables, service.views[0].schema.names)
        for name, sql in settings.changes.items():
            if sql != ALL:
                yield Text(f"changes.{name}", sql, tables, service.routes.scope)

    def describe_inputs(self, settings: ViewSettings, pipeline: PipelineSettings) -> str:  # noqa: ARG002 - it has no source
        return describe_inputs(settings.inputs)

    def explain(self, settings: ViewSettings, service: MaterializedView) -> Iterator[str]:  # noqa: ARG002 - the service has them
        """Yield how changes of its inputs recompute its rows; see `ServiceKind.explain`."""
        yield from explain_view(service)


def _view_columns(settings: ViewSettings, inputs: Mapping[str, Schema]) -> Schema:
    """The declared columns of a view, or else those of its query.

    Raises:
        ConfigError: the query's columns cannot be found and are not declared, or they are declared otherwise.
    """
    if settings.schema is None:
        return columns_of(settings.sql, inputs)
    if (rows := _result(settings.sql, inputs)) is not None:
        with prefix_errors("schema"):
            check_declared(settings.schema, rows)
    return settings.schema


def _result(sql: str, inputs: Mapping[str, Schema]) -> nw.LazyFrame[Any] | None:
    """The result of a query over inputs without rows; None if Spark alone may run it."""
    try:
        return rows_of(sql, {name: no_rows(schema) for name, schema in inputs.items()})
    except HeadwaterError:
        return None


def _change(table: Section, name: str, inputs: Mapping[str, ViewOf]) -> str:
    sql = table.text("changes", name)
    if sql != ALL:
        table.build(lambda: check_query(sql, inputs), "changes", name)
    return sql
