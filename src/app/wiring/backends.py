"""The backends that ship with Headwater. Each imports its engine only inside its providers."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import frozen
from injector import provider, singleton

from ...adapters.delta.local.storage import SCHEMES
from ...domain.errors import ConfigError
from ...domain.ports import FrameEngine, KeptStore, QueryEngine
from ...domain.table.spec import RETYPING
from ..config import BackendSettings, Deployment
from ..registry.backends import Backend, Gap, Part, Sources
from ..registry.packages import is_installed, require
from ..registry.sources import spark_packages
from .sources import PolarsSources, SparkSources

if TYPE_CHECKING:
    from ...adapters.hudi.store import HudiStore

_NO_LOG = Gap(Part.BASE_FILES, "read the view itself, whose tables are compacted regularly")
_NO_RETYPING = Gap(Part.RETYPING, RETYPING)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


class _PolarsBackend(Backend):
    """A backend on Polars, for any store."""

    @classmethod
    def computes_on_spark(cls) -> bool:
        return False

    @singleton
    @provider
    def queries(self) -> QueryEngine:
        from ...adapters.memory.queries import DuckQueries

        return DuckQueries()

    @singleton
    @provider
    def sources(self, deployment: Deployment) -> Sources:
        engine = f' with engine = "{self.engine_name}"' if self.engine_name else ""
        return PolarsSources(f"{deployment.backend.name}{engine}")


class MemoryBackend(_PolarsBackend):
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
        from ...adapters.memory.store import MemoryStore

        return MemoryStore()

    @singleton
    @provider
    def engine(self) -> FrameEngine:
        from ...adapters.polars.engine import PolarsEngine

        return PolarsEngine()


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


class _SparkTables(Backend):
    """A backend whose tables are written by Spark, in any table format."""

    @classmethod
    @abstractmethod
    def table_format(cls) -> TableFormat:
        """The format of the tables."""

    @classmethod
    def spark_settings(cls) -> Mapping[str, str]:
        package = cls.table_format().package
        joined = {"spark.jars.packages": package.PACKAGES, "spark.sql.extensions": package.EXTENSIONS}
        return {**package.SETTINGS, **{name: ",".join(each) for name, each in joined.items()}}

    @singleton
    @provider
    def spark(self, deployment: Deployment, exits: ExitStack) -> _Spark:
        """Headwater's own session, in the running Spark or in a new one, which is stopped at the end."""
        format_ = self.table_format()
        with require("pyspark", extra=format_.extra):
            from ...adapters.spark.own_session import own_session, running_session
            from ...adapters.spark.session import open_session, stop_session

        needed = spark_packages(source.input.kind for source in deployment.sources.values())
        given, running = deployment.backend.spark, running_session()
        program = open_session(
            given,
            packages=[*format_.package.PACKAGES, *needed],
            extensions=format_.package.EXTENSIONS,
            defaults=format_.package.SETTINGS,
        )
        if running is None:
            exits.callback(stop_session, program)
        return _Spark(own_session(program, given, format_.package.SETTINGS), program)


class _SparkBackend(_SparkTables):
    """A backend on Spark, for any table format."""

    @singleton
    @provider
    def engine(self, spark: _Spark, deployment: Deployment) -> FrameEngine:
        from ...adapters.spark.engine import SparkEngine
        from ...adapters.spark.session import chosen_names

        fixed = {*deployment.backend.spark, *chosen_names(spark.session)}
        return SparkEngine(spark.session, fixed=fixed, program=spark.program)

    @singleton
    @provider
    def queries(self, spark: _Spark) -> QueryEngine:
        from ...adapters.spark.queries import SparkQueries

        return SparkQueries(spark.session)

    @singleton
    @provider
    def sources(self, spark: _Spark, deployment: Deployment) -> Sources:
        return SparkSources(spark.session, deployment.backend.name)


def _folder(deployment: Deployment) -> str:
    if deployment.backend.path is None:
        raise ConfigError(f"backend.path is missing; backend {deployment.backend.name} needs a folder for its tables")
    return deployment.backend.path


def _scheme(settings: BackendSettings) -> str | None:
    """The scheme of the tables' address; None if it is a path."""
    found = _SCHEME.match(settings.path or "")
    return found[1].lower() if found else None


def _file_bytes(deployment: Deployment) -> int:
    return deployment.backend.file_mb * 1024 * 1024


class _LocalBackend(_PolarsBackend):
    """A backend on Polars, for tables in a folder of this machine."""

    engine_name = "local"

    @singleton
    @provider
    def engine(self) -> FrameEngine:
        from ...adapters.polars.local_engine import LocalEngine

        return LocalEngine()


class _TwoEngines(_SparkBackend):
    """A backend on Spark whose tables have a local engine too, if they are in a folder of this machine."""

    engine_name = "spark"

    local: ClassVar[type[Backend]]
    """The same tables on the local engine."""

    in_bucket: ClassVar[type[Backend]]
    """The same in an object store."""

    addresses: ClassVar[tuple[str, ...]] = ()
    """The schemes of the addresses of object stores where the local engine can keep tables."""

    @classmethod
    @cache
    def on_both(cls, *, large_frames: bool) -> type[Backend]:
        """The same tables, each epoch on the local engine if it can, else on Spark; `large_frames`: see `Backend`."""
        own = {"engine_name": "auto", "engines": (cls.local, cls), "large_frames": large_frames}
        return type(f"Auto{cls.__name__}", (cls,), own)

    @classmethod
    def chosen(cls, settings: BackendSettings) -> type[Backend]:
        """Spark, the local engine, or both: by default both, where Spark works on this machine."""
        from ...adapters.spark.place import works_here

        if settings.engine not in {None, "auto", "spark", "local"}:
            raise ConfigError(f"is {settings.engine!r}; it must be one of auto, spark, local")
        if settings.engine == "spark":
            return cls
        installed = all(map(is_installed, cls.packages))
        if scheme := _scheme(settings):
            return cls._chosen_elsewhere(settings, scheme, installed=installed)
        if settings.engine is None and (settings.spark or installed):
            return cls.on_both(large_frames=True) if works_here(settings.spark) else cls
        return cls.on_both(large_frames=False) if settings.engine == "auto" and installed else cls.local

    @classmethod
    def _chosen_elsewhere(cls, settings: BackendSettings, scheme: str, *, installed: bool) -> type[Backend]:
        """Spark; or the local engine if it is asked for, or Spark is not installed, and it can use such addresses."""
        if scheme in cls.addresses and "://" in str(settings.path):
            return cls.in_bucket if settings.engine == "local" or not (installed or settings.spark) else cls
        if settings.engine != "local":
            return cls
        addresses = "".join(f", {each}://…" for each in cls.addresses)
        raise ConfigError(
            f"the local engine of {settings.name} keeps tables in a folder of this machine{addresses}, and not at"
            f' {settings.path}: set engine = "spark"'
        )


class LocalDeltaBackend(_LocalBackend):
    """Tables in Delta Lake, in a folder of this machine, frames of Polars: no JVM."""

    gaps = (*PolarsSources.gaps, _NO_LOG)
    packages = MappingProxyType({"deltalake": "delta-local"})

    @singleton
    @provider
    def store(self, deployment: Deployment) -> KeptStore:
        from ...adapters.delta.compaction_policy import CompactionPolicy
        from ...adapters.delta.local.store import LocalDeltaStore

        return LocalDeltaStore(_folder(deployment), CompactionPolicy(target_bytes=_file_bytes(deployment)))


class BucketDeltaBackend(LocalDeltaBackend):
    """The same in a bucket of an object store."""

    packages = MappingProxyType({**LocalDeltaBackend.packages, "obstore": "s3"})

    @singleton
    @provider
    def store(self, deployment: Deployment) -> KeptStore:
        with require("obstore", extra="s3"):
            return super().store(deployment)


class DeltaBackend(_TwoEngines):
    """Tables in Delta Lake, frames of Spark."""

    local = LocalDeltaBackend
    in_bucket = BucketDeltaBackend
    addresses = SCHEMES
    gaps = (_NO_LOG,)
    packages = MappingProxyType({"pyspark": "delta", "delta": "delta"})

    @classmethod
    def for_metadata(cls, settings: BackendSettings) -> type[Backend]:
        """The local engine where it is installed and sees the folder: it needs no JVM, whatever engine wrote."""
        chosen = super().for_metadata(settings)
        here = settings.path is not None and not _scheme(settings)
        return LocalDeltaBackend if here and all(map(is_installed, LocalDeltaBackend.packages)) else chosen

    @classmethod
    def table_format(cls) -> TableFormat:
        from ...adapters.delta import package

        return TableFormat(package, "delta")

    @singleton
    @provider
    def store(self, spark: _Spark, deployment: Deployment) -> KeptStore:
        from ...adapters.delta.compaction_policy import CompactionPolicy
        from ...adapters.delta.store import DeltaStore

        policy = CompactionPolicy(target_bytes=_file_bytes(deployment))
        return DeltaStore(spark.session, _folder(deployment), policy)


class _HudiTables(_SparkTables):
    """Tables in Apache Hudi."""

    packages = MappingProxyType({"pyspark": "hudi", "fastavro": "hudi"})

    table_type: ClassVar[str]

    @classmethod
    def table_format(cls) -> TableFormat:
        from ...adapters.hudi import package

        return TableFormat(package, "hudi")

    def open_store(self, kind: type[HudiStore], spark: _Spark, deployment: Deployment) -> HudiStore:
        """The store of this kind."""
        from ...adapters.hudi.compact import CompactionPolicy
        from ...adapters.hudi.spec import TableType

        policy = CompactionPolicy(target_bytes=_file_bytes(deployment))
        return kind(spark.session, _folder(deployment), TableType(self.table_type), compaction=policy)


class _HudiBackend(_HudiTables, _TwoEngines):
    """Tables in Apache Hudi, frames of Spark."""

    gaps = (_NO_RETYPING,)

    @singleton
    @provider
    def store(self, spark: _Spark, deployment: Deployment) -> KeptStore:
        from ...adapters.hudi.store import HudiStore

        return self.open_store(HudiStore, spark, deployment)


class _LocalHudiBackend(_LocalBackend, _HudiTables):
    """Tables in Apache Hudi, in a folder of this machine, frames of Polars: Spark makes them and does the upkeep."""

    gaps = (*PolarsSources.gaps, _NO_RETYPING)

    @singleton
    @provider
    def store(self, spark: _Spark, deployment: Deployment) -> KeptStore:
        from ...adapters.hudi.local.store import LocalHudiStore

        return self.open_store(LocalHudiStore, spark, deployment)


class _LocalHudiMorBackend(_LocalHudiBackend):
    table_type = "MERGE_ON_READ"


class HudiMorBackend(_HudiBackend):
    """Keyed tables are merged when they are read: the cheapest epoch."""

    local = _LocalHudiMorBackend
    table_type = local.table_type


class _LocalHudiCowBackend(_LocalHudiBackend):
    table_type = "COPY_ON_WRITE"


class HudiCowBackend(_HudiBackend):
    """Tables are merged when they are written: the cheapest read."""

    local = _LocalHudiCowBackend
    table_type = local.table_type
