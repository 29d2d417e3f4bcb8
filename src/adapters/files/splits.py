"""Splits of files, which workers read one by one, and their rows as Arrow batches.

Every engine reads through this module, so all of them see the same rows in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING

from attrs import frozen

from ...domain.errors import BadInput, HeadwaterError, SourceChanged, SourceUnavailable, did_you_mean
from ...domain.source.conversion import Undecodable
from ...domain.source.csv_format import CsvFormat
from ...domain.source.record_spec import RecordSpec
from ..records import csv as csv_text
from ..records.decoder import ROWS_A_BATCH, Record, RecordDecoder
from ..records.parsing import Parse
from ..records.shapes.chunk import BLANKS, BYTE_ORDER_MARK, Chunk
from ..records.shapes.decoder import BYTES_A_CHUNK, Portion, ShapeDecoder, gather_records
from ..records.shapes.decoders import ShapeDecoders
from ..records.typed_rows import TypedRows
from ..shared.compressed import explain_damage, is_compressed, open_file
from . import json_array, parquet
from .folder import check_not_away

if TYPE_CHECKING:
    import pyarrow as pa


BYTES_A_SPLIT = 32 * 2**20
_FILE_POSITIONS = 2**40
TO_THE_END = _FILE_POSITIONS
_DELIMITERS = (";", "\t", "|", ",")
_SMALL = 2**17


@frozen
class Split:
    """A part of a file: the lines that start from byte `start` to before `end`, or these row groups of Parquet."""

    ordinal: int
    path: str
    start: int = 0
    end: int = TO_THE_END

    @property
    def name(self) -> str:
        """The file's name within its directory."""
        return Path(self.path).name

    @property
    def first_position(self) -> int:
        """The position of the first row of its file."""
        return self.ordinal * _FILE_POSITIONS


def splits(files: list[Path], spec: RecordSpec) -> list[Split]:
    """Cut files into splits that can be read in parallel, in order.

    Raises:
        BadInput: a file lacks a declared column, has it in a type that does not fit, or is damaged.
        SourceChanged: a file is missing.
        SourceUnavailable: the files cannot be reached.
    """
    found: list[Split] = []
    for ordinal, path in enumerate(files):
        with explain_errors(path):
            check(path, spec)
            found += _cut(ordinal, path) if spec.is_lines else [Split(ordinal, str(path))]
    return found


def read(split: Split, decoder: ShapeDecoder | ShapeDecoders, *, lean: bool = False) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in order, as batches of `records.batch_schema`; `_position` orders them over all splits.

    Args:
        split: the split.
        decoder: decodes JSON records; it keeps the shapes that it learns, for the next split. Its spec is that of all
            records.
        lean: whether rows without an error may have null for ``_raw``.
    """
    spec = decoder.spec
    if spec.format == "parquet":
        yield from (rows.lean_batch if lean else rows.batch for rows in read_parquet(split, spec))
        return
    with explain_errors(split.path), explain_damage(split.path), open_file(split.path) as stream:
        if spec.format == "csv":
            yield from _read_csv(stream, split, spec)
        else:
            yield from decoder.decode((_json_portions if spec.is_lines else _array_portions)(stream, split))


def read_parquet(split: Split, spec: RecordSpec, rows_a_batch: int = ROWS_A_BATCH) -> Iterator[TypedRows]:
    """As `read`, for row groups of Parquet; the texts of the rows are made only if they are asked for."""
    with explain_errors(split.path):
        yield from parquet.read(
            Path(split.path), spec, split.first_position, range(split.start, split.end), rows_a_batch
        )


@contextmanager
def explain_errors(path: Path | str) -> Iterator[None]:
    """Translate errors of the disk about a file that is read.

    Raises:
        SourceChanged: the file is missing.
        SourceUnavailable: it cannot be reached, or its folder is away.
    """
    try:
        with _explain_faults(path):
            yield
    except FileNotFoundError as error:
        check_not_away(Path(path).parent)
        raise SourceChanged(f"file {path} was removed while it was read; put it back") from error


@contextmanager
def _explain_faults(path: Path | str) -> Iterator[None]:
    """Translate errors of the disk, but for a missing file."""
    try:
        yield
    except (HeadwaterError, FileNotFoundError):
        raise
    except OSError as error:
        reason = error.strerror or error
        raise SourceUnavailable(f"cannot read file {path}: {reason}; check the disk, and who may read it") from error


def check(path: Path, spec: RecordSpec) -> None:
    """Check that a file has the declared columns.

    Raises:
        BadInput: a declared column is missing, its type does not fit, or the file is damaged.
        FileNotFoundError: the file is missing.
        SourceUnavailable: it cannot be reached.
    """
    with _explain_faults(path):
        if spec.format == "parquet":
            parquet.check(path, spec)
        elif spec.format == "csv":
            header(path, spec)


def _cut(ordinal: int, path: Path) -> list[Split]:
    if is_compressed(path):
        return [Split(ordinal, str(path))]
    return cut_lines(ordinal, path, 0, path.stat().st_size)


def cut_lines(ordinal: int, path: Path, start: int, end: int) -> list[Split]:
    """Cut the lines that start from byte `start` to before `end` into splits that can be read in parallel."""
    starts = range(start, end, BYTES_A_SPLIT)
    return [Split(ordinal, str(path), each, min(each + BYTES_A_SPLIT, end)) for each in starts]


def _read_csv(stream: IO[bytes], split: Split, spec: RecordSpec) -> Iterator[pa.RecordBatch]:
    parse, rows = _csv(stream, split.name, spec)
    first = split.first_position
    return RecordDecoder(spec, parse).batches(Record(raw, first + at, split.name) for at, raw in rows)


def _json_portions(stream: IO[bytes], split: Split) -> Iterator[Portion]:
    """The records of a split, as lists where they are few, or not UTF-8."""
    first = split.first_position
    for at, block in _blocks(stream, split.start, split.end):
        try:
            chunk = Chunk.of_lines(block, first + at, split.name, is_first=at == 0) if len(block) > _SMALL else None
        except UnicodeDecodeError:
            chunk = None
        if chunk:
            yield chunk
        elif records := list(_json_records(block, at, first, split.name)):
            yield records


def _array_portions(stream: IO[bytes], split: Split) -> Iterator[Portion]:
    first = split.first_position
    return gather_records(Record(raw, first + at, split.name) for at, raw in json_array.elements(stream, split.name))


def _json_records(block: bytes, at: int, first: int, origin: str) -> Iterator[Record]:
    for offset, line in _unmarked((at + offset, line) for offset, line in _lines(BytesIO(block))):
        if raw := line.strip(BLANKS.encode()):
            yield Record(raw, first + offset, origin)


def _blocks(stream: IO[bytes], start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of blocks of whole lines, those that start from byte `start` to before `end`."""
    at = 0
    if start:
        stream.seek(start - 1)
        at = start - 1 + len(stream.readline())
    while at < end and (block := stream.read(min(BYTES_A_CHUNK, end - at))):
        if not block.endswith(b"\n"):
            block += stream.readline()
        yield at, block
        at += len(block)


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of the lines of a file."""
    at = 0
    for line in stream:
        yield at, line
        at += len(line)


def _unmarked(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Lines without a byte order mark at the start of the file."""
    for at, line in lines:
        yield at, (line if at else line.removeprefix(BYTE_ORDER_MARK))


def _csv(stream: IO[bytes], name: str, spec: RecordSpec) -> tuple[Parse, Iterator[tuple[int, bytes]]]:
    """The parser for the rows of a CSV file, from its header, and the rows."""
    header, rows = _header(stream, name, spec)
    return row_parser(header, spec.csv), rows


def row_parser(header: list[str], csv: CsvFormat) -> Parse:
    """The parser for the rows of a CSV file with these columns."""
    wanted = f"{len(header)} fields wanted, as in the {'header' if csv.header else 'schema'}"

    def parse(raw: bytes) -> dict[str, str | None]:
        values = csv_text.fields(csv_text.decoded(raw), csv)
        if len(values) != len(header):
            raise Undecodable(f"{wanted}, not {len(values)}")
        return dict(zip(header, values, strict=True))

    return parse


def header(path: Path, spec: RecordSpec) -> list[str]:
    """The column names of a CSV file; those of the schema if it has no header, and the file is not opened.

    Raises:
        BadInput: a declared column is missing, or the file is damaged.
        FileNotFoundError: the file is missing.
    """
    if not spec.csv.header:
        return list(spec.schema.names)
    with explain_damage(path), open_file(str(path)) as stream:
        return _header(stream, path.name, spec)[0]


def _header(stream: IO[bytes], name: str, spec: RecordSpec) -> tuple[list[str], Iterator[tuple[int, bytes]]]:
    """The column names of a CSV file, checked, and its rows. An empty file has no rows and needs no header."""
    rows = csv_text.records(_unmarked(_lines(stream)), spec.csv)
    if not spec.csv.header:
        return list(spec.schema.names), rows
    first = next(rows, None)
    if first is None:
        return [], rows
    try:
        header = csv_text.header_fields(first[1], spec.csv)
    except Undecodable as error:
        raise BadInput(f"file {name}: {error}") from error
    for column in spec.schema.columns:
        if header.count(column.name) != 1 and not (column.name in spec.optional and column.name not in header):
            problem = "occurs more than once in" if column.name in header else "is missing from"
            raise BadInput(
                f"file {name}: column {column.name!r} {problem} the header, which has: {', '.join(header)}"
                + _header_remedy(column.name, header)
            )
    return header, rows


def _header_remedy(name: str, header: list[str]) -> str:
    """What to do about a column that the header does not have once."""
    if name in header:
        return "; rename all but one of them"
    no_header = "; if the first line is a row, write the names above it; a source of files may set header = false"
    return _other_delimiter(header) or did_you_mean(name, header) or no_header


def _other_delimiter(header: list[str]) -> str:
    """A hint if the header looks separated by another delimiter; else empty."""
    found = next((each for each in _DELIMITERS if len(header) == 1 and each in header[0]), None)
    return f"; its fields seem to be separated by {found!r}: set delimiter = {json.dumps(found)}" if found else ""
