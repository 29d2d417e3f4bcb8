"""The rows that a table stores: hidden columns first, then the spec's columns under Hudi's names.

`_headwater_key` is the record key, `_headwater_partition` the folder; `_hoodie_is_deleted` marks a row as a delete. In
tables that are folded on read, `_headwater_sequence` is the number of the commit that wrote a row, and a part of its
record key. Each commit writes at most one row per key, so it orders the rows of a key by arrival. Hidden columns come
first, so that columns added later come last, as Hudi requires.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ...domain.table.schema import Schema
from ...domain.table.spec import TableSpec
from ..spark.schema import named, quoted, typed
from .key_encoding import folder_text, key_text
from .names import DELETED, KEY, PARTITION, SEQUENCE, stored_name
from .values import from_stored_sql, stored_ddl, to_stored_sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def to_stored(
    rows: DataFrame, spec: TableSpec, deleted: Column | None = None, sequence: Column | None = None
) -> DataFrame:
    """Rows as a table stores them.

    Args:
        rows: in the spec's columns.
        spec: the table's spec.
        deleted: true for rows that are keys to delete; None if there are none.
        sequence: the number of the commit that writes them, in a table that is folded on read.
    """
    own = {name: each for name, each in ((DELETED, deleted), (SEQUENCE, sequence)) if each is not None}
    plain = typed(rows.withColumns(own) if own else rows, spec.schema, *own)
    values = {stored_name(each.name): to_stored_sql(quoted(each.name), each.type) for each in spec.schema.columns}
    # Hudi cannot add a non-nullable column, such as a literal, to a table that has rows.
    nullable = (f"IF(true, {value}, NULL) AS {name}" for name, value in values.items())
    return plain.selectExpr(*_hidden(spec, own), *nullable)


def from_stored(rows: DataFrame, spec: TableSpec, *more: str) -> DataFrame:
    """Stored rows in the spec's columns and the hidden ones in `more`; null in columns added after they were stored."""
    renamed = {stored_name(name): name for name in spec.schema.names if stored_name(name) != name}
    found = rows.withColumnsRenamed(renamed)
    nested = {
        each.name: each.type for each in spec.schema.columns if each.type.is_nested and each.name in found.columns
    }
    if nested:
        found = found.withColumns({name: F.expr(from_stored_sql(quoted(name), kind)) for name, kind in nested.items()})
    return typed(found, spec.schema, *more)


def with_all_columns(rows: DataFrame, schema: Schema) -> DataFrame:
    """Stored rows with all columns of a table, in its order; columns that they lack are null."""
    columns = {stored_name(each.name): stored_ddl(each.type) for each in schema.columns}
    hidden = [quoted(name) for name in rows.columns if name not in columns]
    there = set(rows.columns)
    own = (name if name in there else f"CAST(NULL AS {ddl}) AS {name}" for name, ddl in columns.items())
    return rows.selectExpr(*hidden, *own)


def in_folders(rows: DataFrame, folders: list[str]) -> DataFrame:
    """The stored rows of these partitions."""
    return rows.filter(named(PARTITION).isin(folders))


def _hidden(spec: TableSpec, own: Collection[str]) -> list[str]:
    """SQL of the hidden columns; `own` names those that the rows have already."""
    hidden = []
    if spec.key:
        flag = DELETED if DELETED in own else "false"
        hidden += [f"{key_text(spec.schema, spec.key)} AS {KEY}", f"{flag} AS {DELETED}"]
    if SEQUENCE in own:
        hidden.append(f"CAST({SEQUENCE} AS bigint) AS {SEQUENCE}")
    if spec.partition_by:
        hidden.append(f"{folder_text(spec.schema, spec.partition_by)} AS {PARTITION}")
    return hidden
