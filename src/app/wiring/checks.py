"""The checks of ``headwater check`` besides the settings: packages, plain tables and every SQL text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from typing import Any

import narwhals as nw
from attrs import define, field

from ...domain.errors import ConfigError, HeadwaterError, NotSupported, prefix_errors, with_place
from ...domain.ports import QueryEngine
from ...domain.service.base import Service
from ...domain.service.input import PlainTable, ViewOf
from ...domain.source.record_spec import AVRO, PROTOBUF
from ...domain.sql import check_column_names
from ...domain.table.query_columns import check_table_columns, match_names
from ...domain.table.schema import Schema
from ..config import Deployment, PipelineSettings
from ..registry.backends import chosen_backend
from ..registry.packages import is_installed, not_installed
from ..registry.sources import load_source_kind
from ..run.runner import Runner
from ..services.kind import SourceParts, kind_of
from ..services.shapes import no_rows, rows_of
from ..services.texts import Columns, Text
from .blueprints import in_order
from .engine_parts import EngineParts
from .memory import local_bytes
from .sinks import check_sink

_DECODERS = {AVRO: {"fastavro": "avro"}, PROTOBUF: {"google.protobuf": "protobuf", "google.type": "protobuf"}}
"""The packages that decode an encoding, each with the extra that installs it."""


def check_packages(deployment: Deployment) -> None:
    """Refuse a backend, a source or an output whose packages are not installed; no package is imported.

    Raises:
        NotInstalled: names the extra to install.
    """
    backend = chosen_backend(deployment.backend)
    needed = {name: extra for each in backend.engines or (backend,) for name, extra in each.packages.items()}
    names = {name for pipeline in deployment.pipelines.values() for name in pipeline.sources}
    if backend.engines or not backend.computes_on_spark():
        for name in names:
            needed.update(load_source_kind(deployment.sources[name].input.kind).packages)
    for each in {deployment.sources[name].records.encoding for name in names}:
        needed.update(_DECODERS.get(each, {}))
    if any(each.publish for each in deployment.pipelines.values()):
        needed["confluent_kafka"] = "kafka"
    if deployment.telemetry.endpoint:
        needed.update(dict.fromkeys(("opentelemetry.sdk", "opentelemetry.exporter", "requests"), "otel"))
    for package, extra in needed.items():
        if not is_installed(package):
            raise not_installed(package, extra)


def check_clients(deployment: Deployment) -> None:
    """Refuse settings of sources and outputs that only their clients can judge; nothing is asked over the network.

    Raises:
        ConfigError: names the place and the setting.
    """
    for name in dict.fromkeys(name for pipeline in deployment.pipelines.values() for name in pipeline.sources):
        source = deployment.sources[name]
        with prefix_errors(source.place or name):
            load_source_kind(source.input.kind).check(source.input)
    for output in filter(None, (each.publish for each in deployment.pipelines.values())):
        with prefix_errors(output.place or output.topic):
            check_sink(output)


def check_bulk_loads(deployment: Deployment) -> None:
    """Refuse tables to load in bulk that only Spark reads if no epoch is computed by Spark.

    Raises:
        ConfigError: names the place of one that the engine cannot read.
    """
    backend = chosen_backend(deployment.backend)
    if backend.engines or backend.computes_on_spark():
        return
    for pipeline in deployment.pipelines.values():
        if pipeline.bulk is not None:
            sources = EngineParts(deployment, backend, ExitStack()).sources
            try:
                kind_of(pipeline).open_bulk(pipeline.service, pipeline, sources)
            except NotSupported as error:
                raise ConfigError(with_place(error)) from error


def check_queries(deployment: Deployment, services: Mapping[str, Service]) -> Iterator[str]:
    """Compile every SQL text over tables without rows; on the memory backend by its own rules.

    For a backend on Spark, nothing is started: only the names of columns are checked.

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


def describe_engines(deployment: Deployment, services: Mapping[str, Service]) -> Mapping[str, str]:
    """Which engine runs the epochs of each pipeline and why; empty if the deployment has one engine only."""
    engines = chosen_backend(deployment.backend).engines
    if not engines:
        return {}
    small, large = (each.engine_name for each in engines)
    limit = local_bytes(deployment.backend.local_mb) // (1024 * 1024)
    refusals = find_refusals(deployment, services)
    return {
        name: f"{large}, because {small} does not run it: {refusals[name]}"
        if name in refusals
        else f"{small}; {large} for an epoch that needs more than {limit:,} MiB of memory"
        for name in services
    }


def find_refusals(deployment: Deployment, services: Mapping[str, Service]) -> Mapping[str, str]:
    """Why the first engine of a deployment that has two never runs a pipeline, by pipeline; the others are missing."""
    backend = chosen_backend(deployment.backend).engines[0]
    checker = _FirstEngineChecker(deployment, services, EngineParts(deployment, backend, ExitStack()))
    found = {}
    for name in in_order(deployment):
        try:
            checker.check_all(deployment.pipelines[name])
        except (ConfigError, NotSupported) as error:
            found[name] = str(error)
    return found


@define(eq=False)
class _Checker(Columns):
    """Checks pipelines one after the other; a pipeline that reads others comes after them."""

    deployment: Deployment
    services: Mapping[str, Service]
    _published: dict[tuple[str, str], nw.LazyFrame[Any]] = field(init=False, factory=dict)

    @cached_property
    def queries(self) -> QueryEngine | None:
        """The query engine of the backend if it is DuckDB, which needs nothing to be started; else None."""
        from ...adapters.memory.queries import DuckQueries

        backend = chosen_backend(self.deployment.backend)
        if backend.computes_on_spark():
            return None
        try:
            queries = EngineParts(self.deployment, backend, ExitStack()).queries
        except HeadwaterError:
            return None  # it runs no SQL; a pipeline that needs SQL is refused elsewhere
        return queries if isinstance(queries, DuckQueries) else None

    def check(self, pipeline: PipelineSettings) -> Iterator[str]:
        """Compile the texts of one pipeline; see `check_queries`."""
        for text in kind_of(pipeline).texts(pipeline.service, self.services[pipeline.name], self):
            with prefix_errors(text.key):
                rows = self._answer(text)
                if rows is not None:
                    _check_columns(text, rows)
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

    def inputs(self, inputs: Mapping[str, ViewOf | PlainTable]) -> dict[str, nw.LazyFrame[Any] | None]:
        return {name: self._input(name, each) for name, each in inputs.items()}

    def _input(self, name: str, each: ViewOf | PlainTable) -> nw.LazyFrame[Any] | None:
        if isinstance(each, PlainTable):
            return self.plain(f"inputs.{name}", each)
        spec = each.of(self.services[each.pipeline])
        return no_rows(spec.schema) if spec.schema.columns else self._published.get((each.pipeline, spec.name))

    def plain(self, key: str, table: PlainTable) -> nw.LazyFrame[Any] | None:
        from ...adapters.memory.scan import columns_at
        from ...adapters.shared.table_folders import check_exists

        with prefix_errors(key):
            if self.queries is not None:
                return columns_at(table.path, table.format)
            if _is_pattern(table.path):
                return None
            check_exists(table.path, f"a {table.format} table")
        try:
            return columns_at(table.path, table.format)
        except HeadwaterError:
            return None  # Spark may read it


@define(eq=False)
class _FirstEngineChecker(_Checker):
    """Checks by the rules of the first engine of a deployment that has two."""

    parts: EngineParts

    @property
    def queries(self) -> QueryEngine:
        return self.parts.queries

    def check_all(self, pipeline: PipelineSettings) -> None:
        """Open what a pipeline reads, and compile its texts.

        Raises:
            ConfigError: the engine refuses a text.
            NotSupported: the engine does not read a source.
        """
        parts, services = self.parts, self.services
        opened = SourceParts(
            parts.engine,
            lambda: parts.queries,
            lambda each: each.of(services[each.pipeline]),
            parts.sources,
            self.deployment.sources,
            _no_runner,
        )
        kind_of(pipeline).open(pipeline.service, pipeline, opened)
        list(self.check(pipeline))

    def _input(self, name: str, each: ViewOf | PlainTable) -> nw.LazyFrame[Any] | None:
        if isinstance(each, PlainTable):
            raise ConfigError(f"inputs.{name}: each engine tells in its own way whether the table {each.path} changed")
        return super()._input(name, each)


def _no_runner(name: str) -> Runner:
    """Opening what a pipeline reads asks for no other pipeline."""
    raise AssertionError(name)


def _check_columns(text: Text, rows: nw.LazyFrame[Any]) -> None:
    schema = Schema.of(rows)
    if text.table is not None:
        check_table_columns(schema.names, keyed=bool(text.needed))
    match_names(text.needed, schema.names)


def _is_pattern(path: str) -> bool:
    """Whether Spark reads a path as more than a local file or folder: as a URI, or as a pattern for several files."""
    return ":" in path.split("/", 1)[0] or any(letter in path for letter in "*?[{")
