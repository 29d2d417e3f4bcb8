"""The rows that a table stores: the spec's columns by Hudi's names, and hidden ones before them.

`_headwater_key` is the record key, `_headwater_partition` the folder; `_hoodie_is_deleted` marks a row as a delete.
They come first, so that columns that are added later stay last, as Hudi wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spark.schema import named, quoted, typed
from .names import DELETED, KEY, PARTITION, stored_name
from .texts import folder_text, key_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ...domain.table import TableSpec


def stored(rows: DataFrame, spec: TableSpec, deleted: Column | None = None) -> DataFrame:
    """Rows as a table stores them; `deleted` says which of them are keys to remove (None: none is)."""
    plain = typed(rows if deleted is None else rows.withColumn(DELETED, deleted), spec.schema, *_kept(deleted))
    names = [f"{quoted(name)} AS {stored_name(name)}" for name in spec.schema.names]
    return plain.selectExpr(*_hidden(spec, deleted), *names)


def told(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """Stored rows in the spec's columns, null where they were stored before a column was added."""
    renamed = {stored_name(name): name for name in spec.schema.names if stored_name(name) != name}
    return typed(rows.withColumnsRenamed(renamed), spec.schema)


def in_folders(rows: DataFrame, folders: list[str]) -> DataFrame:
    """Those stored rows that are in some of the partitions."""
    return rows.filter(named(PARTITION).isin(folders))


def _kept(deleted: Column | None) -> list[str]:
    return [] if deleted is None else [DELETED]


def _hidden(spec: TableSpec, deleted: Column | None) -> list[str]:
    hidden = []
    if spec.key:
        flag = "false" if deleted is None else DELETED
        hidden += [f"{key_text(spec.schema, spec.key)} AS {KEY}", f"{flag} AS {DELETED}"]
    if spec.partition_by:
        hidden.append(f"{folder_text(spec.schema, spec.partition_by)} AS {PARTITION}")
    return hidden
