"""Frames of the engines that ship, from rows of values: mix-ins for the contract classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import narwhals as nw
    from pyspark.sql import SparkSession

    from ..domain.schema import Schema


def polars_frame(rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
    """A Polars frame from rows of values."""
    import narwhals as nw
    import polars as pl

    from ..adapters.memory.schema import polars_schema

    return nw.from_native(pl.DataFrame(rows, schema=polars_schema(schema), orient="row").lazy())


class PolarsFrames:
    """Frames of Polars."""

    def frame(self, rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
        return polars_frame(rows, schema)


class SparkFrames:
    """Frames of the Spark session that a fixture named `spark` gives."""

    @pytest.fixture(autouse=True)
    def _session(self, spark: SparkSession) -> None:
        self.spark = spark

    def frame(self, rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
        from ..adapters.spark.schema import frame_of

        return frame_of(self.spark, schema, rows)

    def explaining(self) -> AbstractContextManager[None]:
        from ..adapters.spark.faults import explained

        return explained()
