"""Stores a table's spec in Delta's metadata, reads it back, and widens the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve, frozen

from ...domain.errors import ConfigError, SchemaConflict
from ...domain.table.schema import Column, DataType, Schema
from ...domain.table.spec import REBUILD, Layout, TableSpec
from .stored import HIDDEN, bounded_columns, has_log, stored_schema

_KEY, _LAYOUT, _WHOLE = "headwater.key", "headwater.layout", "headwater.whole"
PHYSICAL = "delta.columnMapping.physicalName"
"""In a column's metadata: its name in the data files and in their statistics, if it has another one there."""
_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
_DELTA_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


@frozen
class TableMetadata:
    """What Delta's metadata says of a table: its columns as JSON, its partition columns and its properties."""

    schema_text: str
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]


def describe(spec: TableSpec) -> TableMetadata:
    """The metadata of a new table."""
    return TableMetadata(schema_json(stored_schema(spec)), spec.partition_by, _properties(spec))


def schema_json(schema: Schema) -> str:
    """Columns as JSON for Delta's metadata; every column may hold null."""
    return json.dumps({"type": "struct", "fields": _fields(schema)})


def widen_schema(spec: TableSpec, schema_text: str, *, empty: bool) -> str | None:
    """The columns that a table needs for its spec, as JSON for Delta's metadata; None if it has them already.

    Args:
        spec: the table's spec.
        schema_text: the table's current columns, as JSON from Delta's metadata.
        empty: whether the table has no rows; then columns that the spec lacks are dropped.
    """
    there = {each["name"]: each for each in json.loads(schema_text)["fields"]}
    wanted = _fields(stored_schema(spec))
    new = [each for each in wanted if each["name"] not in there]
    fields = [*there.values(), *new]
    if empty:
        fields = [_as_it_is(each, there.get(each["name"])) for each in wanted]
    return None if fields == list(there.values()) else json.dumps({"type": "struct", "fields": fields})


def _as_it_is(wanted: dict[str, Any], there: dict[str, Any] | None) -> dict[str, Any]:
    """The table's own column, with Delta's metadata on it, if it has the wanted type; else the wanted column."""
    return there if there and there["type"] == wanted["type"] else wanted


def read_spec(metadata: TableMetadata, name: str) -> TableSpec:
    """The spec that a table was created with, without merge rules.

    Raises:
        SchemaConflict: the table was not made by Headwater.
    """
    if _KEY not in metadata.properties:
        raise SchemaConflict(
            f"table {name}: its folder has a Delta table that Headwater did not create; move that table away"
        )
    stored = TableSpec(
        name,
        columns(metadata.schema_text),
        key=json.loads(metadata.properties[_KEY]),
        partition_by=metadata.partition_by,
        layout=Layout(metadata.properties[_LAYOUT]),
        whole=_WHOLE in metadata.properties,
    )
    return with_stored_columns(stored, metadata.schema_text)


def check_continues(there: TableSpec, wanted: TableSpec, counted: Callable[[], Schema] | None) -> Schema:
    """Check that a stored table can be used as declared, and return the columns that it lacks; see `TableStore.ensure`.

    Args:
        there: the stored table.
        wanted: the declared table.
        counted: reads the columns of the latest publication, which alone must agree; None: all stored columns count.

    Raises:
        SchemaConflict: they differ by more than new columns.
    """
    if there.layout is not wanted.layout:
        raise SchemaConflict(
            f"table {wanted.name} is laid out as {there.layout.value}, not {wanted.layout.value}: {REBUILD}"
        )
    try:
        return there.added_columns(wanted)
    except SchemaConflict:
        if counted is None:
            raise
        return there.with_schema(counted()).added_columns(wanted)


def names_in_files(schema_text: str) -> dict[str, str]:
    """The name of each column in the data files, and in their statistics, by the JSON of Delta's metadata."""
    fields = json.loads(schema_text)["fields"]
    return {each["name"]: each.get("metadata", {}).get(PHYSICAL, each["name"]) for each in fields}


def integers(schema_text: str) -> set[str]:
    """The columns of whole numbers (byte, short, integer, long), by the JSON of Delta's metadata."""
    return {each["name"] for each in json.loads(schema_text)["fields"] if each["type"] in _DELTA_NAMES.values()}


def columns(schema_text: str) -> Schema:
    """The columns in the JSON of Delta's metadata, hidden ones included."""
    return Schema(map(_column, json.loads(schema_text)["fields"]))


def with_stored_columns(spec: TableSpec, schema_text: str) -> TableSpec:
    """A spec with the columns in the JSON of Delta's metadata, without hidden ones."""
    return evolve(spec, schema=shown_columns(spec, schema_text))


def shown_columns(spec: TableSpec, schema_text: str) -> Schema:
    """The columns in the JSON of Delta's metadata, without hidden ones, which only some tables have."""
    return columns(schema_text).without(HIDDEN if has_log(spec) else ())


def _column(described: Mapping[str, Any]) -> Column:
    return Column(described["name"], _type(described["type"]))


def _type(described: Any) -> DataType:
    """A type in Delta's JSON: a nested one is an object."""
    if not isinstance(described, dict):
        return DataType.parse(str(described))
    if described["type"] == "array":
        return DataType.array(_type(described["elementType"]))
    if described["type"] == "struct":
        return DataType.struct(map(_column, described["fields"]))
    raise ConfigError(f"no table has columns of type {described['type']}; read them in a query on Spark")


def check_column_names(spec: TableSpec) -> None:
    """Refuse column names that Spark reads as syntax, and those with which nested columns have other names in files.

    Raises:
        ConfigError: with the first such name.
    """
    mapped = [name for name in spec.schema.names if _NEEDS_MAPPING.search(name)]
    if mapped and (nested := [each for each in spec.schema.columns if each.type.is_nested]):
        raise ConfigError(
            f"table {spec.name}: on Delta, a table with a nested column ({nested[0].name!r}) has no column named"
            f" {mapped[0]!r}: leave out spaces and any of ,;{{}}()="
        )
    if unusable := [name for name in spec.schema.names if "." in name or "`" in name]:
        raise ConfigError(
            f"table {spec.name}: on Spark no column may be named {unusable[0]!r}: leave out dots and backticks"
        )


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


def _fields(schema: Schema) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "type": _described(each.type), "nullable": True, "metadata": {}} for each in schema.columns
    ]


def _described(data_type: DataType) -> Any:
    """A type as Delta's JSON has it."""
    if data_type.element is not None:
        return {"type": "array", "elementType": _described(data_type.element), "containsNull": True}
    if data_type.fields:
        return {"type": "struct", "fields": _fields(Schema(data_type.fields))}
    return _DELTA_NAMES.get(data_type.name, data_type.ddl)


def _properties(spec: TableSpec) -> dict[str, str]:
    properties = {
        _KEY: json.dumps(spec.key),
        _LAYOUT: spec.layout.value,
        # Retention and leases decide how long versions are kept; Delta's own clean-up ignores them.
        "delta.enableExpiredLogCleanup": "false",
        "delta.logRetentionDuration": "interval 30 days",
        # Checkpoints name each file removed within this time. Not shorter than `SweepPolicy.orphan_age` (ADR 48).
        "delta.deletedFileRetentionDuration": "interval 7 days",
        # A checkpoint takes as long as several small epochs, and saves a reader only a few small files.
        "delta.checkpointInterval": "50",
    }
    if spec.whole:
        properties[_WHOLE] = "true"
    if has_log(spec):
        properties["delta.dataSkippingStatsColumns"] = ",".join(f"`{name}`" for name in bounded_columns(spec))
    if any(_NEEDS_MAPPING.search(name) for name in spec.schema.names):
        properties["delta.columnMapping.mode"] = "name"
    return properties
