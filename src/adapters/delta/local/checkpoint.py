"""Reads a checkpoint of a Delta log: the state of a table in Parquet files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ....domain.errors import TableDamaged
from ..actions import DataFile
from .storage import ParquetFiles

_ACTIONS = ("add", "metaData", "protocol")
_ADDED = ("path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionVector")


def read_checkpoint(
    parts: Iterable[str], parquet: ParquetFiles
) -> tuple[dict[str, DataFile], dict[str, Any], dict[str, Any]]:
    """The data files by path, and the bodies of the metadata and protocol actions.

    Raises:
        TableDamaged: a part cannot be read.
    """
    files: dict[str, DataFile] = {}
    bodies: dict[str, dict[str, Any]] = {"metaData": {}, "protocol": {}}
    for part in parts:
        for row in _rows(part, parquet):
            if add := row["add"]:
                file = DataFile.from_action({name: add[name] for name in _ADDED if add.get(name) is not None})
                files[file.path] = file
            for name in bodies:
                if row[name]:
                    bodies[name] = {key: value for key, value in row[name].items() if value is not None}
    return files, bodies["metaData"], bodies["protocol"]


def _rows(part: str, parquet: ParquetFiles) -> list[dict[str, Any]]:
    try:
        table = pq.read_table(parquet.open(part), columns=list(_ACTIONS))
    except (OSError, pa.ArrowException) as error:
        raise TableDamaged(f"checkpoint {part} cannot be read ({error}); put it back from a backup") from error
    rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    return rows
