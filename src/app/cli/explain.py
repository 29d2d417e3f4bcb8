"""The output of ``headwater check``: tables and views of a deployment. It shows no value from the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta

from ...domain.duration import show_duration
from ...domain.ledger.retention import Retention
from ...domain.service.base import Views
from ...domain.service.feed import Feed
from ...domain.table.spec import Layout, TableSpec
from ..api import Headwater
from ..config import KafkaOutput, PipelineSettings
from ..read.keyed_views import feed_of
from ..services.kind import kind_of

_LAYOUTS = {
    Layout.LOG: "epochs are appended; a read takes the newest row of each key",
    Layout.MERGED: "merged at each epoch, for any engine to read",
}


def explain(headwater: Headwater, engines: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of ``headwater check``: for each pipeline its tables with their keys, and its views.

    Args:
        headwater: the deployment.
        engines: which engine runs the epochs of each pipeline and why; empty if there is no choice.
    """
    deployment = headwater.deployment
    count = len(deployment.pipelines)
    several = "" if count == 1 else "s"
    yield f"The configuration is good: {count} pipeline{several} on backend {deployment.backend.name}."
    for name, service in headwater.services.items():
        yield ""
        pipeline = deployment.pipelines[name]
        kind = kind_of(pipeline)
        yield f"{name}, from {kind.describe_inputs(pipeline.service, pipeline)}"
        yield from kind.describe(pipeline.service)
        if engines:
            yield "  engine"
            yield f"    {engines[name]}"
        yield from _explain_tables(service)
        yield from _explain_views(service, pipeline)
        if service.schedule:
            every = service.schedule if service.by_clock else None
            yield from _explain_query_length(pipeline.retain or deployment.backend.retain, every)
        if pipeline.publish:
            yield from _explain_publish(pipeline.publish, feed_of(name, pipeline.publish, service))


def _explain_tables(service: Views) -> Iterator[str]:
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


def _explain_views(service: Views, pipeline: PipelineSettings) -> Iterator[str]:
    yield "  views"
    for view in service.views:
        yield f"    {pipeline.name}.{view.name}: {view.about}"
        columns = ", ".join(view.schema.names) or "the columns of its query"
        kept = f"; also kept as table {pipeline.name}.{view.name}" if view.name in pipeline.materialize else ""
        yield f"      {columns}{kept}"


def _explain_query_length(retention: Retention, every: timedelta | None) -> Iterator[str]:
    yield "  longest query"
    if (lasts := retention.lasts(every)) is None:
        yield "    any length: every version is kept"
        return
    pace = f"a new version comes every {show_duration(every)}" if every else "new versions may come at any time"
    yield f"    {show_duration(lasts)} from the publication of its version; {pace},"
    yield f"      {retention}"


def _explain_publish(output: KafkaOutput, feed: Feed) -> Iterator[str]:
    yield "  publishes"
    yield f"    the changes of {feed.pipeline}.{feed.view.name} as {feed.format}, to Kafka topic {output.topic}"
