"""Headwater schemas as Spark schemas, and frames made from rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from typing import Any

import narwhals as nw
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from ...domain.table.schema import DataType, Schema
from .jvm import each_of, java_class
from .own_session import working_in

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
    """The Spark type of a column type; a map is the array of its entries."""
    if data_type.element is not None:
        return spark_types.ArrayType(spark_type(data_type.element))
    if data_type.fields:
        return spark_types.StructType(
            [spark_types.StructField(each.name, spark_type(each.type)) for each in data_type.fields]
        )
    if data_type.precision is not None:
        return spark_types.DecimalType(data_type.precision, data_type.scale or 0)
    return _TYPES[data_type.name]()


def sorted_entries(value: Column, entry: Callable[[Column, Column], Column]) -> Column:
    """The entries of a map, in the order of their keys; `entry` makes each from its key and its value."""
    return F.transform(F.array_sort(F.map_keys(value)), lambda key: entry(key, value[key]))


def widened(value: Column, found: spark_types.DataType, kind: DataType, zone: str) -> Column:
    """A value in a declared type, which holds all values of its own; a map becomes its entries, sorted by their keys.

    Args:
        value: the value.
        found: its type.
        kind: the declared type.
        zone: IANA zone of times without a zone, where instants are declared.
    """
    wanted, element = spark_type(kind), kind.element
    if found.simpleString() == wanted.simpleString():
        return value.cast(wanted)
    if isinstance(found, spark_types.MapType) and element is not None:
        key, inside = element.fields
        return sorted_entries(
            value,
            lambda name, own: F.struct(
                widened(name, found.keyType, key.type, zone).alias(key.name),
                widened(own, found.valueType, inside.type, zone).alias(inside.name),
            ),
        )
    if isinstance(found, spark_types.ArrayType) and element is not None:
        return F.transform(value, lambda each: widened(each, found.elementType, element, zone))
    if isinstance(found, spark_types.StructType):
        fields = (widened(value[at.name], found[at.name].dataType, at.type, zone).alias(at.name) for at in kind.fields)
        return F.when(value.isNotNull(), F.struct(*fields))
    return in_zone(value.cast(wanted), found, kind, zone)


def in_zone(value: Column, found: spark_types.DataType, kind: DataType, zone: str) -> Column:
    """A value that was cast to a type which is not nested; one that had no zone, and is an instant now, was in `zone`.

    Of two such instants it is the earlier one; a time in a gap has the offset before it.
    """
    is_wall = isinstance(found, spark_types.TimestampNTZType) and kind.name == "timestamp"
    return F.to_utc_timestamp(value, zone) if is_wall and zone != "UTC" else value


def spark_schema(schema: Schema) -> spark_types.StructType:
    """The Spark schema of a schema; every column is nullable."""
    return spark_types.StructType(
        [spark_types.StructField(each.name, spark_type(each.type)) for each in schema.columns]
    )


def quoted(name: str) -> str:
    """A name, quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"


def named(column: str) -> Column:
    """The column with a name, which may have any characters."""
    return F.col(quoted(column))


def typed(rows: DataFrame, schema: Schema, *more: str) -> DataFrame:
    """The schema's columns in their types, and the columns `more`, which are SQL. A column that the rows lack is null.

    SQL is used, because each `Column` object costs several calls into the JVM.
    """
    there = set(rows.columns)
    columns = ((quoted(each.name) if each.name in there else "NULL", each) for each in schema.columns)
    return rows.selectExpr(*(f"CAST({sql} AS {each.type.ddl}) AS {quoted(each.name)}" for sql, each in columns), *more)


def lazy(rows: DataFrame) -> nw.LazyFrame[Any]:
    """A Spark frame as a narwhals frame."""
    frame: nw.LazyFrame[Any] = nw.from_native(rows)
    return frame


def frame_of(session: SparkSession, schema: Schema, rows: Iterable[tuple[Any, ...]]) -> nw.LazyFrame[Any]:
    """A frame of Python rows, values in the order of the schema's columns."""
    return lazy(session.createDataFrame(list(rows), spark_schema(schema)))


def literals(row: Mapping[str, Any], schema: Schema) -> Iterator[Column]:
    """The values of a row as columns of a schema."""
    for column in schema.columns:
        yield literal_column(row[column.name], column.type).alias(column.name)


def literal_column(value: Any, kind: DataType) -> Column:
    """A value as a column of a type."""
    if kind.element is not None and value is not None:
        made = F.array(*(literal_column(each, kind.element) for each in value))
    elif kind.fields and value is not None:
        made = F.struct(*(literal_column(value[each.name], each.type).alias(each.name) for each in kind.fields))
    else:
        # As text: Spark takes a time as an object in the zone of the process, and no date before the year 1000.
        made = F.lit(value.isoformat() if isinstance(value, date) else value)
    return made.cast(spark_type(kind))


def frame_of_plan(session: SparkSession, plan: Any) -> DataFrame:
    """The rows of a Java plan of any session, as a frame of this session."""
    return DataFrame(java_class(session, "org.apache.spark.sql.Dataset").ofRows(session._jsparkSession, plan), session)


def bring_into(session: SparkSession, frame: DataFrame) -> DataFrame:
    """A frame of another session as a frame of this one; it stays lazy, and its columns keep their meaning."""
    return frame_of_plan(session, frame._jdf.queryExecution().analyzed())


def compute(frame: DataFrame) -> DataFrame:
    """The rows of a frame, computed now, in its own session: all settings of the session count, in the tasks too.

    They are held in memory, and on disk what does not fit, until `drop_rows`. If they are lost with an executor, a read
    of them is an error: computed again while another session is active, they could be other rows.
    """
    with working_in(frame.sparkSession):
        return frame.localCheckpoint(eager=True)


def size_of_computed(computed: DataFrame) -> int:
    """The size of the rows that `compute` has returned, in bytes."""
    environment = java_class(computed.sparkSession, "org.apache.spark.SparkEnv").get()
    rows = computed._jdf.queryExecution().analyzed().rdd().id()
    # The block manager knows it at once. Spark's status store learns it by an event, behind the program's listeners.
    executors = environment.blockManager().master().getStorageStatus()
    blocks = (block for each in executors for block in each_of(each.rddBlocks()))
    held = (block._2() for block in blocks if block._1().name().startswith(f"rdd_{rows}_"))
    return sum(int(each.memSize()) + int(each.diskSize()) for each in held)


def drop_rows(computed: DataFrame) -> None:
    """Let Spark drop the rows that `compute` has returned."""
    computed._jdf.queryExecution().analyzed().rdd().unpersist(False)


def empty_frame(session: SparkSession, schema: Schema) -> DataFrame:
    """An empty frame that Spark knows to be empty, so that joins with it are optimized away."""
    java_session = session._jsparkSession
    java_schema = java_session.parseDataType(spark_schema(schema).json())
    return DataFrame(java_session.createDataFrame(java_class(session, "java.util.ArrayList")(), java_schema), session)
