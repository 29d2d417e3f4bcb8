"""Parquet files as rows of a declared schema; see `records.typed_rows`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...domain.errors import BadInput
from ...domain.source.record_spec import RecordSpec
from ...domain.table.schema import DataType, Schema
from ..records.column_types import check_columns
from ..records.decoder import ROWS_A_BATCH, arrow_type
from ..records.nested_arrays import Faults, convert_nested
from ..records.typed_rows import TypedRows, decode_rows

_SPARK = b"org.apache.spark.version"
"""A key of the metadata of files that Spark has written."""


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
        BadInput: as of `check`; or a time is finer than a microsecond. Damage inside the file is met when its rows are
            read.
    """
    what = f"file {path.name}"
    with _open(path) as file:
        check_columns(file.schema_arrow, what, spec)
        wanted = [column for column in spec.schema.names if column in file.schema_arrow.names]
        instants = [column for column in wanted if is_int96(file, column)]
        there = range(groups.start, min(groups.stop, file.num_row_groups))
        if instants and may_have_nanos(file):
            _check_int96(file, path, there, spec.schema.select(instants))
        # Inside of one column may be instants and wall times, and only the file tells them apart.
        in_utc = {each: _with_zones(file, each) for each in instants if spec.schema[each].is_nested}
        plain = [each for each in instants if each not in in_utc]
        at = first
        for rows in _batches(file, path, there, wanted, rows_a_batch):
            yield decode_rows(_cast(rows, in_utc), spec, at, what=what, origin=path.name, instants=plain)
            at += rows.num_rows


def _open(path: Path) -> pq.ParquetFile:
    with _explain_damage(path, "is not Parquet"):
        # As nanoseconds, Spark's INT96 would overflow: they end in the year 2262.
        return pq.ParquetFile(str(path), coerce_int96_timestamp_unit="us")


def _batches(
    file: pq.ParquetFile, path: Path, groups: range, columns: list[str], rows_a_batch: int
) -> Iterator[pa.RecordBatch]:
    # Arrow has a dictionary for each row group, and cannot read those inside of nested values together.
    kinds = [file.schema_arrow.field(each).type for each in columns]
    apart = any(pa.types.is_nested(kind) and "dictionary<" in str(kind) for kind in kinds)
    with _explain_damage(path, "is damaged"):
        for some in ([each] for each in groups) if apart else [list(groups)]:
            yield from file.iter_batches(rows_a_batch, row_groups=some, columns=columns)


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
    return any(_are_int96(file, column))


def _are_int96(file: pq.ParquetFile, column: str) -> Iterator[bool]:
    """Whether each value inside a column that is not nested has the type INT96, in their order."""
    leaves = map(file.schema.column, range(len(file.schema)))
    return (leaf.physical_type == "INT96" for leaf in leaves if leaf.path.split(".")[0] == column)


def _cast(rows: pa.RecordBatch, kinds: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The rows with some columns in other types."""
    for name, kind in kinds.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows.column(name).cast(kind))
    return rows


def _with_zones(file: pq.ParquetFile, column: str) -> pa.DataType:
    """The type of a nested column in which the times of type INT96 are in UTC."""
    leaves = _are_int96(file, column)

    def convert(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([each.with_type(convert(each.type)) for each in kind])
        if pa.types.is_map(kind):
            return pa.map_(*(each.with_type(convert(each.type)) for each in (kind.key_field, kind.item_field)))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return pa.list_(kind.value_field.with_type(convert(kind.value_type)))
        return pa.timestamp("us", "UTC") if next(leaves) else kind

    return convert(file.schema_arrow.field(column).type)


def may_have_nanos(file: pq.ParquetFile) -> bool:
    """Whether times of type INT96 may be finer than a microsecond: those that Spark writes are not."""
    return _SPARK not in (file.metadata.metadata or {})


def _check_int96(file: pq.ParquetFile, path: Path, groups: range, columns: Schema) -> None:
    """Check that no declared time of type INT96 is finer than a microsecond.

    Raises:
        BadInput: a time is; the error names it.
    """
    with _explain_damage(path, "is damaged"), pq.ParquetFile(str(path)) as in_nanos:
        readers = (
            each.iter_batches(ROWS_A_BATCH, row_groups=[*groups], columns=[*columns.names]) for each in (file, in_nanos)
        )
        for both in zip(*readers, strict=True):
            for each in columns.columns:
                micros, nanos = (_leaves(rows.column(each.name), each.type) for rows in both)
                for pair in zip(micros, nanos, strict=True):
                    _check_micros(*pair, f"file {path.name}: column {each.name!r}")


def _leaves(values: pa.Array, kind: DataType) -> list[pa.Array]:
    """The values that are not nested, of each declared place inside of nested ones."""
    found = []

    def leaf(inside: pa.Array, kind: DataType) -> tuple[pa.Array, Faults]:
        found.append(inside)
        return pa.nulls(len(inside), arrow_type(kind)), {}

    convert_nested(values, kind, leaf)
    return found


def _check_micros(micros: pa.Array, nanos: pa.Array, what: str) -> None:
    """Check values that were read as microseconds and as nanoseconds, if they are times of type INT96."""
    if micros.type == nanos.type:
        return
    # Nanoseconds of times before 1677 or after 2262 wrap around, and so do the products: the differences are right.
    rest = pc.subtract(nanos.cast(pa.int64()), pc.multiply(micros.cast(pa.int64()), 1_000))
    finer = pc.fill_null(pc.not_equal(rest, 0), fill_value=False)
    if pc.any(finer).as_py():
        at = pc.index(finer, value=True).as_py()
        value = f"{micros[at].cast(pa.string())}{rest[at].as_py():03}"
        raise BadInput(f"{what} has times finer than a microsecond: {value}; round them first")
