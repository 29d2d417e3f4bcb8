"""Stores a table's spec in Delta's metadata, reads it back, and widens the schema."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as spark_types

from ...domain.errors import ConfigError, SchemaConflict
from ...domain.table.schema import Column, DataType, Schema
from ...domain.table.spec import Layout, TableSpec
from ..spark.jvm import each_of
from ..spark.schema import quoted, spark_schema
from .rows import OPERATION, SEQUENCE, has_log, stored_schema

if TYPE_CHECKING:
    from .transaction import Transaction

_KEY, _LAYOUT, _WHOLE = "headwater.key", "headwater.layout", "headwater.whole"
_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
_WITHOUT_BOUNDS = {"boolean", "binary"}


def create(spec: TableSpec, transaction: Transaction) -> None:
    """Create the table as part of a transaction, so that a failed commit leaves no table behind."""
    transaction.redefine(spark_schema(stored_schema(spec)).json())
    transaction.define(spec.partition_by, _properties(spec))


def widen_schema(spec: TableSpec, schema_text: str, *, empty: bool) -> str | None:
    """The columns that a table needs for its spec, as JSON for Delta's metadata; None if it has them already.

    Args:
        spec: the table's spec.
        schema_text: the table's present columns, as JSON from Delta's metadata.
        empty: whether the table has no rows; then columns that the spec lacks are dropped.
    """
    there = {each["name"]: each for each in json.loads(schema_text)["fields"]}
    wanted = json.loads(spark_schema(stored_schema(spec)).json())["fields"]
    new = [each for each in wanted if each["name"] not in there]
    fields = [*there.values(), *new]
    if empty:
        fields = [_as_it_is(each, there.get(each["name"])) for each in wanted]
    return None if fields == list(there.values()) else json.dumps({"type": "struct", "fields": fields})


def _as_it_is(wanted: dict[str, Any], there: dict[str, Any] | None) -> dict[str, Any]:
    """The table's own column, with Delta's metadata on it, if it has the wanted type; else the wanted column."""
    return there if there and there["type"] == wanted["type"] else wanted


def read_spec(metadata: Any, name: str) -> TableSpec:
    """The spec that a table was created with, without merge rules, from Delta's metadata.

    Raises:
        SchemaConflict: the table was not made by Headwater.
    """
    properties = {str(pair._1()): str(pair._2()) for pair in each_of(metadata.configuration())}
    if _KEY not in properties:
        raise SchemaConflict(
            f"table {name}: its folder has a Delta table that Headwater did not create; move that table away"
        )
    partition_by = (str(column) for column in each_of(metadata.partitionColumns()))
    return TableSpec(
        name,
        columns(str(metadata.schemaString())),
        key=json.loads(properties[_KEY]),
        partition_by=tuple(partition_by),
        layout=Layout(properties[_LAYOUT]),
        whole=_WHOLE in properties,
    )


def columns(schema_text: str) -> Schema:
    """The columns in the JSON of Delta's metadata, without hidden ones."""
    fields = spark_types.StructType.fromJson(json.loads(schema_text)).fields
    found = Schema(tuple(Column(each.name, DataType.parse(each.dataType.simpleString())) for each in fields))
    return found.without((SEQUENCE, OPERATION))


def check_plain_names(schema: Schema, name: str) -> None:
    """Refuse column names that need Delta's column mapping, which not every reader of Delta supports.

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
        # Retention and leases decide how long versions are kept; Delta's own cleanup does not know them.
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": "interval 30 days",
        "delta.deletedFileRetentionDuration": "interval 30 days",
        # A checkpoint takes as long as several small epochs, and saves a reader only a few small files.
        "delta.checkpointInterval": "50",
    }
    if spec.whole:
        properties[_WHOLE] = "true"
    if has_log(spec):
        # Only statistics of the key and of `_op` are used; each further column makes a commit slower.
        properties["delta.dataSkippingStatsColumns"] = ",".join(_bounded(spec))
    if any(_NEEDS_MAPPING.search(name) for name in spec.schema.names):
        properties["delta.columnMapping.mode"] = "name"
    return properties


def _bounded(spec: TableSpec) -> list[str]:
    inside = [name for name in spec.key if name not in spec.partition_by]
    return [*(quoted(name) for name in inside if spec.schema[name].name not in _WITHOUT_BOUNDS), OPERATION]
