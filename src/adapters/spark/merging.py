"""Rows to be merged, as every store on Spark takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...domain.epoch import POSITION
from ...domain.merge import fold

if TYPE_CHECKING:
    import narwhals as nw

    from ...domain.table import TableSpec


def one_a_key(rows: nw.LazyFrame[Any], spec: TableSpec) -> nw.LazyFrame[Any]:
    """Fold the rows of a change that share a key, in the order of their `_position`, where there is one."""
    if not spec.key or POSITION not in rows.collect_schema().names():
        return rows
    return fold(rows, key=spec.key, rules=spec.column_rules, groups=spec.groups, arrival=POSITION)
