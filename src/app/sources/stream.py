"""Batches of a Structured Streaming query that the program runs."""

from __future__ import annotations

from typing import Any

from ...domain.ports import StreamSource
from ...domain.source.record_spec import RecordSpec
from ..deployment.deployment import StreamInput
from ..document.section import Section
from ..registry.backends import Gap, Part
from ..registry.sources import SourceKind

NO_STREAMS = Gap(Part.STREAMS, "they hand over Spark frames; use a backend on Spark, such as delta")


class StreamKind(SourceKind[StreamInput]):
    """``kind = "stream"``."""

    def parse(self, table: Section) -> StreamInput:
        return StreamInput()

    def open_polars(self, settings: StreamInput, records: RecordSpec, backend: str) -> StreamSource:
        raise NO_STREAMS.error(backend)

    def open_spark(self, settings: StreamInput, records: RecordSpec, session: Any, backend: str) -> StreamSource:
        from ...adapters.spark.handed_source import HandedSource

        return HandedSource(records, session)
