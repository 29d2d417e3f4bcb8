"""Reads Hudi's log files: blocks of changed rows, and blocks of the keys of deleted ones.

The format is that of Hudi's technical specification. Spark writes rows as Avro, and `log_blocks` as Parquet. A block of
any kind that neither writes is refused, and Spark reads the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from struct import Struct, error
from typing import Any

import fastavro
import polars as pl
from attrs import frozen

from ....domain.errors import EngineLimit, TableDamaged
from ....domain.table.schema import Schema
from ...polars.schema import polars_schema
from ..names import DELETED, GONE, SEQUENCE, stored_name
from .stored_rows import RECORD_KEY

_HIDDEN = {RECORD_KEY: RECORD_KEY, DELETED: GONE, SEQUENCE: SEQUENCE}
"""The columns of a log that are not those of the table, by their names in it."""
MAGIC = b"#HUDI#"
_SYNC = b"headwater reads."
"""16 bytes that end a block of Avro."""
_MORE = 128
_INT, _LONG = Struct(">i"), Struct(">q")
DELETES, PARQUET = 1, 5
_AVRO = 3
INSTANT, SCHEMA = 0, 2
_COMPACTED, _PARTIAL = 4, 7
VERSION = 3
"""The version of the content of blocks of deleted keys, and of rows as Avro."""
_CUT_OFF = (EOFError, IndexError, OSError, ValueError, error, pl.exceptions.ComputeError, pl.exceptions.PanicException)
"""What reading a block raises that is cut off or changed; Polars panics at ends that come too soon."""


def _wrapper(name: str, kind: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": kind}]}


DELETE_LIST = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Deletes",
        "fields": [
            {
                "name": "deletes",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Delete",
                        "fields": [
                            {"name": "key", "type": ["null", "string"]},
                            {"name": "partition", "type": ["null", "string"]},
                            # Hudi has more kinds of values that order records; ours are ordered by their commits.
                            {"name": "order", "type": ["null", _wrapper("Truth", "boolean"), _wrapper("Whole", "int")]},
                        ],
                    },
                },
            }
        ],
    }
)


@frozen
class _Block:
    kind: int
    header: Mapping[int, bytes]
    content: bytes


def read_log(path: Path, schema: Schema) -> pl.DataFrame:
    """The rows of a log file, in the order of its blocks: `RECORD_KEY`, `GONE`, `SEQUENCE` and a schema's columns.

    Columns that were added later are null, and so are all columns of a key that is deleted, and `SEQUENCE` in a table
    that is not folded on read.

    Raises:
        EngineLimit: the file has something that only Hudi itself can read.
        TableDamaged: the file is cut off or changed.
    """
    data = path.read_bytes()
    try:
        parts = [
            _deletes(block, path) if block.kind == DELETES else _rows(block, schema, path)
            for block in _blocks(data, path)
        ]
    except _CUT_OFF as fault:
        raise TableDamaged(f"file {path} cannot be read ({fault}); put it back from a backup") from fault
    columns = pl.Schema({RECORD_KEY: pl.String(), GONE: pl.Boolean(), SEQUENCE: pl.Int64()})
    empty = pl.DataFrame(schema=columns | polars_schema(schema))
    return pl.concat([empty, *parts], how="diagonal")


def _blocks(data: bytes, path: Path) -> Iterator[_Block]:
    at = 0
    while at < len(data):
        if data[at : at + len(MAGIC)] != MAGIC:
            raise ValueError(f"no block begins at byte {at}")
        at += len(MAGIC)
        (size,) = _LONG.unpack_from(data, at)
        at += _LONG.size
        yield _block(data[at : at + size], path)
        at += size


def _block(data: bytes, path: Path) -> _Block:
    version, kind, entries = (_INT.unpack_from(data, at)[0] for at in (0, 4, 8))
    if version != 1 or kind not in {DELETES, _AVRO, PARQUET}:
        raise _unknown(path, f"a block of version {version} and kind {kind}")
    at, header = 12, {}
    for _ in range(entries):
        name, size = _INT.unpack_from(data, at)[0], _INT.unpack_from(data, at + 4)[0]
        header[name] = data[at + 8 : at + 8 + size]
        at += 8 + size
    if _COMPACTED in header or header.get(_PARTIAL, b"false") != b"false":
        raise _unknown(path, "a block that Hudi has compacted, or one of partial rows")
    (size,) = _LONG.unpack_from(data, at)
    content = data[at + _LONG.size : at + _LONG.size + size]
    if len(content) != size:
        raise EOFError("the end is missing")
    if kind != PARQUET and (found := _INT.unpack_from(content, 0)[0]) != VERSION:
        raise _unknown(path, f"a block whose content has version {found}")
    return _Block(kind, header, content)


def _rows(block: _Block, schema: Schema, path: Path) -> pl.DataFrame:
    written = json.loads(block.header[SCHEMA])
    there = {each["name"] for each in written["fields"]}
    hidden = {name: into for name, into in _HIDDEN.items() if name in there}
    known = hidden | {stored: each.name for each in schema.columns if (stored := stored_name(each.name)) in there}
    if block.kind == PARQUET:
        found = pl.read_parquet(BytesIO(block.content), columns=list(known)).rename(known)
    else:
        found = pl.read_avro(_container(written, block.content), columns=list(known)).rename(known)
    if DELETED not in there:
        found = found.with_columns(pl.lit(value=False).alias(GONE))
    kinds = polars_schema(schema)
    try:
        return found.with_columns(pl.col(name).cast(kinds[name]) for name in found.columns if name in kinds)
    except pl.exceptions.InvalidOperationError as fault:
        raise _unknown(path, f"values of other types ({fault})") from fault


def _container(schema: Any, content: bytes) -> BytesIO:
    """The records of a block as a file of Avro with one block, which Polars reads by column."""
    file = BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), [], sync_marker=_SYNC)
    records = list(_records(content))
    size = sum(map(len, records))
    file.writelines((_varint(len(records)), _varint(size), *records, _SYNC))
    file.seek(0)
    return file


def _varint(number: int) -> bytes:
    """A length, as Avro writes it."""
    number, digits = 2 * number, bytearray()
    while number >= _MORE:
        digits.append(number % _MORE + _MORE)
        number //= _MORE
    return bytes([*digits, number])


def _records(content: bytes) -> Iterator[bytes]:
    (count,), at = _INT.unpack_from(content, 4), 8
    for _ in range(count):
        (size,) = _INT.unpack_from(content, at)
        yield content[at + 4 : at + 4 + size]
        at += 4 + size


def _deletes(block: _Block, path: Path) -> pl.DataFrame:
    (size,) = _INT.unpack_from(block.content, 4)
    try:
        found: Any = fastavro.schemaless_reader(BytesIO(block.content[8 : 8 + size]), DELETE_LIST, None)
    except (EOFError, IndexError, UnicodeDecodeError) as fault:
        raise _unknown(path, f"a list of deleted keys in another form ({fault})") from fault
    keys = [each["key"] for each in found["deletes"]]
    return pl.DataFrame({RECORD_KEY: keys}, {RECORD_KEY: pl.String()}).with_columns(pl.lit(True).alias(GONE))


def _unknown(path: Path, what: str) -> EngineLimit:
    return EngineLimit(f'file {path} has {what}, which only Hudi reads: set engine = "spark"')
