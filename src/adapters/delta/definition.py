"""How a table's spec is kept with the table: created, compared, widened."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from delta.tables import DeltaTable
from pyspark.sql import types as spark_types

from ...domain.errors import ConfigError, SchemaConflict
from ...domain.schema import Column, DataType, Schema
from ...domain.table import Layout, TableSpec
from ..spark.jvm import each_of
from ..spark.schema import quoted, spark_schema
from .rows import OPERATION, SEQUENCE, logged, stored_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY, _LAYOUT, _WHOLE = "headwater.key", "headwater.layout", "headwater.whole"
_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
_WITHOUT_BOUNDS = {"boolean", "binary"}


def create(session: SparkSession, path: str, spec: TableSpec) -> None:
    """Create the table, unless it is there by now."""
    builder = DeltaTable.createIfNotExists(session).location(path).addColumns(spark_schema(stored_schema(spec)))
    for name, value in _properties(spec).items():
        builder = builder.property(name, value)
    builder.partitionedBy(*spec.partition_by).execute()


def widen(session: SparkSession, path: str, columns: Schema) -> None:
    """Add columns to the table."""
    session.sql(f"ALTER TABLE delta.{quoted(path)} ADD COLUMNS ({columns.ddl})")


def kept(metadata: Any, name: str) -> TableSpec:
    """The spec that a table was created with, rules apart, from Delta's metadata.

    Raises:
        SchemaConflict: the table was not made by Headwater.
    """
    properties = {str(pair._1()): str(pair._2()) for pair in each_of(metadata.configuration())}
    if _KEY not in properties:
        raise SchemaConflict(
            f"table {name}: a Delta table stands in its place that Headwater did not make; move it away"
        )
    partition_by = (str(column) for column in each_of(metadata.partitionColumns()))
    return TableSpec(
        name,
        columns(str(metadata.schemaString())).without((SEQUENCE, OPERATION)),
        key=json.loads(properties[_KEY]),
        partition_by=tuple(partition_by),
        layout=Layout(properties[_LAYOUT]),
        whole=_WHOLE in properties,
    )


def columns(schema_text: str) -> Schema:
    """The columns that Delta's metadata tell as JSON."""
    fields = spark_types.StructType.fromJson(json.loads(schema_text)).fields
    return Schema(tuple(Column(each.name, DataType.parse(each.dataType.simpleString())) for each in fields))


def check_plain_names(schema: Schema, name: str) -> None:
    """Refuse names that Parquet files have only under others, which not every reader of Delta knows to look up.

    Raises:
        ConfigError: with the first such name.
    """
    if unusable := [each for each in schema.names if _NEEDS_MAPPING.search(each)]:
        raise ConfigError(
            f"table {name}: a published table on Delta has no column named {unusable[0]!r}: leave out spaces and any of"
            " ,;{}()="
        )


def _properties(spec: TableSpec) -> dict[str, str]:
    properties = {
        _KEY: json.dumps(spec.key),
        _LAYOUT: spec.layout.value,
        # How long versions are told of is up to retention and leases, of which Delta's own clock knows nothing.
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": "interval 30 days",
        "delta.deletedFileRetentionDuration": "interval 30 days",
        # A checkpoint takes as long as several small epochs, and spares a reader no more than a few small files.
        "delta.checkpointInterval": "50",
    }
    if spec.whole:
        properties[_WHOLE] = "true"
    if logged(spec):
        # Bounds are only asked of the key, and of what the row does; each column more makes a commit slower.
        properties["delta.dataSkippingStatsColumns"] = ",".join(_bounded(spec))
    if any(_NEEDS_MAPPING.search(name) for name in spec.schema.names):
        properties["delta.columnMapping.mode"] = "name"
    return properties


def _bounded(spec: TableSpec) -> list[str]:
    inside = [name for name in spec.key if name not in spec.partition_by]
    return [*(quoted(name) for name in inside if spec.schema[name].name not in _WITHOUT_BOUNDS), OPERATION]
