"""Maps the Arrow batches of a Spark frame with a Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.rdd import PythonEvalType
from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction

from ...domain.table.schema import Schema
from .schema import spark_schema


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: Schema
) -> DataFrame:
    """The results of the function for the batches of each partition, in the columns of a schema.

    This is `DataFrame.mapInArrow`, which requires pandas although it does not use it: PySpark 3.5 needs a NumPy older
    than 2, which no current PyArrow loads, so a user may not be able to install both.
    """
    evaluation = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    column = UserDefinedFunction(function, spark_schema(schema), evalType=evaluation)(*frame.columns)
    return DataFrame(frame._jdf.pythonMapInArrow(column._jc.expr(), False), frame.sparkSession)


def with_offsets(table: pa.Table) -> pa.Table:
    """A table that Spark has written, copied: Spark leaves out the offsets of lists that are all empty."""
    return table.take(pa.array(range(table.num_rows)))
