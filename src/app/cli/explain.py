"""The output of ``headwater check``: tables and views of a deployment. It shows no value from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...domain.duration import show_duration
from ...domain.service.materialized_view import ViewSettings
from ...domain.service.retraction import AUTO, NONE, RetractionSettings
from ...domain.service.snapshots import PlainTable, SnapshotSettings
from ...domain.table.spec import Layout
from ..read.keyed_views import feed_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from ...domain.ledger.retention import Retention
    from ...domain.service.base import Service
    from ...domain.service.feed import Feed
    from ...domain.service.input import ViewOf
    from ...domain.table.spec import TableSpec
    from ...domain.table.view_spec import ViewSpec
    from ..api import Headwater
    from ..config import KafkaOutput, PipelineSettings

_LAYOUTS = {
    Layout.LOG: "epochs are appended, folded when read",
    Layout.MERGED: "merged at each epoch, for any engine to read",
}


def explain(headwater: Headwater) -> Iterator[str]:
    """Yield the lines of ``headwater check``: for each pipeline its tables with their keys, and its views."""
    deployment = headwater.deployment
    count = len(deployment.pipelines)
    several = "" if count == 1 else "s"
    yield f"The configuration is good: {count} pipeline{several} on backend {deployment.backend.name}."
    for name, service in headwater.services.items():
        yield ""
        pipeline = deployment.pipelines[name]
        yield f"{name}, from {_explain_inputs(pipeline)}"
        if isinstance(pipeline.service, RetractionSettings):
            yield from _explain_repeats(pipeline.service)
        yield from _explain_tables(service)
        yield from _explain_views(service, pipeline)
        if service.schedule:
            yield from _explain_query_length(pipeline.retain or deployment.backend.retain, service.schedule)
        if pipeline.publish:
            yield from _explain_publish(pipeline.publish, feed_of(name, pipeline.publish, service))


def _explain_inputs(pipeline: PipelineSettings) -> str:
    if isinstance(pipeline.service, SnapshotSettings | ViewSettings):
        return ", ".join(_explain_input(name, each) for name, each in pipeline.service.inputs.items())
    if isinstance(pipeline.source, Mapping):
        return ", ".join(f"topic {topic} (source {source})" for topic, source in pipeline.source.items())
    if pipeline.bulk is not None:
        return f"source {pipeline.source} and, in bulk, {pipeline.bulk}"
    return f"source {pipeline.source}"


def _explain_repeats(settings: RetractionSettings) -> Iterator[str]:
    """Yield how repeats are recognised."""
    yield "  skips"
    if settings.identity == NONE:
        yield '    nothing: every row counts, a repeat too (identity = "none")'
    elif not settings.place_columns:
        yield '    nothing: every row counts, a repeat too; its records have no position in a log (identity = "auto")'
    elif settings.identity == AUTO:
        yield '    repeats, by the log, file, position and row that a message names (identity = "auto");'
        yield "      a message that does not name them counts"
    else:
        yield f"    repeats, by {', '.join(settings.place_columns)} (identity)"


def _explain_input(name: str, each: ViewOf | PlainTable) -> str:
    if isinstance(each, PlainTable):
        return f"{name} ({each.format} at {each.path})"
    return f"{name} ({each.pipeline}{f'.{each.view}' if each.view else ''})"


def _explain_tables(service: Service) -> Iterator[str]:
    yield "  tables"
    for table in service.tables:
        columns = table.schema.ddl.replace("`", "") or "the columns of its query"
        yield f"    {table.name}: {columns}"
        yield f"      {_explain_table(table)}"


def _explain_table(table: TableSpec) -> str:
    if table.whole:
        return "rewritten at each version, for any engine to read"
    if not table.key:
        return "no key; rows are only added"
    split = f"; partitioned by {', '.join(table.partition_by)}" if table.partition_by else ""
    return f"key {', '.join(table.key)}{split}; {_LAYOUTS[table.layout]}"


def _explain_views(service: Service, pipeline: PipelineSettings) -> Iterator[str]:
    yield "  views"
    for view in service.views:
        yield f"    {pipeline.name}.{view.name}: {view.about}"
        columns = ", ".join(view.schema.names) or "the columns of its query"
        yield f"      {columns}{_explain_materialized(view, pipeline)}"


def _explain_query_length(retention: Retention, every: timedelta) -> Iterator[str]:
    yield "  longest query"
    if (lasts := retention.lasts(every)) is None:
        yield "    any length: every version is kept"
    else:
        longest, interval = show_duration(lasts), show_duration(every)
        yield f"    {longest} from the publication of its version; a new version comes every {interval},"
        yield f"      {retention}"


def _explain_publish(output: KafkaOutput, feed: Feed) -> Iterator[str]:
    yield "  publishes"
    yield f"    the changes of {feed.pipeline}.{feed.view.name} as {feed.format}, to Kafka topic {output.topic}"


def _explain_materialized(view: ViewSpec, pipeline: PipelineSettings) -> str:
    return f"; also kept as table {pipeline.name}.{view.name}" if view.name in pipeline.materialize else ""
