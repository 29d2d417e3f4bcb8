"""The columns that a table has on disk.

Besides the table's own columns, a row of a log-structured table has `_sequence`, the number of the commit that wrote
it, and `_op`, its operation (0 append, 1 merge, 2 delete). Each commit writes at most one row per key, so `_sequence`
orders the rows of a key by arrival.
"""

from __future__ import annotations

from ...domain.table import query_columns
from ...domain.table.schema import Column, DataType, Schema
from ...domain.table.spec import Layout, TableSpec

SEQUENCE, OPERATION = query_columns.SEQUENCE, query_columns.OPERATION
APPENDED, MERGED, DELETED = 0, 1, 2

HIDDEN = (SEQUENCE, OPERATION)
_HIDDEN = (Column(SEQUENCE, DataType("bigint")), Column(OPERATION, DataType("tinyint")))
_WITHOUT_BOUNDS = frozenset({"boolean", "binary"})


def has_log(spec: TableSpec) -> bool:
    """Whether a table keeps a log of changes next to its base rows."""
    return bool(spec.key) and spec.layout is Layout.LOG


def stored_schema(spec: TableSpec) -> Schema:
    """The columns a table has on disk."""
    return spec.schema.plus(*_HIDDEN) if has_log(spec) else spec.schema


def key_inside(spec: TableSpec) -> list[str]:
    """The key columns that tell the rows of one partition apart: those that do not partition the table."""
    return [name for name in spec.key if name not in spec.partition_by]


def bounded_columns(spec: TableSpec) -> list[str]:
    """The columns whose bounds each file of a log-structured table records: the key's and `_op`.

    Only these are used, and each further column makes a commit slower.
    """
    return [*(name for name in key_inside(spec) if spec.schema[name].name not in _WITHOUT_BOUNDS), OPERATION]
