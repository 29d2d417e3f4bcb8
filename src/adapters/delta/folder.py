"""The files in a table's folder, listed without the log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import define

from ..spark.hadoop_files import delete_files
from .stored_file import StoredFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NUMBERED = re.compile(r"\d{20}\..+")


@define(eq=False)
class TableFolder:
    """The folder of one table; `_log` is Delta's own `DeltaLog`. Exceptions of the JVM are not translated."""

    session: SparkSession
    _log: Any

    def data_files(self) -> list[StoredFile]:
        """All files in the folder and its subfolders, without hidden ones; the cluster lists them if they are many."""
        root = str(self._log.dataPath().toString()) + "/"
        # The path is not a glob pattern.
        options = {"recursiveFileLookup": True, "ignoreMissingFiles": True, "__globPaths__": False}
        files = self.session.read.format("binaryFile").options(**options).load(root)
        rows = files.selectExpr("path", "length", "unix_millis(modificationTime) AS modified").collect()
        # A path spelled differently from the root would look unreferenced, because the log does not have that spelling.
        own = (row for row in rows if row["path"].startswith(root))
        return [_stored(row["path"], row["path"].removeprefix(root), row["length"], row["modified"]) for row in own]

    def log_files(self) -> list[StoredFile]:
        folder = self._log.logPath()
        statuses = folder.getFileSystem(self._log.newDeltaHadoopConf()).listStatus(folder)
        found = [
            _stored(
                str(each.getPath().toString()), str(each.getPath().getName()), each.getLen(), each.getModificationTime()
            )
            for each in statuses
            if each.isFile()
        ]
        return sorted((file for file in found if _NUMBERED.fullmatch(file.name)), key=lambda file: file.name)

    def checkpoint_at_or_before(self, version: int) -> int | None:
        """The newest complete checkpoint from which a version can be read; None if it is read from the first commit."""
        found = self._log.findLastCompleteCheckpointBefore(version + 1)
        return int(found.get().version()) if found.isDefined() else None

    def delete(self, files: Iterable[StoredFile]) -> None:
        delete_files(self.session, (file.path for file in files))


def _stored(path: str, name: str, size: int, modified_millis: int) -> StoredFile:
    return StoredFile(path, name, int(size), datetime.fromtimestamp(modified_millis / 1000, UTC))
