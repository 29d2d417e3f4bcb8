"""Headwater schemas as Spark's, and frames made from rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from .jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, SparkSession

    from ...domain.schema import DataType, Schema

_TYPES: dict[str, type[spark_types.DataType]] = {
    "tinyint": spark_types.ByteType,
    "smallint": spark_types.ShortType,
    "int": spark_types.IntegerType,
    "bigint": spark_types.LongType,
    "float": spark_types.FloatType,
    "double": spark_types.DoubleType,
    "string": spark_types.StringType,
    "boolean": spark_types.BooleanType,
    "binary": spark_types.BinaryType,
    "date": spark_types.DateType,
    "timestamp": spark_types.TimestampType,
    "timestamp_ntz": spark_types.TimestampNTZType,
}


def spark_type(data_type: DataType) -> spark_types.DataType:
    """A column type as Spark's."""
    if data_type.precision is not None:
        return spark_types.DecimalType(data_type.precision, data_type.scale or 0)
    return _TYPES[data_type.name]()


def spark_schema(schema: Schema) -> spark_types.StructType:
    """A schema as Spark's; every column may hold null."""
    return spark_types.StructType(
        [spark_types.StructField(each.name, spark_type(each.type)) for each in schema.columns]
    )


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def named(column: str) -> Column:
    """The column of a name, whatever characters the name has."""
    return F.col(quoted(column))


def typed(rows: DataFrame, schema: Schema, *more: str) -> DataFrame:
    """The schema's columns in its types, null where the rows lack one; and `more`, in SQL.

    In SQL, because each `Column` made on the way costs several calls into the JVM.
    """
    there = set(rows.columns)
    columns = ((quoted(each.name) if each.name in there else "NULL", each) for each in schema.columns)
    return rows.selectExpr(*(f"CAST({sql} AS {each.type.ddl}) AS {quoted(each.name)}" for sql, each in columns), *more)


def lazy(rows: DataFrame) -> nw.LazyFrame[Any]:
    """A Spark frame as narwhals has it."""
    frame: nw.LazyFrame[Any] = nw.from_native(rows)
    return frame


def frame_of(session: SparkSession, schema: Schema, rows: Iterable[tuple[Any, ...]]) -> nw.LazyFrame[Any]:
    """A frame of Python rows, values in the order of the schema's columns."""
    return lazy(session.createDataFrame(list(rows), spark_schema(schema)))


def frame_of_plan(session: SparkSession, plan: Any) -> DataFrame:
    """The rows of a Java plan, in this session, whichever it was made in."""
    return DataFrame(java_class(session, "org.apache.spark.sql.Dataset").ofRows(session._jsparkSession, plan), session)


def bring_into(session: SparkSession, frame: DataFrame) -> DataFrame:
    """The rows of another session's frame, in this one: not computed yet, and its columns mean what they meant."""
    return frame_of_plan(session, frame._jdf.queryExecution().analyzed())


def empty_frame(session: SparkSession, schema: Schema) -> DataFrame:
    """A frame of no rows that Spark knows to be empty, so that joins with it are planned away."""
    java_session = session._jsparkSession
    java_schema = java_session.parseDataType(spark_schema(schema).json())
    return DataFrame(java_session.createDataFrame(java_class(session, "java.util.ArrayList")(), java_schema), session)
