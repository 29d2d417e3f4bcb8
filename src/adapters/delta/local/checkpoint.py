"""Reads a checkpoint of a Delta log: the state of a table in Parquet files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ....domain.errors import TableDamaged
from ..actions import DataFile
from .storage import ParquetFiles

_ADDED = ("path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionVector")
_BODIES = ("metaData", "protocol")
_COLUMNS = [*(f"add.{name}" for name in _ADDED), *_BODIES]


def read_checkpoint(
    parts: Iterable[str], parquet: ParquetFiles
) -> tuple[dict[str, DataFile], dict[str, Any], dict[str, Any]]:
    """The data files by path, and the bodies of the metadata and protocol actions.

    Raises:
        TableDamaged: a part cannot be read.
    """
    files: dict[str, DataFile] = {}
    bodies: dict[str, dict[str, Any]] = {name: {} for name in _BODIES}
    for part in parts:
        actions = _read(part, parquet)
        for body in _bodies_of(actions["add"]):
            file = DataFile.from_action(body)
            files[file.path] = file
        for name in bodies:
            for body in _bodies_of(actions[name]):
                bodies[name] = body
    return files, bodies["metaData"], bodies["protocol"]


def _read(part: str, parquet: ParquetFiles) -> pa.Table:
    """The actions of a part, one a row, in a column of each kind. What removes have is not read: they may be many."""
    try:
        with pq.ParquetFile(parquet.open(part)) as opened:
            return opened.read(_COLUMNS).select(["add", *_BODIES])
    except (OSError, KeyError, pa.ArrowException) as error:
        raise TableDamaged(f"checkpoint {part} cannot be read ({error}); put it back from a backup") from error


def _bodies_of(actions: pa.ChunkedArray) -> Iterator[dict[str, Any]]:
    """The bodies of the actions of one kind, without fields that are null."""
    # The rows of other kinds are null. They are dropped first: as Python objects they would take seconds.
    for body in actions.drop_null().to_pylist(maps_as_pydicts="strict"):
        yield {name: value for name, value in body.items() if value is not None}
