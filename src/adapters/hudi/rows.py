"""The rows that a table stores: the spec's columns by Hudi's names, and hidden ones before them.

`_headwater_key` is the record key, `_headwater_partition` the folder; `_hoodie_is_deleted` marks a row as a delete. In
tables that are folded when they are read, `_headwater_sequence` is the number of the commit that brought a row, and a
part of its record key: at most one row a key comes with each commit, so it orders the rows of a key by their arrival.
Hidden columns come first, so that columns that are added later stay last, as Hudi wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..spark.schema import named, quoted, typed
from .names import DELETED, KEY, PARTITION, SEQUENCE, stored_name
from .texts import folder_text, key_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column, DataFrame

    from ...domain.schema import Schema
    from ...domain.table import TableSpec


def stored(
    rows: DataFrame, spec: TableSpec, deleted: Column | None = None, sequence: Column | None = None
) -> DataFrame:
    """Rows as a table stores them.

    Args:
        rows: in the spec's columns.
        spec: of the table.
        deleted: which of them are keys to remove; None: none is.
        sequence: the number of the commit that brings them, in a table that is folded when it is read.
    """
    own = {name: each for name, each in ((DELETED, deleted), (SEQUENCE, sequence)) if each is not None}
    plain = typed(rows.withColumns(own) if own else rows, spec.schema, *own)
    names = [f"{quoted(name)} AS {stored_name(name)}" for name in spec.schema.names]
    return plain.selectExpr(*_hidden(spec, own), *names)


def told(rows: DataFrame, spec: TableSpec, *more: str) -> DataFrame:
    """Stored rows in the spec's columns, null where they were stored before a column was added; and hidden ones."""
    renamed = {stored_name(name): name for name in spec.schema.names if stored_name(name) != name}
    return typed(rows.withColumnsRenamed(renamed), spec.schema, *more)


def completed(rows: DataFrame, schema: Schema) -> DataFrame:
    """Stored rows in all columns of a table, in its order; null in those that they lack."""
    columns = {stored_name(each.name): each.type.ddl for each in schema.columns}
    hidden = [quoted(name) for name in rows.columns if name not in columns]
    there = set(rows.columns)
    own = (name if name in there else f"CAST(NULL AS {ddl}) AS {name}" for name, ddl in columns.items())
    return rows.selectExpr(*hidden, *own)


def in_folders(rows: DataFrame, folders: list[str]) -> DataFrame:
    """Those stored rows that are in some of the partitions."""
    return rows.filter(named(PARTITION).isin(folders))


def _hidden(spec: TableSpec, own: Collection[str]) -> list[str]:
    """The hidden columns, those that the rows have of their own taken from there."""
    hidden = []
    if spec.key:
        flag = DELETED if DELETED in own else "false"
        hidden += [f"{key_text(spec.schema, spec.key)} AS {KEY}", f"{flag} AS {DELETED}"]
    if SEQUENCE in own:
        hidden.append(f"CAST({SEQUENCE} AS bigint) AS {SEQUENCE}")
    if spec.partition_by:
        hidden.append(f"{folder_text(spec.schema, spec.partition_by)} AS {PARTITION}")
    return hidden
