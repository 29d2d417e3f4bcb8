"""Rewrites the files of whole partitions: folded to one row per key, and sorted by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ....domain.table.change import Matching
from ....domain.table.merge import Max, Min, Sum
from ...polars.sorting import sort_rows
from ..stored import APPENDED, DELETED, OPERATION, bounded_columns, has_log, stored_schema
from .rows import fold_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ....domain.table.spec import TableSpec
    from ..actions import DataFile
    from .read import LocalVersion


def prepare_compaction(
    files: Iterable[DataFile], stored: LocalVersion, file_bytes: int
) -> tuple[list[DataFile], list[str]]:
    """Rewrite whole partitions; the new files, and the actions that replace the old ones."""
    chosen, spec = list(files), stored.spec
    rows = _compacted(chosen, stored, list(dict.fromkeys((*spec.partition_by, *spec.key))))
    size = sum(file.size for file in chosen)
    bounded = bounded_columns(spec) if has_log(spec) else None
    places = len({file.place for file in chosen})
    added = stored.data.write(rows, bounded, parts=-(-size // (places * file_bytes)))
    return added, [*(f.removed(changes=False) for f in chosen), *(f.added(changes=False) for f in added)]


def _compacted(files: list[DataFile], stored: LocalVersion, order: Sequence[str]) -> pl.DataFrame:
    spec, names = stored.spec, stored_schema(stored.spec).names
    if _adds_up(spec) and all(file.highest.get(OPERATION, DELETED) != DELETED for file in files):
        rows = fold_rows(stored.stored(files), spec, deletes=False).collect()
    else:
        rows = stored.folded(files, Matching()).collect()
    if has_log(spec):
        rows = rows.with_columns(pl.lit(APPENDED, pl.Int8).alias(OPERATION))
    return sort_rows(rows.select(names), order) if order else rows.select(names)


def _adds_up(spec: TableSpec) -> bool:
    """Whether a row that shares its key with no other is its own result."""
    rules = spec.column_rules.values()
    return has_log(spec) and not spec.groups and all(isinstance(rule, Sum | Max | Min) for rule in rules)
