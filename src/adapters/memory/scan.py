"""Plain user-supplied files as Polars frames, in the types that Spark would read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import narwhals as nw
import polars as pl

from ...domain.errors import ConfigError, NotSupported, SourceUnavailable, first_line
from ..memory_limit import check_room, hold_rows
from ..polars.schema import cut_to_micros, lazy
from ..shared.table_folders import LOGS, check_exists, check_no_table, is_hidden, is_in_partition
from .csv_text import read_csv
from .json_text import find_fault, read_json

# Spark has no unsigned integers.
_AS_SPARK: MappingProxyType[pl.DataType, pl.DataType] = MappingProxyType(
    {pl.UInt8(): pl.Int16(), pl.UInt16(): pl.Int32(), pl.UInt32(): pl.Int64(), pl.UInt64(): pl.Decimal(20, 0)}
)


def scan_files(path: str, format_: str) -> nw.LazyFrame[Any]:
    """The rows of a file, or of the files in a folder; see `QueryEngine.scan`."""
    return _collected(path, format_, None)


def columns_at(path: str, format_: str) -> nw.LazyFrame[Any]:
    """The columns of a file, or of the files in a folder, without rows; raises the errors of `QueryEngine.scan`."""
    return _collected(path, format_, 0)


def _collected(path: str, format_: str, most: int | None) -> nw.LazyFrame[Any]:
    with _explain_removed(path):
        files = _files(path, format_)
        try:
            if most is None:
                check_room(sum(file.stat().st_size for file in files))
            rows = _csv(files, only_headers=most == 0) if format_ == "csv" else _READERS[format_](files)
            read = (rows if most is None else rows.head(most)).collect()
            _check_micros(path, read)
            found = _as_spark_reads(read.lazy()).collect()
        except pl.exceptions.PolarsError as error:
            fault = find_fault(files) if format_ == "json" else None
            general = f"cannot read {path} as {format_}: {first_line(error)}; look at the path and the format"
            raise ConfigError(fault or general) from error
    hold_rows(int(found.estimated_size()))
    return lazy(found)


def state(path: str, format_: str) -> str:
    """A fingerprint of the files at a path, which changes with them; see `QueryEngine.state`."""
    with _explain_removed(path):
        facts = [(each.name, each.stat().st_size, each.stat().st_mtime_ns) for each in _files(path, format_)]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


@contextmanager
def _explain_removed(path: str) -> Iterator[None]:
    """Translate the error about a file that was removed after it was listed.

    Raises:
        SourceUnavailable: there was such a file.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise SourceUnavailable(
            f"{path} changed while it was read: {first_line(error)}; it must be read again"
        ) from error


def _files(path: str, format_: str) -> list[Path]:
    if format_ in LOGS:
        raise NotSupported(f"reading {format_} tables", "memory", "use a backend on Spark, or export it to parquet")
    if format_ not in _READERS:
        raise ConfigError(f"unknown format {format_!r} of {path}; known: {', '.join([*_READERS, *LOGS])}")
    check_exists(path, f"a {format_} file or a folder of them")
    place = Path(path)
    if place.is_file():
        return [place]
    entries = list(place.iterdir())
    if format_ == "parquet":
        check_no_table(path, [each.name for each in entries])
    _check_no_partitions(place)
    found = sorted(each for each in entries if each.is_file() and each.name[0] not in "._")
    if not found:
        raise ConfigError(f"folder {path} has no {format_} file")
    return found


def _check_no_partitions(folder: Path) -> None:
    """Refuse a folder with files in folders of partitions, whose names Spark reads as columns.

    Raises:
        NotSupported: it has such files.
    """
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not is_hidden(name)]
        within = Path(place).relative_to(folder)
        if any(is_in_partition((*within.parts, name)) for name in files):
            raise NotSupported(
                f"folders of partitions, such as {str(within)!r} in {folder}",
                "reading without Spark",
                "use a backend on Spark, with engine spark or auto; or put all files into one folder, and the values"
                " of the partitions into columns",
            )


def _csv(files: list[Path], *, only_headers: bool = False) -> pl.LazyFrame:
    read = {file: rows for file in files if (rows := read_csv(file, only_header=only_headers)) is not None}
    if not read:
        raise ConfigError(f"{files[0]} has no header; write the names of the columns into its first line")
    first, *others = read
    for other in others:
        if read[other].columns != read[first].columns:
            raise ConfigError(
                f"file {other}: its header is {', '.join(read[other].columns)!r}, and that of {first.name} is"
                f" {', '.join(read[first].columns)!r}; write the same columns into each file, in the same order"
            )
    return pl.concat(read.values()).lazy()


def _parquet(files: list[Path]) -> pl.LazyFrame:
    scans = [pl.scan_parquet(file, hive_partitioning=False) for file in files]
    types: dict[str, pl.DataType] = {}
    for file, rows in zip(files, scans, strict=True):
        for name, dtype in rows.collect_schema().items():
            if dtype != pl.Null and types.setdefault(name, dtype) != dtype:  # Null is the type of nulls only
                raise ConfigError(
                    f"file {file}: column {name!r} is {dtype}, and {types[name]} in another file; write one type"
                )
    if len({name.lower() for name in types}) < len(types):
        raise ConfigError(f"{files[0].parent} has columns that differ only in case: {', '.join(types)}; rename them")
    return pl.concat(scans, how="diagonal_relaxed")


_READERS: dict[str, Callable[[list[Path]], pl.LazyFrame]] = {"parquet": _parquet, "csv": _csv, "json": read_json}


def _check_micros(path: str, rows: pl.DataFrame) -> None:
    """Refuse times that would lose digits in microseconds, which are Spark's.

    Raises:
        ConfigError: there are such times.
    """
    for name, dtype in rows.schema.items():
        micros = cut_to_micros(dtype)
        if micros != dtype and not rows[name].cast(micros).cast(dtype).equals(rows[name]):
            raise ConfigError(f"{path}: column {name!r} has times finer than a microsecond; round them first")


def _as_spark_reads(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.with_columns(_as_spark(name, dtype) for name, dtype in rows.collect_schema().items())


def _as_spark(name: str, dtype: pl.DataType) -> pl.Expr:
    value = pl.col(name)
    if isinstance(dtype, pl.Datetime):
        return (value.dt.convert_time_zone("UTC") if dtype.time_zone else value).dt.cast_time_unit("us")
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return value.cast(pl.String)
    return value.cast(_AS_SPARK.get(dtype, dtype))
