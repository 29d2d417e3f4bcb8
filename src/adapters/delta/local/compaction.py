"""Rewrites the files of whole partitions: folded to one row per key, and sorted by key."""

from __future__ import annotations

from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

import polars as pl

from ....domain.table.merge import Max, Min, Sum
from ...polars.sorting import order_code, sort_rows
from ..actions import by_partition
from ..compaction_policy import total_bytes
from ..stored import APPENDED, DELETED, OPERATION, bounded_columns, has_log, stored_schema
from .rows import fold_parts, fold_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ....domain.table.spec import TableSpec
    from ..actions import DataFile
    from .read import LocalVersion

_SLICE = 250_000
"""About this many stored rows are folded and sorted at a time, which needs several times their memory."""


def prepare_compaction(
    files: Iterable[DataFile], stored: LocalVersion, file_bytes: int
) -> tuple[list[DataFile], list[str]]:
    """Rewrite whole partitions; the new files, and the actions that replace the old ones."""
    chosen = list(files)
    added = [new for found in by_partition(chosen).values() for new in _rewrite(found, stored, file_bytes)]
    return added, [*(f.removed(changes=False) for f in chosen), *(f.added(changes=False) for f in added)]


def _rewrite(files: list[DataFile], stored: LocalVersion, file_bytes: int) -> Iterator[DataFile]:
    """Rewrite all files of one partition."""
    spec, rows = stored.spec, stored.stored(files).collect()
    parts = -(-total_bytes(files) // file_bytes)
    slices_of_part = -(-rows.height // (parts * _SLICE))
    bounded = bounded_columns(spec) if has_log(spec) else None
    order = [name for name in spec.key if name not in spec.partition_by]
    deletes = has_log(spec) and any(file.highest.get(OPERATION, DELETED) == DELETED for file in files)
    compact = partial(_compacted, spec=spec, order=order, deletes=deletes)
    slices = filter(len, _slices(rows, order, compact, parts * slices_of_part))
    for first in slices:
        yield stored.data.write_slices(chain([first], islice(slices, slices_of_part - 1)), bounded)


def _slices(
    rows: pl.DataFrame, order: Sequence[str], compact: Callable[[pl.DataFrame], pl.DataFrame], count: int
) -> Iterator[pl.DataFrame]:
    """The compacted rows of a partition in their order, which is that of their keys, in about this number of slices."""
    code = order_code(rows, order) if order and count > 1 else None
    if code is None:
        whole = compact(rows)
        yield from whole.iter_slices(max(1, -(-whole.height // max(1, count))))
        return
    in_order = code.sort()
    starts = sorted({in_order[at * rows.height // count] for at in range(count)})
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        yield compact(rows.filter((code >= start) if end is None else (code >= start) & (code < end)))


def _compacted(rows: pl.DataFrame, spec: TableSpec, order: Sequence[str], *, deletes: bool) -> pl.DataFrame:
    """Stored rows of some keys folded, and sorted; `deletes`: whether there may be deletes among them."""
    if has_log(spec):
        rows = _folded(rows.lazy(), spec, deletes=deletes).collect()
        rows = rows.with_columns(pl.lit(APPENDED, pl.Int8).alias(OPERATION))
    rows = rows.select(stored_schema(spec).names)
    return sort_rows(rows, order) if order else rows


def _folded(rows: pl.LazyFrame, spec: TableSpec, *, deletes: bool) -> pl.LazyFrame:
    if _adds_up(spec) and not deletes:
        return fold_rows(rows, spec, deletes=False)
    appended = pl.col(OPERATION) == APPENDED
    return fold_parts(rows.filter(appended), rows.filter(~appended), spec, deletes=deletes)


def _adds_up(spec: TableSpec) -> bool:
    """Whether a row that shares its key with no other is its own result."""
    rules = spec.column_rules.values()
    return not spec.groups and all(isinstance(rule, Sum | Max | Min) for rule in rules)
