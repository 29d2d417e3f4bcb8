"""The interfaces of kinds of source and of bulk load; finds installed ones by their entry points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from ...domain.errors import NotSupported
from ...domain.ports import BulkSource, StreamSource
from ...domain.source.bulk import BulkSpec
from ...domain.source.record_spec import RecordSpec
from ..deployment.deployment import BulkInput, Input
from ..document.section import Section
from ..document.value_types import Key
from . import installed

_I = TypeVar("_I", bound=Input)
_B = TypeVar("_B", bound=BulkInput)


class SourceKind(ABC, Generic[_I]):
    """A kind of source: its keys in ``[sources.NAME]``, and how it is opened on each engine.

    A package adds a kind by an entry point in the group ``headwater.sources`` whose object is a subclass. The name of
    the entry point is the value of ``kind``, and the `Input.kind` of its settings. Import a client inside the methods,
    so that it is loaded only if the kind is used. See `headwater.app.sources` for examples.
    """

    keys: ClassVar[Mapping[str, Key]] = {}
    """Its own keys, besides those that every source has."""

    formats: ClassVar[tuple[str, ...]] = ()
    """The formats of its records, the default first; empty if its rows are not decoded from records."""

    packages: ClassVar[Mapping[str, str]] = {}
    """Packages that it needs on Polars besides Headwater's own, each with the extra of Headwater that installs it."""

    def spark_packages(self) -> tuple[str, ...]:
        """The Maven packages that a Spark session needs to read it."""
        return ()

    @abstractmethod
    def parse(self, table: Section) -> _I:
        """Build the settings from a table of the configuration.

        Args:
            table: the values of `keys` and of the keys that every source has; it makes relative paths absolute, and
                errors that name the line of a key.

        Raises:
            ConfigError: names file, line and key of the first mistake, and what is allowed.
        """

    def check(self, settings: _I) -> None:  # noqa: ARG002 - overriding methods use it
        """Check settings that only the client of the source can judge, for ``headwater check``; without the network.

        Raises:
            ConfigError: the client refuses a setting.
        """
        return

    def open_polars(self, settings: _I, records: RecordSpec, backend: str) -> StreamSource:  # noqa: ARG002
        """Return a source of Polars frames that can plan epochs; it need not be reachable yet.

        Args:
            settings: of the source.
            records: how a record is read into a row.
            backend: its name, for messages.

        Raises:
            NotSupported: Polars cannot read it.
        """
        raise NotSupported(f"sources of kind {settings.kind}", backend, "use a backend on Spark, such as delta")

    def open_spark(self, settings: _I, records: RecordSpec, session: Any, backend: str) -> StreamSource:  # noqa: ARG002
        """Return a source of frames of a Spark session; see `open_polars`.

        Raises:
            NotSupported: Spark cannot read it.
        """
        raise NotSupported(f"sources of kind {settings.kind}", backend, "use a backend on Polars, such as memory")


class BulkKind(ABC, Generic[_B]):
    """A kind of table to load in bulk: its keys in the table ``bulk`` of a pipeline, and how it is opened.

    A package adds a kind by an entry point in the group ``headwater.bulk_loads``. Its name is also the key that a
    table of this kind must have, such as ``jdbc``; a table without such a key is of kind ``files``.
    """

    keys: ClassVar[Mapping[str, Key]]
    """All its keys."""

    @abstractmethod
    def parse(self, table: Section) -> _B:
        """Build the settings from a table of the configuration; see `SourceKind.parse`."""

    @abstractmethod
    def open_polars(self, settings: _B, spec: BulkSpec, backend: str) -> BulkSource:
        """Return a table as Polars frames that can plan epochs; it need not be reachable yet.

        Args:
            settings: of the table.
            spec: describes its rows.
            backend: its name, for messages.

        Raises:
            NotSupported: Polars cannot read it.
        """

    @abstractmethod
    def open_spark(self, settings: _B, spec: BulkSpec, session: Any, backend: str) -> BulkSource:
        """Return a table as frames of a Spark session; see `open_polars`."""


_SOURCES = "headwater.sources"
_BULK_LOADS = "headwater.bulk_loads"
_FILES = "files"
"""The kind of a table ``bulk`` without the key of another."""


def source_kinds() -> tuple[str, ...]:
    """The names of the kinds of source that are installed."""
    return installed.available(_SOURCES)


def load_source_kind(name: str) -> SourceKind[Any]:
    """Load a kind of source by name.

    Raises:
        ConfigError: no kind of that name is installed, or its entry point cannot be imported or is not a `SourceKind`.
    """
    return installed.load(_SOURCES, name, SourceKind)()


def spark_packages(kinds: Iterable[str]) -> list[str]:
    """The Maven packages that a Spark session needs to read sources of these kinds."""
    return [package for kind in sorted(set(kinds)) for package in load_source_kind(kind).spark_packages()]


def bulk_kind_of(table: Mapping[str, Any]) -> BulkKind[Any]:
    """Load the kind of a table ``bulk``, by the keys that it has."""
    return load_bulk_kind(next((name for name in installed.available(_BULK_LOADS) if name in table), _FILES))


def bulk_keys() -> dict[str, Mapping[str, Key]]:
    """The keys of each kind of bulk load, by the key that a table of this kind must have; empty for ``files``."""
    names = installed.available(_BULK_LOADS)
    return {"" if name == _FILES else name: load_bulk_kind(name).keys for name in names}


def load_bulk_kind(name: str) -> BulkKind[Any]:
    """Load a kind of bulk load by name.

    Raises:
        ConfigError: no kind of that name is installed, or its entry point cannot be imported or is not a `BulkKind`.
    """
    return installed.load(_BULK_LOADS, name, BulkKind)()
