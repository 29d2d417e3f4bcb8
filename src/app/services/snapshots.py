"""Snapshots, as a kind of service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...domain.errors import ConfigError
from ...domain.ledger.retention import Retention
from ...domain.ports import Source
from ...domain.service.input import ViewOf
from ...domain.service.snapshots import WHEN, Input, Snapshots, SnapshotSettings, parse_query
from ...domain.table.view_spec import ViewSpec
from ..deployment.deployment import PipelineSettings, SourceSettings
from ..document.section import Section
from ..document.value_types import DURATION, SOME_TEXTS, TABLE, TEXT, choice, keys_of, named, or_table
from ..run.inputs import PipelineInputs
from .inputs import describe_inputs, view_named
from .keys import ANY_PIPELINE, PLAIN_TABLE, plain_table
from .kind import Parts, ServiceKind, SourceParts
from .texts import Columns, Text


class SnapshotsKind(ServiceKind[SnapshotSettings, Snapshots]):
    """Tables that a batch stage rewrites, published together as one version."""

    keys = ANY_PIPELINE | keys_of(
        SnapshotSettings,
        inputs=named(or_table(TEXT, PLAIN_TABLE)),
        tables=named(TEXT),
        every=DURATION,
        when=choice(*WHEN),
        keys=TABLE,
        longest_query=DURATION,
    )
    expires_each_epoch = True

    def parse(self, table: Section, sources: Mapping[str, SourceSettings]) -> PipelineSettings:  # noqa: ARG002 - it reads pipelines
        inputs = {name: _input(table, name) for name in table["inputs"]}
        own = {
            **table.fields(SnapshotSettings),
            "inputs": inputs,
            "tables": {name: _query(table, name, inputs) for name in table["tables"]},
            "keys": {name: table.read(SOME_TEXTS, "keys", name) for name in table["keys"]},
        }
        return PipelineSettings(None, table.build(lambda: SnapshotSettings(table.name, **own)))

    def build(self, settings: SnapshotSettings, parts: Parts) -> Snapshots:
        return Snapshots(settings, parts.engine, parts.queries)

    def open(self, settings: SnapshotSettings, pipeline: PipelineSettings, parts: SourceParts) -> Source:  # noqa: ARG002 - it has no source
        """Open views of other pipelines and plain tables, on a schedule."""
        return PipelineInputs(settings, settings.schedule, parts.runner, parts.queries, parts.generation)

    def reads(self, settings: SnapshotSettings) -> Mapping[str, ViewOf]:
        return {name: each for name, each in settings.inputs.items() if isinstance(each, ViewOf)}

    def check(self, settings: SnapshotSettings, views: Mapping[str, ViewSpec], retention: Retention) -> None:  # noqa: ARG002 - any view is fine
        """Refuse a `longest_query` that the retention does not allow."""
        if settings.longest_query is not None:
            every = None if settings.schedule.by_watermark else settings.every
            try:
                retention.check_query(settings.longest_query, every)
            except ConfigError as error:
                raise ConfigError(f"longest_query: {error}") from error

    def texts(self, settings: SnapshotSettings, service: Snapshots, columns: Columns) -> Iterator[Text]:  # noqa: ARG002 - settings say all
        tables = columns.inputs(settings.inputs)
        for name, sql in settings.tables.items():
            yield Text(f"tables.{name}", sql, tables, settings.keys.get(name, ()), table=name)

    def describe_inputs(self, settings: SnapshotSettings, pipeline: PipelineSettings) -> str:  # noqa: ARG002 - it has no source
        return describe_inputs(settings.inputs)


def _query(table: Section, name: str, inputs: Iterable[str]) -> str:
    sql = table.text("tables", name)
    table.build(lambda: parse_query(sql, inputs), "tables", name)
    return sql


def _input(table: Section, name: str) -> Input:
    if table.is_table("inputs", name):
        return plain_table(table.inner(PLAIN_TABLE, "inputs", name))
    return view_named(table.text("inputs", name))
