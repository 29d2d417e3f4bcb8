"""Rewrites the files of whole partitions: folded to one row per key, and sorted by key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from ....domain.table.change import Matching
from ....domain.table.merge import Max, Min, Sum
from ...polars.sorting import order_code
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
    rows = _compacted(chosen, stored, [*spec.partition_by, *spec.key])
    size = sum(file.size for file in chosen)
    bounded = bounded_columns(spec) if has_log(spec) else None
    places = len({file.place for file in chosen})
    added = stored.data.write(rows, bounded, parts=-(-size // (places * file_bytes)))
    return added, [*(f.removed(changes=False) for f in chosen), *(f.added(changes=False) for f in added)]


def _compacted(files: list[DataFile], stored: LocalVersion, order: Sequence[str]) -> pl.DataFrame:
    spec, names = stored.spec, stored_schema(stored.spec).names
    if _adds_up(spec) and all(file.highest.get(OPERATION, DELETED) != DELETED for file in files):
        rows = stored.stored(files).collect()
        if (code := order_code(rows, order)) is not None:
            return _appended(_fold_sorted(rows, code, spec, order)).select(names)
    rows = stored.folded(files, Matching()).collect()
    rows = (_appended(rows) if has_log(spec) else rows).select(names)
    return _sorted(rows, order) if order else rows


def _adds_up(spec: TableSpec) -> bool:
    """Whether a row that shares its key with no other is its own result."""
    rules = spec.column_rules.values()
    return has_log(spec) and not spec.groups and all(isinstance(rule, Sum | Max | Min) for rule in rules)


def _fold_sorted(rows: pl.DataFrame, code: pl.Series, spec: TableSpec, order: Sequence[str]) -> pl.DataFrame:
    """The rows sorted by `order`, which has the code; only those that share a key are folded."""
    by_code = code.arg_sort()
    rows, code = rows[by_code], code[by_code]
    as_before = (code == code.shift(1)).fill_null(value=False)
    if not as_before.any():
        return rows
    shared = as_before | as_before.shift(-1, fill_value=False)
    folded = fold_rows(rows.filter(shared).lazy(), spec, deletes=False).collect()
    return _sorted(pl.concat([rows.filter(~shared).select(folded.columns), folded]), order)


def _appended(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.lit(APPENDED, pl.Int8).alias(OPERATION))


def _sorted(rows: pl.DataFrame, order: Sequence[str]) -> pl.DataFrame:
    code = order_code(rows, order)
    return rows.sort(order) if code is None else rows[code.arg_sort()]
