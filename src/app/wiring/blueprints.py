"""The services of a deployment for their tables and views only: no engine is started."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from ...domain.errors import ConfigError, prefix_errors
from ...domain.ports import QueryEngine
from ...domain.service.base import Service
from ...domain.service.input import ViewOf
from ...domain.table.view_spec import ViewSpec
from ..config import Deployment, PipelineSettings
from ..read.keyed_views import feed_of, keyed_views
from ..services.kind import Parts, find_inputs, kind_of


def blueprints(deployment: Deployment, known: Mapping[str, Service] = MappingProxyType({})) -> dict[str, Service]:
    """Build the service of each pipeline for its tables and views only. No engine is started; do not call `step`.

    Args:
        deployment: with the pipelines.
        known: services of some of them, built before with the same settings.

    Raises:
        ConfigError: a service refuses its settings; a view cannot be materialized or published; an input does not
            exist; or a query may run longer than the retention allows.
    """
    built = dict(known)
    for name in in_order(deployment):
        if name in built:
            continue
        pipeline = deployment.pipelines[name]
        kind = kind_of(pipeline)
        with prefix_errors(pipeline.place or pipeline.name):
            inputs = kind.reads(pipeline.service)
            _check_inputs(name, inputs, deployment.pipelines)
            views = {key: each.of(built[each.pipeline]) for key, each in inputs.items()}
            _check_views(inputs, views)
            kind.check(pipeline.service, views, pipeline.retain or deployment.backend.retain)
        built[name] = _blueprint(pipeline, built)
    return {name: built[name] for name in deployment.pipelines}


def in_order(deployment: Deployment) -> list[str]:
    """Return the pipelines in order: a pipeline that reads others comes after them.

    Raises:
        ConfigError: pipelines read each other in a cycle.
    """
    reads = {}
    for name, pipeline in deployment.pipelines.items():
        # One that reads itself is reported with its place by `_check_inputs`.
        reads[name] = [other for other in find_inputs(pipeline) if other != name]
    try:
        return [name for name in TopologicalSorter(reads).static_order() if name in deployment.pipelines]
    except CycleError as error:
        cycle = " <- ".join(error.args[1])
        raise ConfigError(f"pipelines read each other in a cycle, so that none can publish first: {cycle}") from error


def _check_inputs(reader: str, inputs: Mapping[str, ViewOf], pipelines: Mapping[str, PipelineSettings]) -> None:
    for name, each in inputs.items():
        if each.pipeline == reader:
            raise ConfigError(f"inputs.{name}: pipeline {reader!r} reads itself; name another pipeline")
        if each.pipeline not in pipelines:
            others = ", ".join(other for other in pipelines if other != reader)
            raise ConfigError(f"inputs.{name}: {each.pipeline!r} is not a pipeline; there are: {others or 'none'}")


def _check_views(inputs: Mapping[str, ViewOf], views: Mapping[str, ViewSpec]) -> None:
    """Refuse views that cannot be inputs."""
    for name, spec in views.items():
        if spec.between:
            raise ConfigError(
                f"inputs.{name}: view {inputs[name].view!r} compares two publications; name a view of one publication"
            )


def _blueprint(pipeline: PipelineSettings, built: Mapping[str, Service]) -> Service:
    from ...adapters.polars.engine import PolarsEngine

    with prefix_errors(pipeline.place or pipeline.name):
        parts = Parts(PolarsEngine(), _duck_queries, lambda each: each.of(built[each.pipeline]))
        service: Service = kind_of(pipeline).build(pipeline.service, parts)
    with prefix_errors(pipeline.materialize_place or f"{pipeline.name}.materialize"):
        _check_materialized(pipeline, service)
    if pipeline.publish:
        with prefix_errors(pipeline.publish.place or f"{pipeline.name}.publish"):
            feed_of(pipeline.name, pipeline.publish, service)
    return service


def _duck_queries() -> QueryEngine:
    from ...adapters.memory.queries import DuckQueries

    return DuckQueries()


def _check_materialized(pipeline: PipelineSettings, service: Service) -> None:
    own = {table.name for table in service.tables}
    tables = {name: f"{pipeline.name}.{name}" for name in keyed_views(service)}
    possible = [name for name, table in tables.items() if table not in own]
    for place, name in enumerate(pipeline.materialize):
        if name in tables and tables[name] in own:
            raise ConfigError(f"{name!r} is stored as table {tables[name]} already; leave it out")
        if name not in possible:
            listed = ", ".join(possible) or "none"
            raise ConfigError(f"{name!r} is not a view that can be kept; possible: {listed}")
        if name in pipeline.materialize[:place]:
            raise ConfigError(f"{name!r} is given twice; name it once")
