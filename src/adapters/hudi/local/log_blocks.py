"""Writes Hudi's log files: a block of changed rows, as Parquet, and a block of the keys of deleted ones.

The format is that of Hudi's technical specification; `log_file` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from struct import Struct

import fastavro

from .log_file import DELETE_LIST, DELETES, INSTANT, MAGIC, PARQUET, SCHEMA, VERSION

_INT, _LONG = Struct(">i"), Struct(">q")
_NO_ORDER = ("Whole", {"value": 0})
_FORMAT = 1


def rows_block(rows: bytes, schema: str, instant: str) -> bytes:
    """A block of changed rows.

    Args:
        rows: a Parquet file of them, with Hudi's own columns.
        schema: theirs, as Avro JSON.
        instant: the commit's.
    """
    return _block(PARQUET, schema, instant, rows)


def deletes_block(keys: Iterable[str], folder: str, schema: str, instant: str) -> bytes:
    """A block of the record keys of deleted rows in a partition."""
    listed = BytesIO()
    deletes = [{"key": key, "partition": folder, "order": _NO_ORDER} for key in keys]
    fastavro.schemaless_writer(listed, DELETE_LIST, {"deletes": deletes})
    content = listed.getvalue()
    return _block(DELETES, schema, instant, _INT.pack(VERSION) + _INT.pack(len(content)) + content)


def _block(kind: int, schema: str, instant: str, content: bytes) -> bytes:
    header = {INSTANT: instant.encode(), SCHEMA: schema.encode()}
    entries = b"".join(_INT.pack(name) + _INT.pack(len(value)) + value for name, value in header.items())
    body = b"".join(
        (
            *(_INT.pack(number) for number in (_FORMAT, kind, len(header))),
            entries,
            _LONG.pack(len(content)),
            content,
            _INT.pack(0),  # no footer
        )
    )
    # The size counts what follows it: the body, and the size of the whole block at its end, from which it is read back.
    size = len(body) + _LONG.size
    return b"".join((MAGIC, _LONG.pack(size), body, _LONG.pack(len(MAGIC) + _LONG.size + len(body))))
