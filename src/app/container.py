"""The composition root: binds ports to adapters, and is the only place that knows them all."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from attrs import frozen
from injector import Binder, Injector, UnsatisfiedRequirement, provider, singleton

from ..domain.cumulate import Cumulate, CumulateSettings
from ..domain.errors import ConfigError, NotInstalled
from ..domain.ports import FrameEngine, KeptStore, QueryEngine
from ..domain.ranking import Ranking
from ..domain.retraction import Retraction, RetractionSettings
from .backends import Backend, Gap, Part, Sources, load_backend
from .config import Deployment, KafkaInput, SourceSettings
from .keyed_views import feed_of, keyed_views
from .outlet import Outlet
from .runner import EpochReport, Runner, RunOptions
from .sources import PolarsSources, SparkSources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..domain.ports import Clock
    from ..domain.service import Service
    from .config import KafkaOutput, PipelineSettings


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
    def queries(self) -> QueryEngine:
        """What runs SQL of the user's own.

        Raises:
            NotSupported: the backend runs none.
        """
        declared = next((gap for gap in self._backend.gaps if gap.part is Part.SQL), None)
        if declared is not None:
            raise declared.error(self.deployment.backend.name)
        try:
            return self._injector.get(QueryEngine)
        except UnsatisfiedRequirement as error:
            undeclared = Gap(Part.SQL, "choose a backend that runs it, such as delta or memory")
            raise undeclared.error(self.deployment.backend.name) from error

    def runner(self, name: str, report: Callable[[EpochReport], None]) -> Runner:
        """The runner of a pipeline, which tells `report` of every epoch published."""
        pipeline = self.deployment.pipelines[name]
        source = self.deployment.sources[pipeline.source]
        store, service = self._injector.get(KeptStore), _service(pipeline, self.engine, lambda: self.queries)
        return Runner(
            name,
            service=service,
            source=self._injector.get(Sources).open(source),
            store=store,
            keeper=store,
            engine=self.engine,
            clock=self._clock,
            writer=uuid4().hex,
            options=_options(self.deployment, pipeline, source),
            report=report,
            outlet=_outlet(pipeline, pipeline.publish, service, self.engine) if pipeline.publish else None,
        )

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
        ConfigError: a service refuses its settings, or a view cannot be kept or published as asked.
    """
    return {name: _blueprint(pipeline) for name, pipeline in deployment.pipelines.items()}


def _blueprint(pipeline: PipelineSettings) -> Service:
    from ..adapters.memory.engine import PolarsEngine

    with _placed(pipeline.place or pipeline.name):
        service = _service(pipeline, PolarsEngine(), _duck_queries)
        _check_materialized(pipeline, service)
    if pipeline.publish:
        with _placed(pipeline.publish.place or f"{pipeline.name}.publish"):
            feed_of(pipeline.name, pipeline.publish, service)
    return service


def _duck_queries() -> QueryEngine:
    from ..adapters.memory.queries import DuckQueries

    return DuckQueries()


@contextmanager
def _placed(place: str) -> Iterator[None]:
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


def _service(pipeline: PipelineSettings, engine: FrameEngine, queries: Callable[[], QueryEngine]) -> Service:
    if isinstance(pipeline.service, RetractionSettings):
        return Retraction(pipeline.service, engine, queries())
    if isinstance(pipeline.service, CumulateSettings):
        return Cumulate(pipeline.service, engine, queries())
    return Ranking(pipeline.service, engine)


def _options(deployment: Deployment, pipeline: PipelineSettings, source: SourceSettings) -> RunOptions:
    return RunOptions(
        materialize=pipeline.materialize,
        watermark_delay=source.watermark_delay,
        idle_after=source.idle_after,
        compact_every=deployment.backend.compact_every,
        retention=deployment.backend.retain,
        expire_every=deployment.backend.expire_every,
        poll=deployment.run.poll,
        retries=deployment.run.retries,
        retry_wait=deployment.run.retry_wait,
    )


@contextmanager
def _installed(package: str, *, extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise NotInstalled(f"{package} is not installed: run pip install 'headwater[{extra}]'") from error


class MemoryBackend(Backend):
    """Tables in memory, frames of Polars: no JVM, and nothing outlives the process."""

    needs_path = False
    gaps = (
        *PolarsSources.gaps,
        Gap(Part.DURABILITY, "each run starts from the beginning of its sources; what is to last belongs elsewhere"),
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
    """The Spark session, under a name that can be bound without importing Spark."""

    session: Any


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
        """The session that is running already, or one of our own, stopped in the end."""
        format_ = self.table_format()
        with _installed("pyspark", extra=format_.extra):
            from pyspark.sql import SparkSession

            from ..adapters.spark.session import KAFKA_PACKAGE, open_session

        kafka = any(isinstance(source.input, KafkaInput) for source in deployment.sources.values())
        running = SparkSession.getActiveSession()
        session = open_session(
            deployment.backend.spark,
            packages=[*format_.package.PACKAGES, *([KAFKA_PACKAGE] if kafka else [])],
            extensions=format_.package.EXTENSIONS,
            defaults=format_.package.SETTINGS,
        )
        if running is None:
            exits.callback(session.stop)
        return _Spark(session)

    @singleton
    @provider
    def engine(self, spark: _Spark, deployment: Deployment) -> FrameEngine:
        """Spark."""
        from ..adapters.spark.engine import SparkEngine

        return SparkEngine(spark.session, fixed=deployment.backend.spark)

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


class DeltaBackend(_SparkBackend):
    """Tables in Delta Lake, frames of Spark."""

    @classmethod
    def table_format(cls) -> TableFormat:
        """Delta Lake."""
        from ..adapters.delta import package

        return TableFormat(package, "delta")

    @singleton
    @provider
    def store(self, spark: _Spark, deployment: Deployment) -> KeptStore:
        """Tables in Delta Lake."""
        from ..adapters.delta.store import DeltaStore

        return DeltaStore(spark.session, _folder(deployment))


class _HudiBackend(_SparkBackend):
    """Tables in Apache Hudi, frames of Spark."""

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
        from ..adapters.hudi.definition import TableType
        from ..adapters.hudi.store import HudiStore

        return HudiStore(spark.session, _folder(deployment), TableType(self.table_type))


class HudiMorBackend(_HudiBackend):
    """Keyed tables are merged when they are read: the cheapest epoch."""

    table_type = "MERGE_ON_READ"


class HudiCowBackend(_HudiBackend):
    """Tables are merged when they are written: the cheapest read."""

    table_type = "COPY_ON_WRITE"
