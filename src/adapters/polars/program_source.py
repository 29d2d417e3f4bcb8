"""Frames that a program pushes, as Polars frames."""

from __future__ import annotations

from typing import Any

import narwhals as nw
from attrs import define

from ...domain.epoch.epoch import OffsetRange
from ...domain.errors import EngineLimit
from ..records.dead_letters import FrameDeadLetters
from ..records.polars_rows import polars_dead_letters, polars_rows
from ..records.program_frames import is_of_spark
from ..records.program_source import LentRows, ProgramSource


@define(eq=False)
class PolarsProgramSource(ProgramSource):
    """The source of a pipeline that `Headwater.push` or, with small batches, `Headwater.foreach_batch` feeds."""

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the pushed frame.

        Raises:
            BadInput: a declared column is missing, or its type could lose values.
            EngineLimit: it is a frame of Spark, and there is no Spark here or it has too many rows.
        """
        frame = self.frame_of(offsets)
        if isinstance(frame.rows, LentRows):
            return polars_rows(frame.rows.collect(frame), self.schema)
        if is_of_spark(frame.rows):
            raise EngineLimit("the pushed frame is one of Spark: push frame.toPandas(), or choose a backend on Spark")
        return polars_rows(self.decode(frame), self.schema)

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return polars_dead_letters(letters, FrameDeadLetters(self.spec), self.schema)
