"""Backends by entry point: what one is, which are installed, and how one is loaded."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from enum import Enum
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, ClassVar, Protocol

from attrs import evolve, frozen
from injector import Module

from ..domain.errors import ConfigError, NotSupported

if TYPE_CHECKING:
    from ..domain.bulk import BulkSpec
    from ..domain.ports import BulkSource, StreamSource
    from .config.values import BulkInput, Deployment, SourceSettings

GROUP = "headwater.backends"
_JOINED = ("spark.jars.packages", "spark.sql.extensions")


class Part(Enum):
    """What a backend may lack; everything else every backend has."""

    DURABILITY = "tables that outlive the process"
    STREAMS = "sources of kind stream"
    DATABASES = "bulk loads from a database"
    DELTA_TABLES = "bulk loads of Delta tables"
    SQL = "SQL of the user's own"
    BASE_FILES = "read-optimized views"
    RETYPING = "published columns that change their type"


@frozen
class Gap:
    """A declared gap of a backend: the part it does not offer, and what to do about it."""

    part: Part
    remedy: str

    def error(self, backend: str) -> NotSupported:
        """What to raise where the part is asked for."""
        return NotSupported(self.part.value, backend, self.remedy)


class Sources(Protocol):
    """The sources that a backend's engine can read."""

    @abstractmethod
    def open(self, settings: SourceSettings) -> StreamSource:
        """A source, ready to plan; it need not be reachable yet."""

    @abstractmethod
    def open_bulk(self, settings: BulkInput, spec: BulkSpec) -> BulkSource:
        """A table to be loaded in bulk, ready to plan; it need not be reachable yet.

        Args:
            settings: where it is.
            spec: what its rows hold.

        Raises:
            NotSupported: the engine cannot read from there.
        """


class Backend(Module):
    """A backend: an injector module that binds `KeptStore`, `FrameEngine` and `Sources`, and `QueryEngine` if it can.

    A package adds one by an entry point of the group ``headwater.backends`` whose object is a subclass; the entry
    point's name is what ``backend.name`` says. Its providers may ask for `Deployment` and for `contextlib.ExitStack`,
    which closes what they put on it. Import the engine inside the providers, so that it loads only when chosen. See
    `headwater.app.container` for the two that ship.
    """

    needs_path: ClassVar[bool] = True
    """Whether ``backend.path`` must be given."""

    gaps: ClassVar[tuple[Gap, ...]] = ()
    """What it does not offer; the table in docs/backends.md is made of these."""

    packages: ClassVar[Mapping[str, str]] = {}
    """Packages that must be installed beside Headwater's own, and the extra of Headwater that each comes with."""

    @classmethod
    def spark_settings(cls) -> Mapping[str, str]:
        """What a Spark session must be started with to serve this backend; nothing where it needs none."""
        return {}

    @classmethod
    def offers(cls, part: Part) -> bool:
        """Whether the backend has declared no gap there."""
        return part not in {gap.part for gap in cls.gaps}


def available() -> tuple[str, ...]:
    """The names of the backends that are installed."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def load_backend(name: str) -> type[Backend]:
    """The backend of a name.

    Raises:
        ConfigError: none of that name is installed, or what is installed is no `Backend`.
    """
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        raise ConfigError(f"backend {name!r} is not available here; available: {', '.join(available())}")
    backend = found[0].load()
    if not (isinstance(backend, type) and issubclass(backend, Backend)):
        raise ConfigError(
            f"entry point {found[0].value!r} of backend {name!r} must be a headwater.app.backends.Backend"
        )
    return backend


def on_one_session(*deployments: Deployment) -> list[Deployment]:
    """Deployments that can be open at once in one process: whichever starts Spark, starts it for all of them."""
    needed: dict[str, str] = {}
    for each in deployments:
        for name, value in load_backend(each.backend.name).spark_settings().items():
            needed[name] = f"{needed[name]},{value}" if name in _JOINED and name in needed else value
    return [evolve(each, backend=evolve(each.backend, spark=_with(each.backend.spark, needed))) for each in deployments]


def _with(given: Mapping[str, str], needed: Mapping[str, str]) -> dict[str, str]:
    joined = {name: f"{needed[name]},{given[name]}" for name in _JOINED if name in needed and name in given}
    return {**needed, **given, **joined}
