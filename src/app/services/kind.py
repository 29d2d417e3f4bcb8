"""The interface of a kind of service; finds kinds by their entry points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from attrs import evolve, field, frozen

from ...domain.errors import ConfigError
from ...domain.ledger.retention import Retention
from ...domain.ports import BulkSource, FrameEngine, QueryEngine, Source, StreamSource
from ...domain.service.base import Service, ServiceSettings, Views
from ...domain.service.input import ViewOf
from ...domain.table.view_spec import ViewSpec
from ..deployment.deployment import PipelineSettings, SourceSettings
from ..document.section import Section
from ..document.value_types import Key
from ..registry import installed
from ..registry.backends import Sources
from ..run.bootstrap import HistoryTable
from ..run.runner import Runner
from .texts import Columns, Text

GROUP = "headwater.services"
_SHIPPED = ("ranking", "retraction", "cumulate", "wide_table", "snapshots", "bulk_merge", "materialized_view")
"""The order in which messages list the services that Headwater ships; others follow by name."""
_Settings = TypeVar("_Settings", bound=ServiceSettings)
_Service = TypeVar("_Service", bound=Service)


@frozen(eq=False)
class Parts:
    """The parts that a service is built from.

    Args:
        engine: of its frames.
        queries: returns the engine of its SQL.
        view: returns the view of another pipeline.
    """

    engine: FrameEngine
    _queries: Callable[[], QueryEngine] = field(repr=False)
    view: Callable[[ViewOf], ViewSpec]

    @property
    def queries(self) -> QueryEngine:
        """The engine of its SQL.

        Raises:
            NotSupported: the backend runs no SQL.
        """
        return self._queries()


@frozen(eq=False)
class SourceParts(Parts):
    """The parts that the source of a pipeline is opened with.

    Args:
        sources: opens sources on the engine of the backend.
        settings: the sources of the deployment, by name.
        runner: returns the runner of another pipeline by its name.
        generation: of the pipeline's tables that is being built; None for the current one.
    """

    sources: Sources
    settings: Mapping[str, SourceSettings]
    runner: Callable[[str], Runner]
    generation: int | None = None

    def open(self, name: str, **records: Any) -> StreamSource:
        """Open a source of the deployment.

        Args:
            name: of the source.
            records: attributes of its `RecordSpec` that the service changes.
        """
        source = self.settings[name]
        return self.sources.open(evolve(source, records=evolve(source.records, **records)))


class ServiceKind(ABC, Generic[_Settings, _Service]):
    """What a deployment must know of a service: its keys, and how it is built, opened, checked and explained.

    A package adds a service by an entry point in the group ``headwater.services`` whose object is a subclass. The name
    of the entry point is the value of a pipeline's ``service``, and the `kind` of the service's settings.
    """

    keys: ClassVar[Mapping[str, Key]]
    """The keys of a pipeline's table, such as `OF_ONE_SOURCE` and its own."""

    uses_idle: ClassVar[bool] = False
    """Whether a watermark that advances without rows changes a result (`Service.idle`)."""

    expires_each_epoch: ClassVar[bool] = False
    """Whether a retention of its own is applied after each epoch, unless ``expire_every`` says otherwise."""

    @abstractmethod
    def parse(self, table: Section, sources: Mapping[str, SourceSettings]) -> PipelineSettings:
        """Return the pipeline of a table of the configuration: `source`, `service` and `bulk`; the rest is added to it.

        Args:
            table: the values of `keys`; its name is that of the pipeline.
            sources: of the deployment, by name.

        Raises:
            ConfigError: names file, line and key of the first mistake, and what is allowed.
        """

    @abstractmethod
    def build(self, settings: _Settings, parts: Parts) -> _Service:
        """Create the service.

        Raises:
            ConfigError: it refuses its settings.
            NotSupported: it needs SQL, and the backend runs none.
        """

    def open(
        self,
        settings: _Settings,  # noqa: ARG002 - for those that it matters to
        pipeline: PipelineSettings,
        parts: SourceParts,
    ) -> Source:
        """Open what its epochs read: by default the pipeline's source."""
        return parts.open(pipeline.sources[0])

    def open_bulk(
        self,
        settings: _Settings,  # noqa: ARG002 - for those that load in bulk
        pipeline: PipelineSettings,  # noqa: ARG002
        sources: Sources,  # noqa: ARG002
    ) -> BulkSource | None:
        """Open the table that it loads in bulk; None if it loads none.

        Raises:
            NotSupported: the engine of these sources cannot read from there.
        """
        return None

    def history(
        self,
        settings: _Settings,
        pipeline: PipelineSettings,  # noqa: ARG002 - for those that have one
        tables: Mapping[str, HistoryTable],  # noqa: ARG002
        files: int,  # noqa: ARG002
        parts: SourceParts,  # noqa: ARG002
    ) -> tuple[Service, Source]:
        """Open the history of its topics as a source, and create the service that reads it.

        Args:
            settings: of the service.
            pipeline: with the sources of the topics.
            tables: the history of each topic that has one.
            files: the greatest number of files of each topic in a chunk.
            parts: opens sources.

        Raises:
            ConfigError: the service loads no history, or has no such topic.
            NotSupported: the backend does not read a table's format.
        """
        raise ConfigError(f"pipeline {settings.pipeline!r} is not a wide table; only wide tables can load a history")

    def reads(self, settings: _Settings) -> Mapping[str, ViewOf]:  # noqa: ARG002 - for those that read some
        """The views of other pipelines that it reads, by input."""
        return {}

    def check(self, settings: _Settings, views: Mapping[str, ViewSpec], retention: Retention) -> None:
        """Check what its settings alone do not show, before anything starts.

        Args:
            settings: of the service.
            views: that it `reads`, by input.
            retention: of its tables.

        Raises:
            ConfigError: begins with the key.
        """

    def texts(self, settings: _Settings, service: _Service, columns: Columns) -> Iterator[Text]:  # noqa: ARG002 - likewise
        """Yield the SQL texts that ``headwater check`` compiles.

        Args:
            settings: of the service.
            service: as `build` returns it.
            columns: knows the columns of its inputs.
        """
        yield from ()

    def describe_inputs(self, settings: _Settings, pipeline: PipelineSettings) -> str:  # noqa: ARG002 - likewise
        """What it reads, for ``headwater check``."""
        return f"source {pipeline.source}"

    def describe(self, settings: _Settings) -> Iterator[str]:  # noqa: ARG002 - likewise
        """Yield lines about it for ``headwater check``, such as how it recognises repeats."""
        yield from ()

    def explain(self, settings: _Settings, service: _Service) -> Iterator[str]:  # noqa: ARG002 - likewise
        """Yield the lines of ``headwater explain``.

        Raises:
            ConfigError: it is not a materialized view.
        """
        raise ConfigError(
            f"pipeline {settings.pipeline!r} is not a materialized view; `headwater check` explains other pipelines"
        )


def available() -> tuple[str, ...]:
    """The names of the services that are installed."""
    names = installed.available(GROUP)
    return (*(name for name in _SHIPPED if name in names), *(name for name in names if name not in _SHIPPED))


@cache  # a search reads the metadata of every installed package
def load_service(name: str) -> ServiceKind[Any, Any]:
    """Load a kind of service by name.

    Raises:
        ConfigError: no service of that name is installed, or its entry point is not a `ServiceKind`.
    """
    return installed.load(GROUP, name, ServiceKind)()


def kind_of(pipeline: PipelineSettings) -> ServiceKind[Any, Any]:
    """Load the kind of a pipeline's service; see `load_service`."""
    return load_service(pipeline.service.kind)


def find_inputs(pipeline: PipelineSettings) -> list[str]:
    """The names of the pipelines that a pipeline reads, each once."""
    return list(dict.fromkeys(each.pipeline for each in kind_of(pipeline).reads(pipeline.service).values()))


def describe(pipeline: PipelineSettings, service: Views) -> tuple[str, ...]:
    """A pipeline for display: its name, the kind of its service, what it reads, and its views."""
    reads = kind_of(pipeline).describe_inputs(pipeline.service, pipeline)
    return pipeline.name, pipeline.service.kind, reads, ", ".join(view.name for view in service.views)
