"""Frames that a program hands over: it pushes them, or runs a Structured Streaming query."""

from __future__ import annotations

from typing import Any

from ...domain.ports import StreamSource
from ...domain.source.record_spec import RecordSpec
from ..deployment.deployment import StreamInput
from ..document.section import Section
from ..registry.backends import Gap, Part
from ..registry.sources import SourceKind

NO_STREAMS = Gap(
    Part.STREAMS,
    "their frames are Spark's; push frames of Polars, or compute on Spark, for example with backend.name ="
    ' "delta" and backend.engine = "spark"',
)


class StreamKind(SourceKind[StreamInput]):
    """``kind = "stream"``."""

    def parse(self, table: Section) -> StreamInput:
        return StreamInput()

    def open_polars(self, settings: StreamInput, records: RecordSpec, backend: str) -> StreamSource:
        from ...adapters.polars.program_source import PolarsProgramSource

        return PolarsProgramSource(records)

    def open_spark(self, settings: StreamInput, records: RecordSpec, session: Any, backend: str) -> StreamSource:
        from ...adapters.spark.program_source import SparkProgramSource

        return SparkProgramSource(records, session)
