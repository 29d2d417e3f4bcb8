"""Rows from Polars to Spark and back, as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_schema

from ....domain.table.schema import Schema
from ...memory_limit import hold_rows
from ...polars.schema import empty, polars_schema
from ...spark.arrow_map import with_offsets
from ...spark.schema import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def to_polars(rows: DataFrame, schema: Schema) -> pl.DataFrame:
    """The rows of a frame of Spark, computed; they must fit into memory."""
    batches = rows._collect_as_arrow()
    if not batches:
        return empty(schema)
    table = pa.Table.from_batches(batches)
    hold_rows(table.nbytes)
    found = pl.DataFrame(pl.from_arrow(with_offsets(table)))
    return found.select(pl.col(name).cast(dtype) for name, dtype in polars_schema(schema).items())


def to_spark(session: SparkSession, rows: pl.DataFrame, schema: Schema) -> DataFrame:
    """Rows in exactly a schema's columns as a frame of Spark; few rows become a part of its plan."""
    structure = spark_schema(schema)
    arrow = rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(to_arrow_schema(structure))
    jvm: Any = session._jvm
    made = session._sc._serialize_to_jvm(
        [batch for batch in arrow.to_batches() if batch.num_rows],  # Spark reads no rows behind an empty batch
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    return DataFrame(jvm.PythonSQLUtils.toDataFrame(made, structure.json(), session._jsparkSession), session)
