"""Reads Hudi's log files: blocks of changed rows, and blocks of the keys of deleted ones.

The format is that of Hudi's technical specification. A block of any kind that Headwater does not write is refused, and
Spark reads the table.
"""

from __future__ import annotations

import json
from io import BytesIO
from struct import Struct, error
from typing import TYPE_CHECKING, Any

import fastavro
import polars as pl
from attrs import frozen

from ....domain.errors import EngineLimit, TableDamaged
from ...polars.schema import polars_type
from ..names import DELETED, SEQUENCE, stored_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ....domain.table.schema import DataType, Schema

RECORD_KEY = "_hoodie_record_key"
"""string: Hudi's own copy of a row's key, which identifies the row within its file group."""
GONE = "_gone"
"""boolean: whether a row of a log only deletes its key."""

_MAGIC = b"#HUDI#"
_INT, _LONG = Struct(">i"), Struct(">q")
_DELETES, _ROWS = 1, 3
_SCHEMA, _COMPACTED, _PARTIAL = 2, 4, 7
_VERSION = 3
"""The version of the content of blocks of both kinds."""
_NUMBERED = frozenset({"timestamp-micros", "local-timestamp-micros", "date"})
"""Times, which are read as numbers: Polars makes times of a column of numbers at once."""
_NUMBERS = {"date": pl.Int32(), "timestamp": pl.Int64(), "timestamp_ntz": pl.Int64()}


def _wrapper(name: str, kind: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": "value", "type": kind}]}


_DELETE_LIST = fastavro.parse_schema(
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
    parts = []
    try:
        for block in _blocks(path.read_bytes(), path):
            if block.kind == _ROWS:
                parts.append(_rows(block, schema, path))
            else:
                parts.append(_deletes(block, path))
    except (EOFError, IndexError, UnicodeDecodeError, ValueError, error) as fault:
        raise TableDamaged(f"file {path} cannot be read ({fault}); put it back from a backup") from fault
    columns = pl.Schema({RECORD_KEY: pl.String(), GONE: pl.Boolean(), SEQUENCE: pl.Int64()})
    empty = pl.DataFrame(schema=columns | {each.name: polars_type(each.type) for each in schema.columns})
    return pl.concat([empty, *parts], how="diagonal")


def _blocks(data: bytes, path: Path) -> Iterator[_Block]:
    at = 0
    while at < len(data):
        if data[at : at + len(_MAGIC)] != _MAGIC:
            raise ValueError(f"no block begins at byte {at}")
        at += len(_MAGIC)
        (size,) = _LONG.unpack_from(data, at)
        at += _LONG.size
        yield _block(data[at : at + size], path)
        at += size


def _block(data: bytes, path: Path) -> _Block:
    version, kind, entries = (_INT.unpack_from(data, at)[0] for at in (0, 4, 8))
    if version != 1 or kind not in {_DELETES, _ROWS}:
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
    if (found := _INT.unpack_from(content, 0)[0]) != _VERSION:
        raise _unknown(path, f"a block whose content has version {found}")
    return _Block(kind, header, content)


def _rows(block: _Block, schema: Schema, path: Path) -> pl.DataFrame:
    written = json.loads(block.header[_SCHEMA])
    there = {each["name"]: each for each in written["fields"]}
    for each in there.values():
        each["type"] = _as_numbers(each["type"])
    parsed = fastavro.parse_schema(written)
    records: list[Any] = [fastavro.schemaless_reader(BytesIO(each), parsed, None) for each in _records(block.content)]
    series = [
        pl.Series(RECORD_KEY, [each[RECORD_KEY] for each in records], pl.String()),
        pl.Series(GONE, [bool(each.get(DELETED)) for each in records], pl.Boolean()),
    ]
    if SEQUENCE in there:
        series.append(pl.Series(SEQUENCE, [each[SEQUENCE] for each in records], pl.Int64()))
    known = [(each, name) for each in schema.columns if (name := stored_name(each.name)) in there]
    series += [_series(own.name, [each[name] for each in records], own.type, path) for own, name in known]
    return pl.DataFrame(series)


def _records(content: bytes) -> Iterator[bytes]:
    (count,), at = _INT.unpack_from(content, 4), 8
    for _ in range(count):
        (size,) = _INT.unpack_from(content, at)
        yield content[at + 4 : at + 4 + size]
        at += 4 + size


def _series(name: str, values: Sequence[Any], kind: DataType, path: Path) -> pl.Series:
    dtype = polars_type(kind)
    try:
        return pl.Series(name, values, _NUMBERS.get(kind.name, dtype)).cast(dtype)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as fault:
        raise _unknown(path, f"values of column {name!r} that are no {kind.ddl} ({fault})") from fault


def _deletes(block: _Block, path: Path) -> pl.DataFrame:
    (size,) = _INT.unpack_from(block.content, 4)
    try:
        found: Any = fastavro.schemaless_reader(BytesIO(block.content[8 : 8 + size]), _DELETE_LIST, None)
    except (EOFError, IndexError, UnicodeDecodeError) as fault:
        raise _unknown(path, f"a list of deleted keys in another form ({fault})") from fault
    keys = [each["key"] for each in found["deletes"]]
    return pl.DataFrame({RECORD_KEY: keys}, {RECORD_KEY: pl.String()}).with_columns(pl.lit(True).alias(GONE))


def _as_numbers(kind: Any) -> Any:
    """An Avro type without the logical types of times."""
    if isinstance(kind, list):
        return [_as_numbers(each) for each in kind]
    if isinstance(kind, dict) and kind.get("logicalType") in _NUMBERED:
        return kind["type"]
    return kind


def _unknown(path: Path, what: str) -> EngineLimit:
    return EngineLimit(f'file {path} has {what}, which only Hudi reads: set engine = "spark"')
