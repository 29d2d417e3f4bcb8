"""The composition root: binds ports to adapters, and is the only place that knows them all."""

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

from ..domain.bulk import BulkGroup
from ..domain.bulk_merge import BulkMerge, BulkMergeSettings
from ..domain.changelog.settings import ChangeSpec
from ..domain.cumulate import Cumulate, CumulateSettings
from ..domain.errors import ConfigError, NotInstalled, NotSupported
from ..domain.loading import NoHistory
from ..domain.materialized_view import MaterializedView, Shapes, ViewSettings
from ..domain.ports import BaseReading, FrameEngine, HandedOver, KeptStore, QueryEngine
from ..domain.ranking import Ranking, RankingSettings
from ..domain.retraction import Retraction, RetractionSettings
from ..domain.snapshots import PlainTable, Schedule, Snapshots, SnapshotSettings
from ..domain.source import PLAIN_FORMATS
from ..domain.table import RETYPING
from ..domain.topic_group import TopicGroup
from ..domain.wide_table import WideTable, WideTableSettings
from .backends import Backend, Gap, Part, Sources, load_backend
from .config import Deployment, FilesInput, KafkaInput, StreamInput
from .config.bulk_merge import bulk_spec
from .config.paths import check_local
from .inputs import PipelineInputs
from .keyed_views import feed_of, keyed_views
from .outlet import Outlet
from .runner import EpochReport, Runner, RunOptions
from .shapes import ValueTypes, columns_of
from .sources import PolarsSources, SparkSources
from .view_inputs import ViewInputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..domain.input import ViewOf
    from ..domain.ports import Clock, InputSource, StreamSource
    from ..domain.retention import Retention
    from ..domain.service import Service, ViewSpec
    from .bootstrap import HistoryTable
    from .config import KafkaOutput, PipelineSettings, SourceSettings


class Container:
    """What a deployment is made of; engines start when something first asks for them.

    Args:
        deployment: what to build.
        clock: the time that all pipelines share.
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
        """What reads base files alone.

        Raises:
            NotSupported: the backend's tables have no log beside them.
        """
        store = self._injector.get(KeptStore)
        if isinstance(store, BaseReading):
            return store
        raise self._gap(Part.BASE_FILES, "ask for the view itself")

    def _gap(self, part: Part, remedy: str) -> NotSupported:
        """A gap as the backend declares it, or, where it declares none, with this remedy."""
        declared = next((gap for gap in self._backend.gaps if gap.part is part), Gap(part, remedy))
        return declared.error(self.deployment.backend.name)

    @property
    def queries(self) -> QueryEngine:
        """What runs SQL of the user's own.

        Raises:
            NotSupported: the backend runs none.
        """
        refused = self._gap(Part.SQL, "choose a backend that runs it, such as delta or memory")
        if not self._backend.offers(Part.SQL):
            raise refused
        try:
            return self._injector.get(QueryEngine)
        except UnsatisfiedRequirement as error:
            raise refused from error

    def runner(self, name: str, report: Callable[[EpochReport], None], others: Callable[[str], Runner]) -> Runner:
        """The runner of a pipeline.

        Args:
            name: of the pipeline.
            report: told of every epoch published.
            others: the runners of the deployment's pipelines, by their names.
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
            outlet=_outlet(pipeline, pipeline.publish, service, self.engine) if pipeline.publish else None,
        )

    def history(self, name: str, tables: Mapping[str, HistoryTable], files: int) -> tuple[Service, StreamSource]:
        """The history of a topic group's pipeline as its source would bring it, and the service that takes it.

        Args:
            name: of the pipeline.
            tables: the history of each topic that has one.
            files: at most so many of each make a chunk.

        Raises:
            ConfigError: the pipeline is no wide table, or has no such topic.
            NotSupported: the backend does not read a table's format.
        """
        pipeline = self.deployment.pipelines[name]
        settings = pipeline.service
        if not isinstance(settings, WideTableSettings):
            raise ConfigError(f"pipeline {name!r} is no wide table; the histories of those alone can be loaded")
        sources = dict(zip((topic.name for topic in settings.topics), pipeline.sources, strict=True))
        if unknown := [topic for topic in tables if topic not in sources]:
            raise ConfigError(f"pipeline {name!r} has no topic {unknown[0]!r}; it has: {', '.join(sources)}")
        formats = {topic: table.format if table.format in PLAIN_FORMATS else "json" for topic, table in tables.items()}
        read = evolve(
            settings,
            topics=[evolve(topic, format=formats.get(topic.name, topic.format)) for topic in settings.topics],
            tombstones=None,  # nothing is deleted by a history
        )
        members: dict[str, StreamSource] = {}
        for topic in settings.topics:
            source = self.deployment.sources[sources[topic.name]]
            table = tables.get(topic.name)
            members[topic.name] = (
                NoHistory(source.records.columns, source.records.format)
                if table is None
                else self._past(_plain(source, formats[topic.name], partial=topic.absent == "keep"), table, files)
            )
        wide = WideTable(read, self.engine, self.queries)
        return wide, TopicGroup(members)

    def _past(self, source: SourceSettings, table: HistoryTable, files: int) -> StreamSource:
        """One topic's history."""
        sources = self._injector.get(Sources)
        if table.format in PLAIN_FORMATS:
            return sources.open(evolve(source, input=FilesInput(check_local(table.path), files)))
        handed = sources.open(evolve(source, input=StreamInput()))
        assert isinstance(handed, HandedOver)
        rows = self.queries.scan(table.path, table.format)
        there = rows.collect_schema().names()
        wanted = [each for each in source.records.schema.names if each in there]
        handed.offer(str(table), 0, rows.select(*wanted).to_native())
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
            return BulkGroup(sources.open(_marking(given[pipeline.sources[0]], settings)), bulk)
        if isinstance(settings, RetractionSettings):
            return sources.open(_placing(given[pipeline.sources[0]], settings))
        if not isinstance(settings, WideTableSettings):
            return sources.open(given[pipeline.sources[0]])
        partial = {topic.name: topic.absent == "keep" for topic in settings.topics}
        named = zip(partial, pipeline.sources, strict=True)
        return TopicGroup({topic: sources.open(_telling(given[name], partial[topic])) for topic, name in named})

    def close(self) -> None:
        """Stop what was started."""
        self._exits.close()

    def _shared(self, binder: Binder) -> None:
        """What every backend may ask for."""
        binder.bind(Deployment, to=self.deployment)
        binder.bind(ExitStack, to=self._exits)


def blueprints(deployment: Deployment) -> dict[str, Service]:
    """The service of each pipeline, for its tables and views alone: nothing is started, and they must not step.

    Raises:
        ConfigError: a service refuses its settings, a view cannot be kept or published as asked, or a pipeline reads
            what there is not, or promises what the retention cannot hold.
    """
    built: dict[str, Service] = {}
    for name in in_order(deployment):
        pipeline = deployment.pipelines[name]
        if isinstance(pipeline.service, SnapshotSettings | ViewSettings):
            with placed(pipeline.place or pipeline.name):
                _check_inputs(pipeline.service, deployment.pipelines)
                _check_views(pipeline.service, built)
                if isinstance(pipeline.service, SnapshotSettings):
                    _check_longest(pipeline.service, pipeline.retain or deployment.backend.retain)
        built[name] = _blueprint(pipeline, built)
    return {name: built[name] for name in deployment.pipelines}


def in_order(deployment: Deployment) -> list[str]:
    """The pipelines, those that read others behind them; in a ring, none could publish first."""
    reads = {}
    for name, pipeline in deployment.pipelines.items():
        stage = pipeline.service
        inputs = stage.inputs.values() if isinstance(stage, SnapshotSettings | ViewSettings) else ()
        others = (each.pipeline for each in inputs if not isinstance(each, PlainTable))
        reads[name] = [other for other in others if other != name]  # which is told of where it is written
    try:
        return [name for name in TopologicalSorter(reads).static_order() if name in deployment.pipelines]
    except CycleError as error:
        ring = " <- ".join(error.args[1])
        raise ConfigError(f"pipelines read each other in a ring, so that none could publish first: {ring}") from error


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
    """Refuse views that an input cannot be."""
    for name, each in settings.inputs.items():
        if isinstance(each, PlainTable):
            continue
        spec = view_of(each, services)
        if spec.between:
            raise ConfigError(f"inputs.{name}: view {each.view!r} is asked between two publications, not at one")
        if isinstance(settings, ViewSettings) and not (spec.key and spec.schema.columns):
            raise ConfigError(
                f"inputs.{name}: view {spec.name!r} of {each.pipeline!r} has no key, or no columns before it is"
                " published, so that its changes cannot be followed; read a view with a key, or use snapshots"
            )


def view_of(each: ViewOf, services: Mapping[str, Service]) -> ViewSpec:
    """The view that an input is, among the services of a deployment's pipelines."""
    service = services[each.pipeline]
    return service.known(each.view) if each.view else service.views[0]


def _check_longest(settings: SnapshotSettings, retention: Retention) -> None:
    if settings.longest_query is not None:
        try:
            retention.check_query(settings.longest_query, settings.every)
        except ConfigError as error:
            raise ConfigError(f"longest_query: {error}") from error


def _blueprint(pipeline: PipelineSettings, built: Mapping[str, Service]) -> Service:
    from ..adapters.memory.engine import PolarsEngine

    with placed(pipeline.place or pipeline.name):
        service = _service(pipeline, PolarsEngine(), _duck_queries, built.__getitem__)
        _check_materialized(pipeline, service)
    if pipeline.publish:
        with placed(pipeline.publish.place or f"{pipeline.name}.publish"):
            feed_of(pipeline.name, pipeline.publish, service)
    return service


def _duck_queries() -> QueryEngine:
    from ..adapters.memory.queries import DuckQueries

    return DuckQueries()


@contextmanager
def placed(place: str) -> Iterator[None]:
    """Puts the place before what is wrong there."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


def _check_materialized(pipeline: PipelineSettings, service: Service) -> None:
    possible = keyed_views(service)
    for name in pipeline.materialize:
        if name not in possible:
            raise ConfigError(f"materialize: {name!r} is no view that can be kept; possible: {', '.join(possible)}")


def _outlet(pipeline: PipelineSettings, output: KafkaOutput, service: Service, engine: FrameEngine) -> Outlet:
    with _installed("confluent_kafka", extra="kafka"):
        from ..adapters.kafka.settings import SinkSettings
        from ..adapters.kafka.sink import KafkaSink

    feed = feed_of(pipeline.name, output, service)
    table = f"{pipeline.name}.{feed.view.name}" if feed.view.name in pipeline.materialize else None
    sink = KafkaSink(SinkSettings(output.servers, output.topic, output.options), feed, engine)
    return Outlet(service, feed.view.name, table, sink, engine)


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


def _telling(source: SourceSettings, absent: bool) -> SourceSettings:  # noqa: FBT001 - what is told says it
    """A source whose rows say which columns their record did not carry, or do not."""
    return evolve(source, records=evolve(source.records, tells_absent=absent))


def _marking(source: SourceSettings, settings: BulkMergeSettings) -> SourceSettings:
    """A source whose rows say which transaction they are of, where the service counts these whole."""
    return evolve(source, records=evolve(source.records, tells_transactions=settings.whole))


def _placing(source: SourceSettings, settings: RetractionSettings) -> SourceSettings:
    """A source whose rows say where in their log they stand, where the service asks that."""
    return evolve(source, records=evolve(source.records, tells_log=settings.tells_log))


def _plain(source: SourceSettings, format_: str, *, partial: bool) -> SourceSettings:
    """A source whose records are plain rows of its columns, all of them there: a history has no deletes."""
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
    # The topics of a group have each its own delay, which its service knows; the slowest holds the others back.
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
    """By its own word, else the backend's; a pipeline of versions, told how many to keep, keeps no more."""
    if pipeline.expire_every is not None:
        return pipeline.expire_every
    every = deployment.backend.expire_every
    return 1 if every == 0 and pipeline.retain and isinstance(pipeline.service, SnapshotSettings) else every


@contextmanager
def _installed(package: str, *, extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise NotInstalled(f"{package} is not installed: run pip install 'headwater[{extra}]'") from error


_NO_LOG = Gap(Part.BASE_FILES, "ask for the view itself, whose tables are compacted now and then")


class MemoryBackend(Backend):
    """Tables in memory, frames of Polars: no JVM, and nothing outlives the process."""

    needs_path = False
    gaps = (
        *PolarsSources.gaps,
        Gap(Part.DURABILITY, "each run starts from the beginning of its sources; what is to last belongs elsewhere"),
        _NO_LOG,
    )

    @singleton
    @provider
    def store(self) -> KeptStore:
        """Tables in memory."""
        from ..adapters.memory.store import MemoryStore

        return MemoryStore()

    @singleton
    @provider
    def engine(self) -> FrameEngine:
        """Polars."""
        from ..adapters.memory.engine import PolarsEngine

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
    """Headwater's Spark session, and the program's, under a name that can be bound without importing Spark."""

    session: Any
    program: Any


@frozen
class TableFormat:
    """What a table format is to Spark and to pip."""

    package: Any
    """A module with ``PACKAGES``, ``EXTENSIONS`` and ``SETTINGS``."""
    extra: str


class _SparkBackend(Backend):
    """Frames of Spark, whatever the tables are kept in."""

    @classmethod
    @abstractmethod
    def table_format(cls) -> TableFormat:
        """What the tables are kept in."""

    @classmethod
    def spark_settings(cls) -> Mapping[str, str]:
        """See `Backend.spark_settings`."""
        package = cls.table_format().package
        joined = {"spark.jars.packages": package.PACKAGES, "spark.sql.extensions": package.EXTENSIONS}
        return {**package.SETTINGS, **{name: ",".join(each) for name, each in joined.items()}}

    @singleton
    @provider
    def spark(self, deployment: Deployment, exits: ExitStack) -> _Spark:
        """A session of our own in the Spark that is running already, or in one that is stopped in the end."""
        format_ = self.table_format()
        with _installed("pyspark", extra=format_.extra):
            from ..adapters.spark.own_session import own_session, running_session
            from ..adapters.spark.session import KAFKA_PACKAGE, open_session

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
        from ..adapters.spark.engine import SparkEngine
        from ..adapters.spark.session import chosen_names

        fixed = {*deployment.backend.spark, *chosen_names(spark.session)}
        return SparkEngine(spark.session, fixed=fixed, program=spark.program)

    @singleton
    @provider
    def queries(self, spark: _Spark) -> QueryEngine:
        """Spark's own."""
        from ..adapters.spark.queries import SparkQueries

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
        from ..adapters.delta import package

        return TableFormat(package, "delta")

    @singleton
    @provider
    def store(self, spark: _Spark, deployment: Deployment) -> KeptStore:
        """Tables in Delta Lake."""
        from ..adapters.delta.compaction import CompactionPolicy
        from ..adapters.delta.store import DeltaStore

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
        from ..adapters.hudi import package

        return TableFormat(package, "hudi")

    @singleton
    @provider
    def store(self, spark: _Spark, deployment: Deployment) -> KeptStore:
        """Tables in Apache Hudi."""
        from ..adapters.hudi.compaction import CompactionPolicy
        from ..adapters.hudi.definition import TableType
        from ..adapters.hudi.store import HudiStore

        policy = CompactionPolicy(target_bytes=_file_bytes(deployment))
        return HudiStore(spark.session, _folder(deployment), TableType(self.table_type), compaction=policy)


class HudiMorBackend(_HudiBackend):
    """Keyed tables are merged when they are read: the cheapest epoch."""

    table_type = "MERGE_ON_READ"


class HudiCowBackend(_HudiBackend):
    """Tables are merged when they are written: the cheapest read."""

    table_type = "COPY_ON_WRITE"
