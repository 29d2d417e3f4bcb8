"""Rows from Polars to Spark and back, as Arrow."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_schema

from ....domain.errors import EngineLimit
from ....domain.table.schema import Schema
from ...memory_limit import hold_rows
from ...polars.schema import empty, polars_schema
from ...spark.arrow_map import with_offsets
from ...spark.schema import spark_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_MEBIBYTE = 1024 * 1024
_BATCH_BYTES = 8 * _MEBIBYTE
"""About the size of a batch of rows for Spark. Each batch is a partition: the cores of Spark share the work, and a task
is far below Spark's limit (`spark.rpc.message.maxSize`)."""
_HEAP_SHARE = 4
"""Rows for Spark may take one part in so many of its heap, because it holds them more than once."""


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
    """Rows in exactly a schema's columns as a frame of Spark, in their order; few rows become a part of its plan.

    Raises:
        EngineLimit: they are too many for the heap of Spark's driver.
    """
    structure = spark_schema(schema)
    arrow = rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(to_arrow_schema(structure))
    jvm: Any = session._jvm
    _check_heap(arrow.nbytes, int(jvm.java.lang.Runtime.getRuntime().maxMemory()))
    made = session._sc._serialize_to_jvm(
        _batches(arrow),
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    return DataFrame(jvm.PythonSQLUtils.toDataFrame(made, structure.json(), session._jsparkSession), session)


def _check_heap(size: int, heap: int) -> None:
    """Check that rows fit into the heap of Spark's driver, which would end without a word otherwise.

    Args:
        size: of the rows, in bytes.
        heap: the largest size of the heap, in bytes.
    """
    if size > heap // _HEAP_SHARE:
        raise EngineLimit(
            f"it hands {ceil(size / _MEBIBYTE):,} MiB of rows to Spark, and a heap of {heap // _MEBIBYTE:,} MiB takes"
            f" {heap // _HEAP_SHARE // _MEBIBYTE:,} MiB at once: raise spark.driver.memory under [backend.spark], read"
            ' less in an epoch (max_bytes_per_epoch), or set engine = "spark"'
        )


def _batches(arrow: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows as batches of about `_BATCH_BYTES`, none of them empty: Spark reads no rows behind that."""
    rows = max(1, arrow.num_rows * _BATCH_BYTES // max(1, arrow.nbytes))
    yield from (batch for batch in arrow.to_batches(max_chunksize=rows) if batch.num_rows)
