"""Parquet files as rows of a declared schema; see `records.typed_rows`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...domain.errors import BadInput
from ...domain.source.record_spec import RecordSpec
from ..records.column_types import check_columns
from ..records.decoder import ROWS_A_BATCH
from ..records.typed_rows import TypedRows, decode_rows


def check(path: Path, spec: RecordSpec) -> None:
    """Check a file against the declared schema.

    Raises:
        BadInput: it is not Parquet, is damaged, lacks a column, or has a column whose type could lose values.
    """
    with _open(path) as file:
        check_columns(file.schema_arrow, f"file {path.name}", spec)


def read(
    path: Path, spec: RecordSpec, first: int, groups: range, rows_a_batch: int = ROWS_A_BATCH
) -> Iterator[TypedRows]:
    """The rows of some row groups of a file.

    Args:
        path: the path of the file.
        spec: the spec of its rows.
        first: the position of the first row.
        groups: the numbers of the row groups; numbers that the file does not have are ignored.
        rows_a_batch: the largest number of rows to decode at once.

    Raises:
        BadInput: as of `check`; damage inside the file is met when its rows are read.
    """
    what = f"file {path.name}"
    with _open(path) as file:
        check_columns(file.schema_arrow, what, spec)
        wanted = [column for column in spec.schema.names if column in file.schema_arrow.names]
        instants = {column for column in wanted if is_int96(file, column)}
        there = range(groups.start, min(groups.stop, file.num_row_groups))
        at = first
        for rows in _batches(file, path, there, wanted, rows_a_batch):
            yield decode_rows(rows, spec, at, what=what, origin=path.name, instants=instants)
            at += rows.num_rows


def _open(path: Path) -> pq.ParquetFile:
    with _explain_damage(path, "is not Parquet"):
        # As nanoseconds, Spark's INT96 would overflow: they end in the year 2262.
        return pq.ParquetFile(str(path), coerce_int96_timestamp_unit="us")


def _batches(
    file: pq.ParquetFile, path: Path, groups: range, columns: list[str], rows_a_batch: int
) -> Iterator[pa.RecordBatch]:
    # Arrow has a dictionary for each row group, and cannot read those inside of nested values together.
    apart = any(_has_dictionary_inside(file.schema_arrow.field(each).type) for each in columns)
    with _explain_damage(path, "is damaged"):
        for some in ([each] for each in groups) if apart else [list(groups)]:
            yield from file.iter_batches(rows_a_batch, row_groups=some, columns=columns)


def _has_dictionary_inside(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind)) and "dictionary<" in str(kind)


@contextmanager
def _explain_damage(path: Path, problem: str) -> Iterator[None]:
    """Translate Arrow's errors about the content of a file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk
            raise
        # Some reasons have several lines; one line of a message is what comes from a worker of Spark.
        raise BadInput(f"file {path.name} {problem}: {' '.join(str(error).split())}; replace it") from error


def is_int96(file: pq.ParquetFile, column: str) -> bool:
    """Whether a column, or a value inside it, has the type INT96, in which Spark by default writes instants."""
    leaves = (leaf for leaf in map(file.schema.column, range(len(file.schema))) if leaf.path.split(".")[0] == column)
    return any(leaf.physical_type == "INT96" for leaf in leaves)
