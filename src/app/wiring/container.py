"""The composition root: builds the parts of a deployment and connects them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from random import random
from typing import TYPE_CHECKING
from uuid import uuid4

from injector import Binder, Injector, UnsatisfiedRequirement

from ...domain.errors import ConfigError, NotSupported
from ...domain.ports import BaseReading, FrameEngine, KeptStore, QueryEngine
from ..config import Deployment
from ..read.keyed_views import feed_of, keyed_views
from ..registry.backends import Gap, Part, Sources, chosen_backend
from ..registry.packages import require
from ..run.backoff import Backoff
from ..run.options import RunOptions
from ..run.runner import Runner
from ..run.sink_publisher import SinkPublisher
from ..services.kind import Parts, SourceParts, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...domain.ports import Clock, Source
    from ...domain.service.base import Service
    from ...domain.service.input import ViewOf
    from ...domain.table.view_spec import ViewSpec
    from ..config import KafkaOutput, PipelineSettings
    from ..run.bootstrap import HistoryTable
    from ..run.report import EpochReport


class Container:
    """The parts of a deployment. An engine starts when it is first requested.

    Args:
        deployment: to build.
        clock: shared by all pipelines.
    """

    def __init__(self, deployment: Deployment, clock: Clock) -> None:
        self.deployment = deployment
        self._exits = ExitStack()
        self._clock = clock
        self._backend = chosen_backend(deployment.backend)
        self._injector = Injector([self._shared, self._backend()], auto_bind=False)

    @property
    def engine(self) -> FrameEngine:
        """The engine of all frames."""
        return self._injector.get(FrameEngine)

    @property
    def base(self) -> BaseReading:
        """The store, for reading base files only.

        Raises:
            NotSupported: the backend's tables have no log next to their base files.
        """
        store = self._injector.get(KeptStore)
        if isinstance(store, BaseReading):
            return store
        raise self._gap(Part.BASE_FILES, "read the view itself")

    def _gap(self, part: Part, remedy: str) -> NotSupported:
        """The error of a gap that the backend declares; if it declares none, an error with this remedy."""
        declared = next((gap for gap in self._backend.gaps if gap.part is part), Gap(part, remedy))
        return declared.error(self.deployment.backend.name)

    @property
    def queries(self) -> QueryEngine:
        """The engine for user-supplied SQL.

        Raises:
            NotSupported: the backend runs no SQL.
        """
        refused = self._gap(Part.SQL, "choose a backend that runs it, such as delta or memory")
        if not self._backend.offers(Part.SQL):
            raise refused
        try:
            return self._injector.get(QueryEngine)
        except UnsatisfiedRequirement as error:
            raise refused from error

    def runner(self, name: str, report: Callable[[EpochReport], None], others: Callable[[str], Runner]) -> Runner:
        """Create the runner of a pipeline.

        Args:
            name: of the pipeline.
            report: called with each published epoch.
            others: returns the runner of another pipeline by its name.
        """
        pipeline = self.deployment.pipelines[name]
        store = self._injector.get(KeptStore)
        kind, parts = kind_of(pipeline), self._parts(others)
        service = kind.build(pipeline.service, parts)
        return Runner(
            name,
            service=service,
            source=kind.open(pipeline.service, pipeline, parts),
            store=store,
            keeper=store,
            engine=self.engine,
            clock=self._clock,
            writer=uuid4().hex,
            options=_options(self.deployment, pipeline),
            report=report,
            publisher=_sink_publisher(pipeline, pipeline.publish, service, self.engine) if pipeline.publish else None,
        )

    def history(
        self, name: str, tables: Mapping[str, HistoryTable], files: int, others: Callable[[str], Runner]
    ) -> tuple[Service, Source]:
        """Open the history of a pipeline, and create the service that reads it; see `ServiceKind.history`."""
        pipeline = self.deployment.pipelines[name]
        return kind_of(pipeline).history(pipeline.service, pipeline, tables, files, self._parts(others))

    def _parts(self, others: Callable[[str], Runner]) -> SourceParts:
        return SourceParts(
            self.engine,
            lambda: self.queries,
            lambda each: each.of(others(each.pipeline).service),
            self._injector.get(Sources),
            self.deployment.sources,
            others,
        )

    def close(self) -> None:
        """Stop the engine if it was started here."""
        self._exits.close()

    def _shared(self, binder: Binder) -> None:
        """Bind the values that every backend may request."""
        binder.bind(Deployment, to=self.deployment)
        binder.bind(ExitStack, to=self._exits)


def blueprints(deployment: Deployment) -> dict[str, Service]:
    """Build the service of each pipeline for its tables and views only. No engine is started; do not call `step`.

    Raises:
        ConfigError: a service refuses its settings; a view cannot be materialized or published; an input does not
            exist; or a query may run longer than the retention allows.
    """
    built: dict[str, Service] = {}
    for name in in_order(deployment):
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
        others = (each.pipeline for each in kind_of(pipeline).reads(pipeline.service).values())
        reads[name] = [other for other in others if other != name]  # reported with its place by `_check_inputs`
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
        _check_materialized(pipeline, service)
    if pipeline.publish:
        with prefix_errors(pipeline.publish.place or f"{pipeline.name}.publish"):
            feed_of(pipeline.name, pipeline.publish, service)
    return service


def _duck_queries() -> QueryEngine:
    from ...adapters.memory.queries import DuckQueries

    return DuckQueries()


@contextmanager
def prefix_errors(place: str) -> Iterator[None]:
    """Add a place to the front of the message of each `ConfigError`."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _check_materialized(pipeline: PipelineSettings, service: Service) -> None:
    possible = keyed_views(service)
    for name in pipeline.materialize:
        if name not in possible:
            raise ConfigError(f"materialize: {name!r} is not a view that can be kept; possible: {', '.join(possible)}")


def _sink_publisher(
    pipeline: PipelineSettings, output: KafkaOutput, service: Service, engine: FrameEngine
) -> SinkPublisher:
    with require("confluent_kafka", extra="kafka"):
        from ...adapters.kafka.settings import SinkSettings
        from ...adapters.kafka.sink import KafkaSink

    feed = feed_of(pipeline.name, output, service)
    table = f"{pipeline.name}.{feed.view.name}" if feed.view.name in pipeline.materialize else None
    sink = KafkaSink(SinkSettings(output.servers, output.topic, output.options), feed, engine)
    return SinkPublisher(service, feed.view.name, table, sink, engine)


def _options(deployment: Deployment, pipeline: PipelineSettings) -> RunOptions:
    # Each topic of a wide table has its own delay, which the service knows; the slowest topic holds the others back.
    alone = deployment.sources[pipeline.source] if isinstance(pipeline.source, str) else None
    return RunOptions(
        materialize=pipeline.materialize,
        watermark_delay=alone.watermark_delay if alone else timedelta(),
        idle_after=alone.idle_after if alone else None,
        compact_every=deployment.backend.compact_every,
        retention=pipeline.retain or deployment.backend.retain,
        expire_every=_expire_every(deployment, pipeline),
        poll=deployment.run.poll,
        retries=deployment.run.retries,
        backoff=Backoff(deployment.run.retry_wait, deployment.run.retry_max_wait, random),
        place=pipeline.place,
        source_place=f"{alone.place} (pipeline {pipeline.name})" if alone and alone.place else "",
        dead_letter_limit=deployment.run.dead_letter_limit,
        dead_letter_stop=deployment.run.dead_letter_stop,
    )


def _expire_every(deployment: Deployment, pipeline: PipelineSettings) -> int:
    """The pipeline's own setting, else the backend's; 1 if the pipeline's own retention is applied after each epoch."""
    if pipeline.expire_every is not None:
        return pipeline.expire_every
    every = deployment.backend.expire_every
    return 1 if every == 0 and pipeline.retain and kind_of(pipeline).expires_each_epoch else every
