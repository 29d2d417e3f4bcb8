"""Delta's column mapping (names of columns inside the data files) and the protocol that a table needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from attrs import evolve

from ....domain.errors import NotSupported
from ..spec import PHYSICAL, TableMetadata, columns, names_in_files

_MODE, _MOST = "delta.columnMapping.mode", "delta.columnMapping.maxColumnId"
_ID = "delta.columnMapping.id"
_NTZ = "timestampNtz"
_SCHEMAS = 1024
"""The number of schemas whose names are known without parsing them; every read of a table asks for them."""
_LEGACY = ["appendOnly", "invariants"]


def is_mapped(table: TableMetadata) -> bool:
    """Whether the columns have other names inside the data files."""
    return table.properties.get(_MODE, "none") != "none"


def physical_names(table: TableMetadata) -> Mapping[str, str]:
    """The name of each column inside the data files, and in the partition values and statistics of the log."""
    return _physical_names(table.schema_text)


@lru_cache(_SCHEMAS)
def _physical_names(schema_text: str) -> Mapping[str, str]:
    fields = json.loads(schema_text)["fields"]
    if mapped := [each["name"] for each in fields if PHYSICAL in json.dumps(each["type"])]:
        raise NotSupported(
            f"nested columns with other names in the files ({mapped[0]!r})",
            "delta, engine local",
            'set engine = "spark"',
        )
    return MappingProxyType(names_in_files(schema_text))


def with_physical_names(table: TableMetadata) -> TableMetadata:
    """The metadata in which each column has a physical name, if the table's columns are mapped."""
    if not is_mapped(table):
        return table
    schema, most = json.loads(table.schema_text), int(table.properties.get(_MOST, 0))
    for each in schema["fields"]:
        if PHYSICAL not in each["metadata"]:
            most += 1
            each["metadata"] |= {_ID: most, PHYSICAL: f"col-{uuid4()}"}
    return evolve(table, schema_text=json.dumps(schema), properties={**table.properties, _MOST: str(most)})


def needed_protocol(table: TableMetadata, there: Mapping[str, Any]) -> dict[str, Any]:
    """The protocol that the table needs; never less than the one that it has."""
    features = {*(there.get("writerFeatures") or ())}
    leaves = (kind for each in columns(table.schema_text).columns for _, kind in each.type.leaves())
    has_ntz = any(kind.name == "timestamp_ntz" for kind in leaves)
    mapped = is_mapped(table)
    if not features and not has_ntz:
        reader, writer = (2, 5) if mapped else (1, 2)
        return {
            **there,
            "minReaderVersion": max(reader, there.get("minReaderVersion", 1)),
            "minWriterVersion": max(writer, there.get("minWriterVersion", 2)),
        }
    reading = {
        *(there.get("readerFeatures") or ()),
        *(["columnMapping"] if mapped else ()),
        *([_NTZ] if has_ntz else ()),
    }
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted(reading),
        "writerFeatures": sorted({*features, *_LEGACY, *reading}),
    }
