"""A Python function over the Arrow batches of a Spark frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.rdd import PythonEvalType
from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction

from .schema import spark_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from ...domain.schema import Schema


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: Schema
) -> DataFrame:
    """What the function makes of each partition's batches, in the columns of a schema.

    As `DataFrame.mapInArrow`, which refuses to work without pandas although it makes no use of it: PySpark 3.5 asks for
    a NumPy older than 2, which no current PyArrow loads, so a user may not be able to have both.
    """
    evaluation = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
    column = UserDefinedFunction(function, spark_schema(schema), evalType=evaluation)(*frame.columns)
    return DataFrame(frame._jdf.pythonMapInArrow(column._jc.expr(), False), frame.sparkSession)
