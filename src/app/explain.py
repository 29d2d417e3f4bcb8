"""What a deployment keeps and answers, in words; nothing that its environment gave is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..domain.duration import show_duration
from ..domain.materialized_view import ViewSettings
from ..domain.retraction import AUTO, NONE, RetractionSettings
from ..domain.snapshots import PlainTable, SnapshotSettings
from ..domain.table import Layout
from .config import BulkFiles
from .keyed_views import feed_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from ..domain.changelog.feed import Feed
    from ..domain.input import ViewOf
    from ..domain.retention import Retention
    from ..domain.service import Service, ViewSpec
    from ..domain.table import TableSpec
    from .api import Headwater
    from .config import BulkInput, KafkaOutput, PipelineSettings

_LAYOUTS = {
    Layout.LOG: "epochs are appended, folded when read",
    Layout.MERGED: "merged at each epoch, for any engine to read",
}


def explain(headwater: Headwater) -> Iterator[str]:
    """The lines of ``headwater check``: for each pipeline its tables, their keys, what they keep, and its views."""
    deployment = headwater.deployment
    count = len(deployment.pipelines)
    several = "" if count == 1 else "s"
    yield f"The configuration is good: {count} pipeline{several} on backend {deployment.backend.name}."
    for name, service in headwater.services.items():
        yield ""
        pipeline = deployment.pipelines[name]
        yield f"{name}, from {_read(pipeline)}"
        if isinstance(pipeline.service, RetractionSettings):
            yield from _repeats(pipeline.service)
        yield from _tables(service)
        yield from _views(service, pipeline)
        if service.schedule:
            yield from _carried(pipeline.retain or deployment.backend.retain, service.schedule)
        if pipeline.publish:
            yield from _published(pipeline.publish, feed_of(name, pipeline.publish, service))


def _read(pipeline: PipelineSettings) -> str:
    if isinstance(pipeline.service, SnapshotSettings | ViewSettings):
        return ", ".join(_input(name, each) for name, each in pipeline.service.inputs.items())
    if isinstance(pipeline.source, Mapping):
        return ", ".join(f"topic {topic} (source {source})" for topic, source in pipeline.source.items())
    if pipeline.bulk is not None:
        return f"source {pipeline.source} and, in bulk, {_bulk(pipeline.bulk)}"
    return f"source {pipeline.source}"


def _repeats(settings: RetractionSettings) -> Iterator[str]:
    """What a repeat is told by."""
    yield "  passes over"
    if settings.identity == NONE:
        yield '    nothing: every row counts, a repeat too (identity = "none")'
    elif not settings.placed_by:
        yield '    nothing: every row counts, a repeat too; its records have no position in a log (identity = "auto")'
    elif settings.identity == AUTO:
        yield '    repeats, by the log, file, position and row that a message names (identity = "auto");'
        yield "      a message that does not name them counts"
    else:
        yield f"    repeats, by {', '.join(settings.placed_by)} (identity)"


def _bulk(bulk: BulkInput) -> str:
    return f"{bulk.format} files at {bulk.path}" if isinstance(bulk, BulkFiles) else f"table {bulk.table} of a database"


def _input(name: str, each: ViewOf | PlainTable) -> str:
    if isinstance(each, PlainTable):
        return f"{name} ({each.format} at {each.path})"
    return f"{name} ({each.pipeline}{f'.{each.view}' if each.view else ''})"


def _tables(service: Service) -> Iterator[str]:
    yield "  keeps"
    for table in service.tables:
        columns = table.schema.ddl.replace("`", "") or "the columns of its query"
        yield f"    {table.name}: {columns}"
        yield f"      {_kept(table)}"


def _kept(table: TableSpec) -> str:
    if table.whole:
        return "written anew at each version, for any engine to read"
    if not table.key:
        return "no key; rows are only added"
    split = f"; partitioned by {', '.join(table.partition_by)}" if table.partition_by else ""
    return f"key {', '.join(table.key)}{split}; {_LAYOUTS[table.layout]}"


def _views(service: Service, pipeline: PipelineSettings) -> Iterator[str]:
    yield "  answers"
    for view in service.views:
        yield f"    {pipeline.name}.{view.name}: {view.about}"
        columns = ", ".join(view.schema.names) or "the columns of its query"
        yield f"      {columns}{_also_kept(view, pipeline)}"


def _carried(retention: Retention, every: timedelta) -> Iterator[str]:
    yield "  carries"
    if (lasts := retention.lasts(every)) is None:
        yield "    queries of any length: everything is kept"
    else:
        yield f"    queries of {show_duration(lasts)} that begin with their version: one every {show_duration(every)},"
        yield f"      {retention}"


def _published(output: KafkaOutput, feed: Feed) -> Iterator[str]:
    yield "  publishes"
    yield f"    the changes of {feed.pipeline}.{feed.view.name} as {feed.format}, to Kafka topic {output.topic}"


def _also_kept(view: ViewSpec, pipeline: PipelineSettings) -> str:
    return f"; also kept as table {pipeline.name}.{view.name}" if view.name in pipeline.materialize else ""
