"""Data files, written and read by Polars. Recent files are cached in memory, because a file never changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import IO, TypeVar
from uuid import uuid4

import polars as pl
import pyarrow.parquet as pq
from attrs import define

from ....domain.table.schema import Schema
from ...polars.calendar import CALENDAR, read_footer
from ...polars.file_cache import READ_WHOLE, FileCache
from ...polars.file_errors import explain_read_errors
from ...polars.schema import polars_schema, polars_type
from ..actions import DataFile, by_partition
from .partition_values import is_plain, partition_text, partition_value
from .statistics import Statistics
from .storage import Storage

_T = TypeVar("_T")
_R = TypeVar("_R")

_REPETITIVE = 0.3
"""A dictionary is worth its time if at most this share of a column's values are different."""


@define(eq=False)
class DataFiles:
    """The data files of one table.

    Args:
        root: the folder of the table.
        storage: where it is.
        partition_by: its partition columns.
        names: the name of each column inside the files; see `mapping.physical_names`.
        cache: shared by all tables of a store.
    """

    root: str
    storage: Storage
    partition_by: Sequence[str]
    names: Mapping[str, str]
    cache: FileCache

    def write(self, rows: pl.DataFrame, bounded: Iterable[str] | None = None, *, parts: int = 1) -> list[DataFile]:
        """Write rows to new files, one or several for each partition.

        Args:
            rows: the rows, with the partition columns.
            bounded: the columns whose bounds are recorded; None for all that can be compared.
            parts: the number of files to write of the rows of each partition, in their order.
        """
        if not rows.height:
            return []
        found = _split(rows, list(self.partition_by)) if self.partition_by else [rows]
        files = [part for each in found for part in _slices(each, parts)]
        return self._each(lambda part: self.write_slices([part], bounded), files)

    def write_slices(self, slices: Iterable[pl.DataFrame], bounded: Iterable[str] | None = None) -> DataFile:
        """Write rows of one partition to a new file. They come in slices, of which one at a time is in memory.

        Args:
            slices: the rows, at least one, with the partition columns; no slice is empty.
            bounded: as for `write`.
        """
        remaining, by = iter(slices), list(self.partition_by)
        first = next(remaining)
        place = first.select(by).row(0) if by else ()
        bounded = [name for name in (_flat(first) if bounded is None else bounded) if name not in by]
        partition = {name: partition_text(value) for name, value in zip(by, place, strict=True)}
        folder = "".join(f"{name}={text}/" for name, text in partition.items() if is_plain(name) and is_plain(text))
        name = f"{folder}part-00000-{uuid4()}-c000.snappy.parquet"
        path = f"{self.root}/{name}"
        with self.storage.writing(path) as file:
            rows = (each.drop(by) for each in chain([first], remaining))
            statistics, only_slice = self._write_rows(file, rows, bounded)
            size = file.stat().st_size
        if only_slice is not None:
            self.cache.put(path, only_slice)
        action = {
            "path": name,
            "partitionValues": {self.names.get(column, column): text for column, text in partition.items()},
            "size": size,
            "modificationTime": time.time_ns() // 1_000_000,
            "dataChange": True,
            "stats": statistics.to_json(self.names),
        }
        return DataFile.from_action(action)

    def delete(self, files: Iterable[DataFile]) -> None:
        """Delete files that no commit has taken."""
        for file in files:
            self.storage.delete(f"{self.root}/{file.path}")

    def read(
        self,
        files: Iterable[DataFile],
        schema: Schema,
        path_of: Callable[[DataFile], str],
        *,
        whole: bool = True,
        once: bool = False,
    ) -> pl.LazyFrame:
        """The rows of files in the columns of a schema; columns that a file lacks are null.

        Args:
            files: the files.
            schema: the columns.
            path_of: tells where a file is.
            whole: whether small files are read whole, and cached.
            once: whether they are not cached, because nobody will read them again.

        Raises:
            TableDamaged: a file cannot be read.
        """
        stored = schema.without(tuple(self.partition_by))
        parts, files = [], list(files)
        read = self._read_small([path_of(file) for file in files if whole and not is_scanned(file)], once=once)
        for found in by_partition(files).values():
            constants = self.constants(found[0], schema)
            rows = self._rows([path_of(file) for file in found], read, stored)
            parts += [each.with_columns(**constants).select(schema.names) if constants else each for each in rows]
        return pl.concat(parts) if parts else pl.LazyFrame(schema=polars_schema(schema))

    def _read_small(self, paths: Iterable[str], *, once: bool) -> dict[str, pl.DataFrame]:
        """The rows of files that are read whole, by path, from the cache if they are there."""
        cached = {path: self.cache.get(path) for path in paths}
        found = {path: rows for path, rows in cached.items() if rows is not None}
        missing = [path for path in cached if path not in found]
        for path, rows in zip(missing, self._each(self._read_whole, missing), strict=True):
            found[path] = rows
            if not once:
                self.cache.put(path, rows)
        return found

    def _each(self, work: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
        """What a work that waits for the storage makes of each item; of several at a time, if that is faster."""
        if len(items) <= 1 or self.storage.at_once == 1:
            return [work(item) for item in items]
        with ThreadPoolExecutor(self.storage.at_once) as threads:
            return list(threads.map(work, items))

    def _rows(self, paths: Sequence[str], read: Mapping[str, pl.DataFrame], schema: Schema) -> Iterator[pl.LazyFrame]:
        """The rows of files of one partition: those that were read, and the others scanned."""
        mapped = any(self.names.get(name, name) != name for name in schema.names)
        small, usual = [], None if mapped else polars_schema(schema)
        for path in paths:
            if path not in read and not _has_int96(self._footer(path)):
                yield self._scan(path, schema)
                continue
            rows = read[path] if path in read else self._read_whole(path)
            small.append(rows if rows.schema == usual else rows.select(self._columns(rows.schema, schema)))
        if small:  # one node of a plan, however many files; nothing is copied
            yield pl.concat(small, rechunk=False).lazy()

    def _read_whole(self, path: str) -> pl.DataFrame:
        with explain_read_errors(path):
            content = self.storage.open(path)
            has_int96 = _has_int96(read_footer(path, content))
            return _from_int96(content) if has_int96 else pl.read_parquet(content, hive_partitioning=False, glob=False)

    def _footer(self, path: str) -> pq.FileMetaData:
        with explain_read_errors(path):
            return read_footer(path, self.storage.open_end(path))

    def _scan(self, path: str, schema: Schema) -> pl.LazyFrame:
        with explain_read_errors(path):
            rows = self.storage.scan(path)
            there = rows.collect_schema()
        return rows.select(self._columns(there, schema))

    def _columns(self, there: pl.Schema, schema: Schema) -> list[pl.Expr]:
        found = []
        for each in schema.columns:
            name, dtype = self.names.get(each.name, each.name), polars_type(each.type)
            if name not in there:
                found.append(pl.lit(None, dtype).alias(each.name))
            elif there[name] == dtype:
                found.append(pl.col(name).alias(each.name))
            else:
                found.append(_cast(pl.col(name), there[name], dtype).alias(each.name))
        return found

    def constants(self, file: DataFile, schema: Schema) -> dict[str, pl.Expr]:
        """The values that all rows of a file have in the partition columns."""
        return {
            name: pl.lit(
                partition_value(file.partition.get(self.names.get(name, name)), schema[name]),
                polars_type(schema[name]),
            )
            for name in self.partition_by
        }

    def _write_rows(
        self, path: Path, slices: Iterator[pl.DataFrame], bounded: Sequence[str]
    ) -> tuple[Statistics, pl.DataFrame | None]:
        """Write slices to a file; their statistics, and the rows of a file of one slice."""
        rows, following = next(slices), next(slices, None)
        statistics, stored = Statistics.of(rows, bounded), self._renamed(rows)
        if following is None:
            stored.write_parquet(path, compression="snappy", metadata=CALENDAR)
            return statistics, stored
        table = stored.to_arrow()
        schema = table.schema.with_metadata(CALENDAR)
        with pq.ParquetWriter(path, schema, compression="snappy", use_dictionary=_repetitive(stored)) as writer:
            writer.write_table(table)
            for each in chain([following], slices):
                writer.write_table(self._renamed(each).to_arrow())
                statistics = statistics.plus(Statistics.of(each, bounded))
        return statistics, None

    def _renamed(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.rename({column: self.names.get(column, column) for column in rows.columns})


def _repetitive(rows: pl.DataFrame) -> bool | list[str]:
    """The columns whose values are worth a dictionary; of others it takes most of the time of writing.

    True: all columns, as those inside a nested column are not looked at.
    """
    if any(dtype.is_nested() for dtype in rows.dtypes):
        return True
    counts = rows.select(pl.all().approx_n_unique()).row(0)
    return [name for name, count in zip(rows.columns, counts, strict=True) if count <= _REPETITIVE * rows.height]


def _split(rows: pl.DataFrame, by: list[str]) -> list[pl.DataFrame]:
    """Rows by their values in some columns."""
    if rows.select(pl.col(name).eq_missing(pl.col(name).first()).all() for name in by).row(0) == (True,) * len(by):
        return [rows]  # the usual case, which needs no copy
    return rows.partition_by(by, maintain_order=True)


def is_scanned(file: DataFile) -> bool:
    """Whether a file is too large to be read whole."""
    return file.size > READ_WHOLE


def _slices(rows: pl.DataFrame, parts: int) -> list[pl.DataFrame]:
    """Rows in about `parts` slices of the same size."""
    return list(rows.iter_slices(max(1, -(-rows.height // max(1, parts)))))


def _has_int96(footer: pq.FileMetaData) -> bool:
    """Whether a file has times in the type INT96, which old versions of Headwater wrote through Spark."""
    schema = footer.schema
    return any(schema.column(at).physical_type == "INT96" for at in range(len(schema)))


def _from_int96(content: Path | IO[bytes]) -> pl.DataFrame:
    # As nanoseconds they would overflow: these end in the year 2262.
    rows = pl.from_arrow(pq.ParquetFile(content, coerce_int96_timestamp_unit="us").read())
    assert isinstance(rows, pl.DataFrame)
    return rows


def _cast(column: pl.Expr, there: pl.DataType, wanted: pl.DataType) -> pl.Expr:
    if isinstance(wanted, pl.Datetime) and isinstance(there, pl.Datetime):
        plain = column.cast(pl.Datetime("us", there.time_zone))
        if wanted.time_zone and not there.time_zone:
            return plain.dt.replace_time_zone(wanted.time_zone)
        return plain.dt.convert_time_zone(wanted.time_zone) if wanted.time_zone else plain
    return column.cast(wanted)


def _flat(rows: pl.DataFrame) -> list[str]:
    """The columns that are not nested: of others, Delta would have the statistics of each field."""
    return [name for name, dtype in rows.schema.items() if not dtype.is_nested()]
