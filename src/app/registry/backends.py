"""The interface of a backend; finds and loads installed backends by their entry points."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, Protocol

from attrs import evolve, frozen
from injector import Module

from ...domain.errors import ConfigError, NotSupported
from ...domain.ports import BulkSource, StreamSource
from ...domain.source.bulk import BulkSpec
from ..deployment.deployment import BackendSettings, BulkInput, Deployment, SourceSettings
from . import installed

GROUP = "headwater.backends"
_JOINED = ("spark.jars.packages", "spark.sql.extensions")


class Part(Enum):
    """The optional parts of a backend; every backend offers everything else."""

    DURABILITY = "tables that outlive the process"
    STREAMS = "batches of Structured Streaming"
    DATABASES = "bulk loads from a database"
    DELTA_TABLES = "bulk loads of Delta tables"
    SQL = "user-supplied SQL"
    BASE_FILES = "read-optimized views"
    RETYPING = "published columns that change their type"


@frozen
class Gap:
    """A declared gap of a backend: a part that it does not offer, and the remedy."""

    part: Part
    remedy: str

    def error(self, backend: str) -> NotSupported:
        """The error to raise when the part is used."""
        return NotSupported(self.part.value, backend, self.remedy)


class Sources(Protocol):
    """The sources that a backend's engine can read."""

    @abstractmethod
    def open(self, settings: SourceSettings) -> StreamSource:
        """Return a source that can plan epochs; it need not be reachable yet."""

    @abstractmethod
    def open_bulk(self, settings: BulkInput, spec: BulkSpec) -> BulkSource:
        """Return a table to load in bulk that can plan epochs; it need not be reachable yet.

        Args:
            settings: its location.
            spec: describes its rows.

        Raises:
            NotSupported: the engine cannot read from there.
        """


class Backend(Module):
    """A backend: an injector module that binds `KeptStore`, `FrameEngine` and `Sources`, and optionally `QueryEngine`.

    A package adds a backend by an entry point in the group ``headwater.backends`` whose object is a subclass; the name
    of the entry point is the value of ``backend.name``. Its providers may request `Deployment` and
    `contextlib.ExitStack`, which closes everything that they push on it. Import the engine inside the providers, so
    that it is loaded only if the backend is chosen. See `headwater.app.wiring.backends` for examples.
    """

    needs_path: ClassVar[bool] = True
    """Whether ``backend.path`` is required."""

    gaps: ClassVar[tuple[Gap, ...]] = ()
    """The parts that it does not offer; they make the table in docs/backends.md."""

    engine_name: ClassVar[str] = ""
    """The value of ``backend.engine`` that names it; empty if it is the only one of its name."""

    engines: ClassVar[tuple[type[Backend], ...]] = ()
    """If an engine is chosen for each epoch: the backend for small epochs, and the one for all others; else empty."""

    large_frames: ClassVar[bool] = False
    """If it has several engines: whether programs get frames of the last one; else they get those of the first."""

    packages: ClassVar[Mapping[str, str]] = {}
    """Packages that must be installed besides Headwater's own, each with the extra of Headwater that installs it."""

    @classmethod
    def chosen(cls, settings: BackendSettings) -> type[Backend]:
        """Return the backend for these settings: of several engines, the one that they name.

        Raises:
            ConfigError: there is no such engine, or it cannot do what the other settings ask.
        """
        if settings.engine not in {None, "auto", "spark" if cls.computes_on_spark() else "local"}:
            raise ConfigError(f"backend {settings.name} has one engine only: leave this key out")
        return cls

    @classmethod
    def for_metadata(cls, settings: BackendSettings) -> type[Backend]:
        """Return the backend that reads versions and columns of tables: of several engines, the one that starts first.

        Raises the same errors as `chosen`.
        """
        chosen = cls.chosen(settings)
        return chosen.engines[0] if chosen.engines else chosen

    @classmethod
    def spark_settings(cls) -> Mapping[str, str]:
        """The settings with which a Spark session must be started for this backend; empty if it uses no Spark."""
        return {}

    @classmethod
    def computes_on_spark(cls) -> bool:
        """Whether Spark computes the epochs, and not only writes the tables."""
        return bool(cls.spark_settings())

    @classmethod
    def offers(cls, part: Part) -> bool:
        """Whether the backend offers the part: it has declared no gap for it."""
        return part not in {gap.part for gap in cls.gaps}


def available() -> tuple[str, ...]:
    """The names of the backends that are installed."""
    return installed.available(GROUP)


def load_backend(name: str) -> type[Backend]:
    """Load a backend by name.

    Raises:
        ConfigError: no backend of that name is installed, or its entry point is not a `Backend`.
    """
    return installed.load(GROUP, name, Backend)


def chosen_backend(settings: BackendSettings) -> type[Backend]:
    """Load a backend, for the engine that the settings name; see `Backend.chosen`.

    Raises:
        ConfigError: no backend of that name is installed, its entry point is not a `Backend`, or it has no such engine.
    """
    return load_backend(settings.name).chosen(settings)


def on_one_session(*deployments: Deployment) -> list[Deployment]:
    """Return the deployments with joined Spark settings, so that one Spark in the process serves all of them."""
    needed: dict[str, str] = {}
    for each in deployments:
        for name, value in chosen_backend(each.backend).spark_settings().items():
            needed[name] = f"{needed[name]},{value}" if name in _JOINED and name in needed else value
    return [evolve(each, backend=evolve(each.backend, spark=_with(each.backend.spark, needed))) for each in deployments]


def _with(given: Mapping[str, str], needed: Mapping[str, str]) -> dict[str, str]:
    joined = {name: f"{needed[name]},{given[name]}" for name in _JOINED if name in needed and name in given}
    return {**needed, **given, **joined}
