"""Frames of the session that the tests share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

    import narwhals as nw
    from pyspark.sql import SparkSession

    from headwater.domain.schema import Schema


class SparkFrames:
    """A part of a harness, with the session as `spark`."""

    @pytest.fixture(autouse=True)
    def _session(self, spark: SparkSession) -> None:
        self.spark = spark

    def frame(self, rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
        from headwater.adapters.spark.schema import frame_of

        return frame_of(self.spark, schema, rows)
