"""Mix-ins for the contract classes that make Polars or Spark frames from rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest

from ..domain.table.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


BROKEN = "this record breaks its epoch"


def polars_frame(rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
    """A Polars frame from rows: tuples of values in the order of the schema's columns."""
    import narwhals as nw
    import polars as pl

    from ..adapters.polars.schema import polars_schema

    return nw.from_native(pl.DataFrame(rows, schema=polars_schema(schema), orient="row").lazy())


class PolarsFrames:
    """Makes Polars frames."""

    def frame(self, rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
        return polars_frame(rows, schema)

    def broken(self, schema: Schema) -> nw.LazyFrame[Any]:
        from ..adapters.polars.schema import lazy

        return lazy(polars_frame([], schema).to_native().map_batches(_break))


class SparkFrames:
    """Makes frames of the Spark session from the fixture `spark`."""

    @pytest.fixture(autouse=True)
    def _session(self, spark: SparkSession) -> None:
        self.spark = spark

    def frame(self, rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
        from ..adapters.spark.schema import frame_of

        return frame_of(self.spark, schema, rows)

    def broken(self, schema: Schema) -> nw.LazyFrame[Any]:
        from ..adapters.spark.schema import lazy

        columns = (f"CAST(raise_error('{BROKEN}') AS {each.type.ddl}) AS `{each.name}`" for each in schema.columns)
        return lazy(self.spark.range(1).selectExpr(*columns))

    def explaining(self) -> AbstractContextManager[None]:
        from ..adapters.spark.errors import explain_read_errors

        return explain_read_errors()


def _break(_rows: Any) -> Any:
    raise ValueError(BROKEN)
