"""Rewrites the files of partitions, sorted by key; if these are all files, folded to one row per key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, islice, pairwise
from typing import TYPE_CHECKING

import polars as pl
from attrs import evolve, frozen

from ....domain.table.merge import Sum
from ....domain.table.spec import TableSpec
from ...memory_limit import check_room, hold_files
from ...polars.file_cache import IN_MEMORY
from ...polars.file_errors import explain_read_errors
from ...polars.sorting import order_code, sort_rows
from ...polars.sums import may_overflow
from ..actions import DataFile, total_bytes
from ..compaction_policy import Rewrite, files_of
from ..stored import APPENDED, DELETED, MERGED, OPERATION, SEQUENCE, bounded_columns, has_log, key_inside, stored_schema
from .rows import drop_outdone, fold_parts, fold_rows, has_only_groups

if TYPE_CHECKING:
    from .read import LocalVersion

_CODE = "_headwater_code"
"""bigint: the place of a row's key among those of its partition."""
_BEGINS = "_headwater_begins"
"""boolean: whether a row is the first of its key."""
_SAMPLED = 64
"""For each slice this many rows are looked at, to cut slices of about the same size."""
_SLICE = 100_000
"""About this many stored rows are folded and sorted at a time, which needs several times their memory."""
_HELD = 10 * _SLICE
"""A partition with more rows is not read whole. About as many rows of files without an order are held at a time."""
_FILES = 2
"""So many files without an order are decoded side by side."""
_MOST_PASSES = 6
"""Each file without an order is read at most as often; of more rows than `_HELD` times this, more are held."""


def prepare_compaction(
    rewrites: Sequence[Rewrite], stored: LocalVersion, file_bytes: int
) -> tuple[list[DataFile], list[str]]:
    """Write the new files; return them, and the actions that replace the old ones."""
    added = [new for each in rewrites for new in _rewrite(each, stored, file_bytes)]
    removed = (file.removed(changes=False) for file in files_of(rewrites))
    return added, [*removed, *(file.added(changes=False) for file in added)]


def _rewrite(rewrite: Rewrite, stored: LocalVersion, file_bytes: int) -> Iterator[DataFile]:
    # Appended rows come first, as the last compaction wrote them.
    rewrite = evolve(rewrite, files=sorted(rewrite.files, key=lambda file: file.may_change))
    spec, outputs = stored.spec, -(-total_bytes(rewrite.files) // file_bytes)
    slices_of_output = max(1, -(-_height(rewrite.files) // (outputs * _SLICE)))
    bounded = bounded_columns(spec) if has_log(spec) else None
    slices = filter(len, _compacted_slices(rewrite, stored, outputs * slices_of_output))
    for first in slices:
        yield stored.data.write_slices(chain([first], islice(slices, slices_of_output - 1)), bounded)


def _height(files: Iterable[DataFile]) -> int:
    return sum(file.rows or 0 for file in files)


def _compacted_slices(rewrite: Rewrite, stored: LocalVersion, count: int) -> Iterator[pl.DataFrame]:
    """The compacted rows of a partition's files in the order of their keys, in about this number of slices.

    Raises:
        HeadwaterError: a file cannot be read, as of `explain_read_errors`.
    """
    order = key_inside(stored.spec)
    compact = partial(_compacted, spec=stored.spec, order=order, rewrite=rewrite)
    with explain_read_errors():
        if coded := _read_codes(rewrite.files, stored, order):
            yield from map(compact, _stored_slices(coded, stored, count))
            return
        rows = compact(stored.stored(rewrite.files, once=True).collect())
    yield from rows.iter_slices(max(1, -(-rows.height // count)))


@frozen(eq=False)
class _CodedFile:
    """A file, whose rows are read when they are needed.

    Args:
        rows: its stored rows.
        code: for each row the place of its key, in order; see `order_code`.
        order: the numbers of the rows in the order of their keys; None if they are read in slices, without the others:
            a compaction has written them in order.
    """

    rows: pl.LazyFrame
    code: pl.Series
    order: pl.Series | None

    @classmethod
    def of(cls, rows: pl.LazyFrame, code: pl.Series) -> _CodedFile:
        """A file with the code of each of its rows."""
        if code.len() > _SLICE and code.is_sorted():
            return cls(rows, code, None)
        order = code.arg_sort()
        return cls(rows, code[order], order)

    @property
    def size(self) -> int:
        """What is in memory of it, in bytes."""
        return int(self.code.estimated_size() + (0 if self.order is None else self.order.estimated_size()))

    def slice(self, low: int, high: int | None) -> pl.DataFrame:
        """The rows between two codes, read without the others; see `between`."""
        start, length = _find(self.code, low, high)
        return self._coded(self.rows.slice(start, length).collect(), start)

    def between(self, rows: pl.DataFrame, low: int, high: int | None) -> pl.DataFrame:
        """The rows whose code is from `low` to before `high` (None: to the end), in order, with it as `_CODE`.

        Args:
            rows: the rows of the file, which has an `order`.
            low: the lowest code.
            high: what is higher than the highest one.
        """
        assert self.order is not None
        start, length = _find(self.code, low, high)
        return self._coded(rows[self.order.slice(start, length)], start)

    def _coded(self, rows: pl.DataFrame, start: int) -> pl.DataFrame:
        return rows.with_columns(self.code.slice(start, rows.height).alias(_CODE))


@frozen(eq=False)
class _Parts:
    """A column of some files; each iteration reads it again, file by file."""

    files: Sequence[pl.LazyFrame]
    name: str

    def __iter__(self) -> Iterator[pl.Series]:
        return (rows.select(self.name).collect().to_series() for rows in self.files)


def _read_codes(files: Sequence[DataFile], stored: LocalVersion, order: Sequence[str]) -> list[_CodedFile]:
    """The files of a partition, with the codes of their rows; none if its keys have no such places."""
    is_large = _height(files) > _HELD
    if is_large:
        check_room(total_bytes(files) * IN_MEMORY // _MOST_PASSES)
    found = [stored.scan([file]) if is_large else stored.stored([file], once=True) for file in files]
    code = order_code(_Parts(found, name) for name in order)
    if code is None:
        return []
    ends = accumulate(rows.select(pl.len()).collect().item() for rows in found)
    codes = [code[start:end] for start, end in pairwise([0, *ends])]
    return list(map(_CodedFile.of, found, codes))


def _stored_slices(files: Sequence[_CodedFile], stored: LocalVersion, count: int) -> Iterator[pl.DataFrame]:
    """The stored rows of a partition, in about this number of slices: a key has all its rows in one of them."""
    rows = sum(each.code.len() for each in files)
    some = pl.concat(each.code for each in files).gather_every(max(1, rows // (count * _SAMPLED))).sort()
    cuts = some[[at * some.len() // count for at in range(1, count)]].unique().sort()
    ranges = list(zip([0, *cuts], [*cuts, None], strict=True))
    in_slices = [each for each in files if each.order is None]
    others = [each for each in files if each.order is not None]
    passes = min(_MOST_PASSES, -(-sum(each.code.len() for each in others) // _HELD))
    slices_of_pass = -(-len(ranges) // max(1, passes))
    for at in range(0, len(ranges), slices_of_pass):
        together = ranges[at : at + slices_of_pass]
        held = list(_read_between(others, together[0][0], together[-1][1]))
        size = sum(each.size for each in files) + sum(int(each.estimated_size()) for each in held)
        hold_files([(f"{stored.log.path} compacted", size)])
        cut = [_cut(each, [low for low, _ in together[1:]]) for each in held]
        for (low, high), *of_slice in zip(together, *cut, strict=True):
            yield pl.concat([*(each.slice(low, high) for each in in_slices), *of_slice], rechunk=True)


def _read_between(files: Sequence[_CodedFile], low: int, high: int | None) -> Iterator[pl.DataFrame]:
    """The rows of each file whose code is from `low` to before `high` (None: to the end), in order."""
    for at in range(0, len(files), _FILES):
        some = files[at : at + _FILES]
        for file, rows in zip(some, pl.collect_all(each.rows for each in some), strict=True):
            yield file.between(rows, low, high)


def _cut(rows: pl.DataFrame, at: Sequence[int]) -> list[pl.DataFrame]:
    """Rows in the order of their `_CODE`, cut before each of these values."""
    starts = rows[_CODE].search_sorted(pl.Series(at, dtype=pl.Int64), "left")
    return [rows.slice(start, end - start) for start, end in pairwise([0, *starts, rows.height])]


def _find(code: pl.Series, low: int, high: int | None) -> tuple[int, int]:
    """Where the values from `low` to before `high` (None: to the end) start in a sorted code, and how many they are."""
    start = code.search_sorted(low, "left")
    return start, (code.len() if high is None else code.search_sorted(high, "left")) - start


def _compacted(rows: pl.DataFrame, spec: TableSpec, order: Sequence[str], rewrite: Rewrite) -> pl.DataFrame:
    """Stored rows of some keys, compacted and sorted.

    Args:
        rows: all their rows in the files of the rewrite; the column `_CODE`, if they have it, numbers their keys in the
            order of these.
        spec: the table's spec.
        order: the key columns that tell these rows apart.
        rewrite: whose files these are.
    """
    coded = _CODE in rows.columns
    key = [_CODE] if coded else list(order or spec.key)
    if has_log(spec):
        rows = (_fold_whole if rewrite.whole else _fold_part)(rows, spec, key, deletes=rewrite.deletes)
    if order and not (has_log(spec) and spec.newest_counts):  # these are sorted
        rows = rows[rows[_CODE].arg_sort()] if coded else sort_rows(rows, order)
    return rows.select(stored_schema(spec).names)


def _fold_whole(rows: pl.DataFrame, spec: TableSpec, key: Sequence[str], *, deletes: bool) -> pl.DataFrame:
    """One row of each key that is not deleted, appended; `rows` are all rows of their keys."""
    if spec.newest_counts:
        folded = _newest(rows, key).filter(pl.col(OPERATION) != DELETED)
    else:
        folded = _folded(rows.lazy(), spec, key, deletes=deletes).collect()
    return folded.with_columns(pl.lit(APPENDED, pl.Int8).alias(OPERATION))


def _fold_part(rows: pl.DataFrame, spec: TableSpec, key: Sequence[str], *, deletes: bool) -> pl.DataFrame:
    """Rows that fold to the same with the other rows of their keys; one row of each key, if that can be."""
    if spec.newest_counts:
        return _newest(rows, key)
    if deletes or not (spec.adds_up or has_only_groups(spec)):  # a row in between may be in another file
        return rows
    if any(may_overflow(rows[name]) for name, rule in spec.column_rules.items() if isinstance(rule, Sum)):
        return rows  # all rows of a key may add up to less
    shared = pl.len().over(key) > 1
    alone, several = rows.filter(~shared), rows.lazy().filter(shared)
    folded = fold_rows(several, spec, key, deletes=False) if spec.adds_up else drop_outdone(several, spec, key)
    return pl.concat([alone, folded.with_columns(_merged()).select(rows.columns).collect()])


def _newest(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Of each key the newest row, sorted by key. If it has replaced others, it is stored as a merged one."""
    differs = [pl.col(name).ne_missing(pl.col(name).shift()) for name in key]
    begins = pl.any_horizontal(*differs, pl.int_range(pl.len()) == 0)
    ordered = rows.sort(*key, SEQUENCE).with_columns(begins.alias(_BEGINS))
    ends = pl.col(_BEGINS).shift(-1, fill_value=True)
    replaces = ~pl.col(_BEGINS) & (pl.col(OPERATION) != DELETED)
    operation = pl.when(replaces).then(_merged()).otherwise(OPERATION).alias(OPERATION)
    return ordered.filter(ends).with_columns(operation).drop(_BEGINS)


def _merged() -> pl.Expr:
    return pl.lit(MERGED, pl.Int8).alias(OPERATION)


def _folded(rows: pl.LazyFrame, spec: TableSpec, key: Sequence[str], *, deletes: bool) -> pl.LazyFrame:
    if spec.adds_up and not deletes:
        return fold_rows(rows, spec, key, deletes=False)
    appended = pl.col(OPERATION) == APPENDED
    return fold_parts(rows.filter(appended), rows.filter(~appended), spec, key, deletes=deletes)
