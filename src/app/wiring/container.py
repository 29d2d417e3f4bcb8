"""The composition root: binds ports to adapters. Only this module knows all of them."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from attrs import evolve, frozen
from injector import Binder, Injector, UnsatisfiedRequirement, provider, singleton

from ...domain.errors import ConfigError, NotInstalled, NotSupported
from ...domain.ports import BaseReading, ForeachBatchSource, FrameEngine, KeptStore, QueryEngine
from ...domain.service.bulk_merge import BulkMerge, BulkMergeSettings
from ...domain.service.cumulate import Cumulate, CumulateSettings
from ...domain.service.history_load import NoHistory
from ...domain.service.materialized_view import MaterializedView, Shapes, ViewSettings
from ...domain.service.ranking import Ranking, RankingSettings
from ...domain.service.retraction import Retraction, RetractionSettings
from ...domain.service.snapshots import PlainTable, Schedule, Snapshots, SnapshotSettings
from ...domain.service.wide_table import WideTable, WideTableSettings
from ...domain.source.bulk import BulkGroup
from ...domain.source.changelog.settings import ChangeSpec
from ...domain.source.record_spec import PLAIN_FORMATS
from ...domain.source.topic_group import TopicGroup
from ...domain.table.spec import RETYPING
from ..config import Deployment, FilesInput, KafkaInput, StreamInput
from ..config.services.bulk_merge import bulk_spec
from ..document.paths import check_local
from ..read.keyed_views import feed_of, keyed_views
from ..registry.backends import Backend, Gap, Part, Sources, load_backend
from ..run.inputs import PipelineInputs
from ..run.runner import EpochReport, Runner, RunOptions
from ..run.sink_publisher import SinkPublisher
from ..run.view_inputs import ViewInputs
from .shapes import ValueTypes, columns_of
from .sources import PolarsSources, SparkSources

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
        settings = pipeline.service
        if not isinstance(settings, WideTableSettings):
            raise ConfigError(f"pipeline {name!r} is not a wide table; only wide tables can load a history")
        sources = dict(zip((topic.name for topic in settings.topics), pipeline.sources, strict=True))
        if unknown := [topic for topic in tables if topic not in sources]:
            raise ConfigError(f"pipeline {name!r} has no topic {unknown[0]!r}; it has: {', '.join(sources)}")
        formats = {topic: table.format if table.format in PLAIN_FORMATS else "json" for topic, table in tables.items()}
        read = evolve(
            settings,
            topics=[evolve(topic, format=formats.get(topic.name, topic.format)) for topic in settings.topics],
            tombstones=None,  # a history deletes nothing
        )
        members: dict[str, StreamSource] = {}
        for topic in settings.topics:
            source = self.deployment.sources[sources[topic.name]]
            table = tables.get(topic.name)
            members[topic.name] = (
                NoHistory(source.records.columns, source.records.format)
                if table is None
                else self._open_history(
                    _plain(source, formats[topic.name], partial=topic.absent == "keep"), table, files
                )
            )
        wide = WideTable(read, self.engine, self.queries)
        return wide, TopicGroup(members)

    def _open_history(self, source: SourceSettings, table: HistoryTable, files: int) -> StreamSource:
        """Open the history of one topic."""
        sources = self._injector.get(Sources)
        if table.format in PLAIN_FORMATS:
            return sources.open(evolve(source, input=FilesInput(check_local(table.path), files)))
        handed = sources.open(evolve(source, input=StreamInput()))
        assert isinstance(handed, ForeachBatchSource)
        rows = self.queries.scan(table.path, table.format)
        there = rows.collect_schema().names()
        wanted = [each for each in source.records.schema.names if each in there]
        handed.submit(str(table), 0, rows.select(*wanted).to_native())
        return handed

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
    with _require("confluent_kafka", extra="kafka"):
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


def _plain(source: SourceSettings, format_: str, *, partial: bool) -> SourceSettings:
    """Return the source for a history: plain rows without row kinds, because a history has no deletes."""
    records = evolve(
        source.records,
        schema=source.records.columns,
        row_kind=None,
        format=format_,
        changes=ChangeSpec(),
        tells_absent=partial and format_ == "json",
    )
    return evolve(source, records=records)


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
        retry_wait=deployment.run.retry_wait,
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


@contextmanager
def _require(package: str, *, extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise NotInstalled(f"{package} is not installed: run pip install 'headwater[{extra}]'") from error


_NO_LOG = Gap(Part.BASE_FILES, "read the view itself, whose tables are compacted regularly")


class MemoryBackend(Backend):
    """Tables in memory, frames of Polars: no JVM, and nothing outlives the process."""

    needs_path = False
    gaps = (
        *PolarsSources.gaps,
        Gap(
            Part.DURABILITY,
            "each run starts from the beginning of its sources; use another backend for tables that must last",
        ),
        _NO_LOG,
    )

    @singleton
    @provider
    def store(self) -> KeptStore:
        """Tables in memory."""
        from ...adapters.memory.store import MemoryStore

        return MemoryStore()

    @singleton
    @provider
    def engine(self) -> FrameEngine:
        """Polars."""
        from ...adapters.memory.engine import PolarsEngine

        return PolarsEngine()

    @singleton
    @provider
    def queries(self) -> QueryEngine:
        """DuckDB."""
        return _duck_queries()

    @singleton
    @provider
    def sources(self) -> Sources:
        """Sources as Polars frames."""
        return PolarsSources("memory")


@frozen
class _Spark:
    """Headwater's Spark session and the program's, in a type that can be bound without importing Spark."""

    session: Any
    program: Any


@frozen
class TableFormat:
    """The Spark packages and the pip extra of a table format."""

    package: Any
    """A module with ``PACKAGES``, ``EXTENSIONS`` and ``SETTINGS``."""
    extra: str


class _SparkBackend(Backend):
    """A backend on Spark, for any table format."""

    @classmethod
    @abstractmethod
    def table_format(cls) -> TableFormat:
        """The format of the tables."""

    @classmethod
    def spark_settings(cls) -> Mapping[str, str]:
        """See `Backend.spark_settings`."""
        package = cls.table_format().package
        joined = {"spark.jars.packages": package.PACKAGES, "spark.sql.extensions": package.EXTENSIONS}
        return {**package.SETTINGS, **{name: ",".join(each) for name, each in joined.items()}}

    @singleton
    @provider
    def spark(self, deployment: Deployment, exits: ExitStack) -> _Spark:
        """Headwater's own session, in the running Spark or in a new one, which is stopped at the end."""
        format_ = self.table_format()
        with _require("pyspark", extra=format_.extra):
            from ...adapters.spark.own_session import own_session, running_session
            from ...adapters.spark.session import KAFKA_PACKAGE, open_session

        kafka = any(isinstance(source.input, KafkaInput) for source in deployment.sources.values())
        given, running = deployment.backend.spark, running_session()
        program = open_session(
            given,
            packages=[*format_.package.PACKAGES, *([KAFKA_PACKAGE] if kafka else [])],
            extensions=format_.package.EXTENSIONS,
            defaults=format_.package.SETTINGS,
        )
        if running is None:
            exits.callback(program.stop)
        return _Spark(own_session(program, given, format_.package.SETTINGS), program)

    @singleton
    @provider
    def engine(self, spark: _Spark, deployment: Deployment) -> FrameEngine:
        """Spark."""
        from ...adapters.spark.engine import SparkEngine
        from ...adapters.spark.session import chosen_names

        fixed = {*deployment.backend.spark, *chosen_names(spark.session)}
        return SparkEngine(spark.session, fixed=fixed, program=spark.program)

    @singleton
    @provider
    def queries(self, spark: _Spark) -> QueryEngine:
        """Spark's own."""
        from ...adapters.spark.queries import SparkQueries

        return SparkQueries(spark.session)

    @singleton
    @provider
    def sources(self, spark: _Spark) -> Sources:
        """Sources as Spark frames."""
        return SparkSources(spark.session)


def _folder(deployment: Deployment) -> str:
    if deployment.backend.path is None:
        raise ConfigError(f"backend.path is missing; backend {deployment.backend.name} needs a folder for its tables")
    return deployment.backend.path


def _file_bytes(deployment: Deployment) -> int:
    return deployment.backend.file_mb * 1024 * 1024


class DeltaBackend(_SparkBackend):
    """Tables in Delta Lake, frames of Spark."""

    gaps = (_NO_LOG,)
    packages = MappingProxyType({"pyspark": "delta", "delta": "delta"})

    @classmethod
    def table_format(cls) -> TableFormat:
        """Delta Lake."""
        from ...adapters.delta import package

        return TableFormat(package, "delta")

    @singleton
    @provider
    def store(self, spark: _Spark, deployment: Deployment) -> KeptStore:
        """Tables in Delta Lake."""
        from ...adapters.delta.compact import CompactionPolicy
        from ...adapters.delta.store import DeltaStore

        policy = CompactionPolicy(target_bytes=_file_bytes(deployment))
        return DeltaStore(spark.session, _folder(deployment), policy)


class _HudiBackend(_SparkBackend):
    """Tables in Apache Hudi, frames of Spark."""

    gaps = (Gap(Part.RETYPING, RETYPING),)
    packages = MappingProxyType({"pyspark": "hudi"})

    table_type: ClassVar[str]

    @classmethod
    def table_format(cls) -> TableFormat:
        """Apache Hudi."""
        from ...adapters.hudi import package

        return TableFormat(package, "hudi")

    @singleton
    @provider
    def store(self, spark: _Spark, deployment: Deployment) -> KeptStore:
        """Tables in Apache Hudi."""
        from ...adapters.hudi.compact import CompactionPolicy
        from ...adapters.hudi.spec import TableType
        from ...adapters.hudi.store import HudiStore

        policy = CompactionPolicy(target_bytes=_file_bytes(deployment))
        return HudiStore(spark.session, _folder(deployment), TableType(self.table_type), compaction=policy)


class HudiMorBackend(_HudiBackend):
    """Keyed tables are merged when they are read: the cheapest epoch."""

    table_type = "MERGE_ON_READ"


class HudiCowBackend(_HudiBackend):
    """Tables are merged when they are written: the cheapest read."""

    table_type = "COPY_ON_WRITE"
