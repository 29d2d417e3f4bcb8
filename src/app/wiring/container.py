"""The composition root: builds the parts of a deployment and connects them."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from random import random
from typing import TYPE_CHECKING
from uuid import uuid4

from attrs import evolve
from injector import Binder, Injector, UnsatisfiedRequirement

from ...domain.errors import ConfigError, NotSupported
from ...domain.ports import BaseReading, FrameEngine, KeptStore, QueryEngine
from ...domain.service.bulk_merge import BulkMerge, BulkMergeSettings
from ...domain.service.cumulate import Cumulate, CumulateSettings
from ...domain.service.materialized_view import MaterializedView, Shapes, ViewSettings
from ...domain.service.ranking import Ranking, RankingSettings
from ...domain.service.retraction import Retraction, RetractionSettings
from ...domain.service.snapshots import PlainTable, Schedule, Snapshots, SnapshotSettings
from ...domain.service.wide_table import WideTable, WideTableSettings
from ...domain.source.bulk import BulkGroup
from ...domain.source.topic_group import TopicGroup
from ..config import Deployment
from ..config.services.bulk_merge import bulk_spec
from ..read.keyed_views import feed_of, keyed_views
from ..registry.backends import Gap, Part, Sources, load_backend
from ..registry.packages import require
from ..run.backoff import Backoff
from ..run.inputs import PipelineInputs
from ..run.runner import EpochReport, Runner, RunOptions
from ..run.sink_publisher import SinkPublisher
from ..run.view_inputs import ViewInputs
from .histories import Histories, check_topics
from .shapes import ValueTypes, columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ...domain.ledger.retention import Retention
    from ...domain.ports import Clock, InputSource, StreamSource
    from ...domain.service.base import Service
    from ...domain.service.input import ViewOf
    from ...domain.table.view_spec import ViewSpec
    from ..config import KafkaOutput, PipelineSettings, SourceSettings
    from ..run.bootstrap import HistoryTable


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
        self._backend = load_backend(deployment.backend.name)
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
        service = _service(pipeline, self.engine, lambda: self.queries, lambda other: others(other).service)
        return Runner(
            name,
            service=service,
            source=self._source(pipeline, others),
            store=store,
            keeper=store,
            engine=self.engine,
            clock=self._clock,
            writer=uuid4().hex,
            options=_options(self.deployment, pipeline),
            report=report,
            publisher=_sink_publisher(pipeline, pipeline.publish, service, self.engine) if pipeline.publish else None,
        )

    def history(self, name: str, tables: Mapping[str, HistoryTable], files: int) -> tuple[Service, StreamSource]:
        """Open the history of a wide table as a source, and create the service that reads it.

        Args:
            name: of the pipeline.
            tables: the history of each topic that has one.
            files: the greatest number of files of each topic in a chunk.

        Raises:
            ConfigError: the pipeline is not a wide table, or has no such topic.
            NotSupported: the backend does not read a table's format.
        """
        pipeline = self.deployment.pipelines[name]
        settings = check_topics(pipeline, tables)
        sources = {
            topic.name: self.deployment.sources[source]
            for topic, source in zip(settings.topics, pipeline.sources, strict=True)
        }
        histories = Histories(self._injector.get(Sources), self.engine, self.queries)
        return histories.open(settings, sources, tables, files)

    def _source(self, pipeline: PipelineSettings, others: Callable[[str], Runner]) -> StreamSource | InputSource:
        settings = pipeline.service
        if isinstance(settings, SnapshotSettings):
            schedule = Schedule(settings.every, by_watermark=settings.when == "watermark")
            return PipelineInputs(settings, schedule, others, self.queries)
        if isinstance(settings, ViewSettings):
            return ViewInputs(settings, others)
        sources, given = self._injector.get(Sources), self.deployment.sources
        if isinstance(settings, BulkMergeSettings):
            assert pipeline.bulk is not None
            bulk = sources.open_bulk(pipeline.bulk, bulk_spec(settings, pipeline.bulk))
            return BulkGroup(sources.open(with_transactions(given[pipeline.sources[0]], settings)), bulk)
        if isinstance(settings, RetractionSettings):
            return sources.open(with_log_position(given[pipeline.sources[0]], settings))
        if not isinstance(settings, WideTableSettings):
            return sources.open(given[pipeline.sources[0]])
        partial = {topic.name: topic.absent == "keep" for topic in settings.topics}
        named = zip(partial, pipeline.sources, strict=True)
        return TopicGroup(
            {topic: sources.open(with_absent_columns(given[name], partial[topic])) for topic, name in named}
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
        if isinstance(pipeline.service, SnapshotSettings | ViewSettings):
            with prefix_errors(pipeline.place or pipeline.name):
                _check_inputs(pipeline.service, deployment.pipelines)
                _check_views(pipeline.service, built)
                if isinstance(pipeline.service, SnapshotSettings):
                    _check_longest(pipeline.service, pipeline.retain or deployment.backend.retain)
        built[name] = _blueprint(pipeline, built)
    return {name: built[name] for name in deployment.pipelines}


def in_order(deployment: Deployment) -> list[str]:
    """Return the pipelines in order: a pipeline that reads others comes after them.

    Raises:
        ConfigError: pipelines read each other in a cycle.
    """
    reads = {}
    for name, pipeline in deployment.pipelines.items():
        stage = pipeline.service
        inputs = stage.inputs.values() if isinstance(stage, SnapshotSettings | ViewSettings) else ()
        others = (each.pipeline for each in inputs if not isinstance(each, PlainTable))
        reads[name] = [other for other in others if other != name]  # reported with its place by `_check_inputs`
    try:
        return [name for name in TopologicalSorter(reads).static_order() if name in deployment.pipelines]
    except CycleError as error:
        cycle = " <- ".join(error.args[1])
        raise ConfigError(f"pipelines read each other in a cycle, so that none can publish first: {cycle}") from error


def _check_inputs(settings: SnapshotSettings | ViewSettings, pipelines: Mapping[str, PipelineSettings]) -> None:
    for name, each in settings.inputs.items():
        if isinstance(each, PlainTable):
            continue
        if each.pipeline == settings.pipeline:
            raise ConfigError(f"inputs.{name}: pipeline {settings.pipeline!r} reads itself; name another pipeline")
        if each.pipeline not in pipelines:
            others = ", ".join(other for other in pipelines if other != settings.pipeline)
            raise ConfigError(f"inputs.{name}: {each.pipeline!r} is not a pipeline; there are: {others or 'none'}")


def _check_views(settings: SnapshotSettings | ViewSettings, services: Mapping[str, Service]) -> None:
    """Refuse views that cannot be inputs."""
    for name, each in settings.inputs.items():
        if isinstance(each, PlainTable):
            continue
        spec = view_of(each, services)
        if spec.between:
            raise ConfigError(
                f"inputs.{name}: view {each.view!r} compares two publications; name a view of one publication"
            )
        if isinstance(settings, ViewSettings) and not (spec.key and spec.schema.columns):
            raise ConfigError(
                f"inputs.{name}: view {spec.name!r} of {each.pipeline!r} has no key, or no columns before it is"
                " published, so its changes cannot be read; read a view with a key, or use snapshots"
            )


def view_of(each: ViewOf, services: Mapping[str, Service]) -> ViewSpec:
    """Return the view of an input, given the services of the deployment's pipelines."""
    service = services[each.pipeline]
    return service.known(each.view) if each.view else service.views[0]


def _check_longest(settings: SnapshotSettings, retention: Retention) -> None:
    if settings.longest_query is not None:
        try:
            retention.check_query(settings.longest_query, settings.every)
        except ConfigError as error:
            raise ConfigError(f"longest_query: {error}") from error


def _blueprint(pipeline: PipelineSettings, built: Mapping[str, Service]) -> Service:
    from ...adapters.memory.engine import PolarsEngine

    with prefix_errors(pipeline.place or pipeline.name):
        service = _service(pipeline, PolarsEngine(), _duck_queries, built.__getitem__)
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
    """Put a place before the message of each `ConfigError`."""
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


def _service(
    pipeline: PipelineSettings,
    engine: FrameEngine,
    queries: Callable[[], QueryEngine],
    others: Callable[[str], Service],
) -> Service:
    if isinstance(pipeline.service, ViewSettings):
        return _materialized_view(pipeline.service, engine, queries(), others)
    if isinstance(pipeline.service, RankingSettings):
        return Ranking(pipeline.service, engine)
    if isinstance(pipeline.service, BulkMergeSettings):
        return BulkMerge(pipeline.service, engine)
    return _with_queries(pipeline.service, engine, queries())


def _with_queries(
    settings: RetractionSettings | CumulateSettings | WideTableSettings | SnapshotSettings,
    engine: FrameEngine,
    queries: QueryEngine,
) -> Service:
    if isinstance(settings, RetractionSettings):
        return Retraction(settings, engine, queries)
    if isinstance(settings, CumulateSettings):
        return Cumulate(settings, engine, queries)
    if isinstance(settings, WideTableSettings):
        return WideTable(settings, engine, queries)
    return Snapshots(settings, engine, queries)


def _materialized_view(
    settings: ViewSettings, engine: FrameEngine, queries: QueryEngine, others: Callable[[str], Service]
) -> Service:
    services = {each.pipeline: others(each.pipeline) for each in settings.inputs.values()}
    inputs = {name: view_of(each, services) for name, each in settings.inputs.items()}
    columns = {name: each.schema for name, each in inputs.items()}
    schema = settings.schema or columns_of(settings.sql, columns)
    return MaterializedView(settings, Shapes(schema, inputs, ValueTypes(columns)), engine, queries)


def with_absent_columns(source: SourceSettings, absent: bool) -> SourceSettings:  # noqa: FBT001 - the name says it
    """Return the source; if `absent`, its rows list the columns that their record did not have."""
    return evolve(source, records=evolve(source.records, tells_absent=absent))


def with_transactions(source: SourceSettings, settings: BulkMergeSettings) -> SourceSettings:
    """Return the source; its rows name their transaction if the service needs whole transactions."""
    return evolve(source, records=evolve(source.records, tells_transactions=settings.transactional))


def with_log_position(source: SourceSettings, settings: RetractionSettings) -> SourceSettings:
    """Return the source; its rows have their position in the log if the service needs it."""
    return evolve(source, records=evolve(source.records, tells_log=settings.tells_log))


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
    """The pipeline's own setting, else the backend's; 1 for a snapshots pipeline with a retention of its own."""
    if pipeline.expire_every is not None:
        return pipeline.expire_every
    every = deployment.backend.expire_every
    return 1 if every == 0 and pipeline.retain and isinstance(pipeline.service, SnapshotSettings) else every
