"""Rewrites the files of whole partitions: folded to one row per key, and sorted by key."""

from __future__ import annotations

from functools import partial
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING

import polars as pl

from ....domain.table.merge import Max, Min, Sum
from ...polars.sorting import order_code, sort_rows
from ..actions import by_partition
from ..compaction_policy import total_bytes
from ..stored import APPENDED, DELETED, OPERATION, SEQUENCE, bounded_columns, has_log, key_inside, stored_schema
from .rows import fold_parts, fold_rows, newest_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ....domain.table.spec import TableSpec
    from ..actions import DataFile
    from .read import LocalVersion

_CODE = "_code"
"""bigint: the place of a row's key among those of its partition."""
_SAMPLED = 64
"""For each slice this many rows are looked at, to cut slices of about the same size."""
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
    spec, parts = stored.spec, [stored.stored(part).collect() for part in _base_and_log(files)]
    height = sum(part.height for part in parts)
    outputs = -(-total_bytes(files) // file_bytes)
    slices_of_output = -(-height // (outputs * _SLICE))
    bounded = bounded_columns(spec) if has_log(spec) else None
    order = key_inside(spec)
    deletes = has_log(spec) and any(file.may_delete for file in files)
    compact = partial(_compacted, spec=spec, order=order, deletes=deletes)
    slices = filter(len, _slices(parts, order, compact, outputs * slices_of_output))
    for first in slices:
        yield stored.data.write_slices(chain([first], islice(slices, slices_of_output - 1)), bounded)


def _base_and_log(files: Iterable[DataFile]) -> list[list[DataFile]]:
    """The files of appended rows, which are in order if a compaction wrote them, and the others."""
    base = [file for file in files if not file.may_change]
    log = [file for file in files if file.may_change]
    return [part for part in (base, log) if part]


def _slices(
    parts: Sequence[pl.DataFrame], order: Sequence[str], compact: Callable[[pl.DataFrame], pl.DataFrame], count: int
) -> Iterator[pl.DataFrame]:
    """The compacted rows of a partition in their order, which is that of their keys, in about this number of slices."""
    code = order_code(pl.concat([part.select(order) for part in parts]), order) if order else None
    if code is None:
        whole = compact(pl.concat(parts))
        yield from whole.iter_slices(max(1, -(-whole.height // max(1, count))))
        return
    ends = accumulate(part.height for part in parts)
    coded = [_coded(part, code[end - part.height : end]) for part, end in zip(parts, ends, strict=True)]
    some = code.gather_every(max(1, code.len() // (count * _SAMPLED))).sort()
    cuts = some[[at * some.len() // count for at in range(1, count)]].unique().sort()
    for low, high in zip([0, *cuts], [*cuts, None], strict=True):
        yield compact(pl.concat([_between(part, low, high) for part in coded], rechunk=True))


def _coded(rows: pl.DataFrame, code: pl.Series) -> pl.DataFrame:
    """Rows with `code` as their column `_CODE`. If it is sorted, it knows that, and is not looked through again."""
    return rows.with_columns((code.set_sorted() if code.is_sorted() else code).alias(_CODE))


def _between(coded: pl.DataFrame, low: int, high: int | None) -> pl.DataFrame:
    """The rows whose `_CODE` is from `low` to before `high`; None: to the end."""
    code = coded[_CODE]
    if code.is_sorted():
        return coded[code.search_sorted(low) : None if high is None else code.search_sorted(high)]
    # The rows are not sorted as a whole: that would copy all of them.
    return coded.filter(code >= low if high is None else code.is_between(low, high, closed="left"))


def _compacted(rows: pl.DataFrame, spec: TableSpec, order: Sequence[str], *, deletes: bool) -> pl.DataFrame:
    """Stored rows of some keys folded, and sorted.

    Args:
        rows: the rows; their column `_CODE`, if they have it, numbers their keys in the order of these.
        spec: the table's spec.
        order: the key columns that tell these rows apart.
        deletes: whether there may be deletes among them.
    """
    coded = _CODE in rows.columns
    key, names = [_CODE] if coded else list(order or spec.key), stored_schema(spec).names
    appended = pl.lit(APPENDED, pl.Int8).alias(OPERATION)
    if has_log(spec) and newest_counts(spec):
        return _newest(rows, key).with_columns(appended).select(names)
    if has_log(spec):
        rows = _folded(rows.lazy(), spec, key, deletes=deletes).collect().with_columns(appended)
    if order:
        rows = rows[rows[_CODE].arg_sort()] if coded else sort_rows(rows, order)
    return rows.select(names)


def _newest(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Of each key the newest row, unless it is a delete; sorted by key."""
    differs = (pl.col(name).ne_missing(pl.col(name).shift(-1)) for name in key)
    is_last = pl.any_horizontal(*differs, pl.int_range(pl.len()) == pl.len() - 1)
    return rows.sort(*key, SEQUENCE).filter(is_last, pl.col(OPERATION) != DELETED)


def _folded(rows: pl.LazyFrame, spec: TableSpec, key: Sequence[str], *, deletes: bool) -> pl.LazyFrame:
    if adds_up(spec) and not deletes:
        return fold_rows(rows, spec, key, deletes=False)
    appended = pl.col(OPERATION) == APPENDED
    return fold_parts(rows.filter(appended), rows.filter(~appended), spec, key, deletes=deletes)


def adds_up(spec: TableSpec) -> bool:
    """Whether a row that shares its key with no other is its own result."""
    rules = spec.column_rules.values()
    return not spec.groups and all(isinstance(rule, Sum | Max | Min) for rule in rules)
