"""The files of a table as they lie in its folder, whatever the log says of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import define, frozen

from ..spark.hadoop_files import delete_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

_NUMBERED = re.compile(r"\d{20}\..+")


@frozen
class StoredFile:
    """A file that is there.

    Args:
        path: where, as Hadoop writes it.
        name: relative to the folder, decoded.
        size: in bytes.
        modified: when it was written, by the file system's clock (UTC).
    """

    path: str
    name: str
    size: int
    modified: datetime

    @property
    def version(self) -> int:
        """The version that a file of the log is about."""
        return int(self.name.split(".", 1)[0])

    @property
    def commits(self) -> bool:
        """Whether a file of the log is a commit."""
        return self.name == f"{self.version:020}.json"


@define(eq=False)
class TableFolder:
    """The folder of one table; `_log` is Delta's own `DeltaLog`. Errors of the JVM pass through."""

    session: SparkSession
    _log: Any

    def data_files(self) -> list[StoredFile]:
        """All files but hidden ones, however deep, listed by the cluster where there are many."""
        root = str(self._log.dataPath().toString()) + "/"
        # A path is a path: no character of it stands for others.
        options = {"recursiveFileLookup": True, "ignoreMissingFiles": True, "__globPaths__": False}
        files = self.session.read.format("binaryFile").options(**options).load(root)
        rows = files.selectExpr("path", "length", "unix_millis(modificationTime) AS modified").collect()
        # A path written otherwise than its root cannot be told apart from one that nothing refers to.
        own = (row for row in rows if row["path"].startswith(root))
        return [_stored(row["path"], row["path"].removeprefix(root), row["length"], row["modified"]) for row in own]

    def log_files(self) -> list[StoredFile]:
        """The files of the log that are about one version each, in the order of the versions."""
        statuses = self._files.listStatus(self._log.logPath())
        found = [
            _stored(
                str(each.getPath().toString()), str(each.getPath().getName()), each.getLen(), each.getModificationTime()
            )
            for each in statuses
            if each.isFile()
        ]
        return sorted((file for file in found if _NUMBERED.fullmatch(file.name)), key=lambda file: file.name)

    def checkpoint_at_or_before(self, version: int) -> int | None:
        """The newest whole checkpoint that a version can be told from; None if it takes the log from its beginning."""
        found = self._log.findLastCompleteCheckpointBefore(version + 1)
        return int(found.get().version()) if found.isDefined() else None

    def delete(self, files: Iterable[StoredFile]) -> None:
        """Remove files, one after the other; those that are gone already are passed over."""
        delete_files(self.session, (file.path for file in files))

    @property
    def _files(self) -> Any:
        return self._log.logPath().getFileSystem(self._log.newDeltaHadoopConf())


def _stored(path: str, name: str, size: int, modified_millis: int) -> StoredFile:
    return StoredFile(path, name, int(size), datetime.fromtimestamp(modified_millis / 1000, UTC))
