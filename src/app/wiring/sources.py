"""Opens every kind of source as frames of Polars or Spark; a backend binds the class for its engine."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from ...domain.ports import BulkSource, StreamSource
from ...domain.source.bulk import BulkSpec
from ..config import BulkInput, SourceSettings
from ..registry.backends import Sources
from ..registry.sources import load_bulk_kind, load_source_kind
from ..sources.bulk_files import NO_DELTA
from ..sources.bulk_jdbc import NO_DATABASES
from ..sources.stream import NO_STREAMS


@frozen
class PolarsSources(Sources):
    """Sources as Polars frames.

    Args:
        backend: the name of the backend, for messages.
    """

    backend: str

    gaps = (NO_STREAMS, NO_DATABASES, NO_DELTA)
    """The parts that a backend on Polars does not offer."""

    def open(self, settings: SourceSettings) -> StreamSource:
        given = settings.input
        return load_source_kind(given.kind).open_polars(given, settings.records, self.backend)

    def open_bulk(self, settings: BulkInput, spec: BulkSpec) -> BulkSource:
        return load_bulk_kind(settings.kind).open_polars(settings, spec, self.backend)


@frozen(eq=False)
class SparkSources(Sources):
    """Sources as frames of a Spark session.

    Args:
        session: of the backend.
        backend: the name of the backend, for messages.
    """

    session: Any
    backend: str = "Spark"

    def open(self, settings: SourceSettings) -> StreamSource:
        given = settings.input
        return load_source_kind(given.kind).open_spark(given, settings.records, self.session, self.backend)

    def open_bulk(self, settings: BulkInput, spec: BulkSpec) -> BulkSource:
        return load_bulk_kind(settings.kind).open_spark(settings, spec, self.session, self.backend)
