"""A commit that this process makes by itself: its data files, and Hudi's timeline.

It is what Hudi's own writer makes of an upsert. If the writer dies, Hudi rolls the commit back by its markers.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
from attrs import define, field

from ....domain.errors import StoreUnavailable
from ...shared.local_files import create, flush, translate_errors
from ..clock import moment
from .slices import TIMELINE
from .table_files import NewFile, TableFiles

if TYPE_CHECKING:
    from pathlib import Path

_TEMPORARY = ".hoodie/.temp"
_PARTITION_FILE = ".hoodie_partition_metadata"
_NO_OTHERS = (
    *("totalWriteErrors", "totalLogRecords", "totalUpdatedRecordsCompacted", "totalLogBlocks", "totalCorruptLogBlock"),
    *("totalRollbackBlocks", "totalLogFilesCompacted", "totalLogReadTimeMs", "totalLogSizeCompacted", "numUpdates"),
)
"""Counts of a file that are 0: Hudi's readers want a number."""


@define(eq=False)
class LocalCommit:
    """One commit.

    Args:
        table: the table.
        make: the files of an instant.
    """

    table: TableFiles
    make: Callable[[str], Iterable[NewFile]]
    _instant: str = field(init=False, default="")

    def write(self, extra: Mapping[str, str]) -> list[NewFile]:
        """Commit; return the files. Call it under the table's lock, after `Timeline.wait_for_clock`.

        Args:
            extra: the metadata of the commit.

        Raises:
            StoreUnavailable: the disk fails; the next commit rolls this one back.
        """
        self._instant = _name(datetime.now(UTC))
        with translate_errors("write", self.table.root):
            self._begin()
            files = [self._written(each) for each in self.make(self._instant)]
            self._complete(files, {**extra, "schema": self.table.schema})
        return files

    @property
    def _timeline(self) -> Path:
        return self.table.root / TIMELINE

    @property
    def _markers(self) -> Path:
        return self.table.root / _TEMPORARY / self._instant

    def _begin(self) -> None:
        requested = self._timeline / f"{self._instant}.{self.table.action}.requested"
        inflight = self._timeline / f"{self._instant}{self.table.inflight}"
        requested.touch()
        inflight.write_bytes(self._encoded([], {}))
        for each in (requested, inflight, self._timeline):  # else nobody would roll back a file that is on the disk
            flush(each)

    def _written(self, file: NewFile) -> NewFile:
        """Write a file, with its marker before it, and what Hudi wants in a new partition."""
        folder = self.table.root / file.folder
        marker = self._markers / file.folder / f"{file.name}.marker.CREATE"
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
        flush(marker.parent)
        if not folder.exists():
            folder.mkdir()
            flush(folder.parent)
        if not (folder / _PARTITION_FILE).exists():
            depth = 1 if file.folder else 0
            text = f"#partition metadata\ncommitTime={self._instant}\npartitionDepth={depth}\n"
            create(folder / _PARTITION_FILE, text.encode())
        (folder / file.name).write_bytes(file.content)
        flush(folder / file.name)
        flush(folder)
        return file

    def _complete(self, files: Iterable[NewFile], extra: Mapping[str, str]) -> None:
        """Complete the commit; it is made when its last file is there."""
        ended = max(datetime.now(UTC), moment(self._instant) + timedelta(milliseconds=1))
        name = f"{self._instant}_{_name(ended)}.{self.table.action}"
        if not create(self._timeline / name, self._encoded(files, extra)):
            raise StoreUnavailable(f"{self._timeline / name} is there already; let one run at a time write a pipeline")
        shutil.rmtree(self._markers, ignore_errors=True)

    def _encoded(self, files: Iterable[NewFile], extra: Mapping[str, str]) -> bytes:
        """The metadata of the commit, as Hudi stores it."""
        by_folder: dict[str, list[dict[str, Any]]] = {}
        for each in files:
            by_folder.setdefault(each.folder, []).append(_statistics(each))
        record = {
            "partitionToWriteStats": by_folder,
            "compacted": False,
            "extraMetadata": extra,
            "version": None,
            "operationType": "UPSERT",
        }
        encoded = BytesIO()
        fastavro.writer(encoded, self.table.metadata, [record])
        return encoded.getvalue()


def _statistics(file: NewFile) -> dict[str, Any]:
    log = {"logVersion": 1, "logOffset": 0, "baseFile": "", "logFiles": [file.name]}
    return {
        "fileId": file.group,
        "path": f"{file.folder}/{file.name}" if file.folder else file.name,
        "prevCommit": file.previous,
        "partitionPath": file.folder,
        "numWrites": file.rows,
        "numInserts": file.inserts,
        "numUpdateWrites": file.updates,
        "numDeletes": file.deletes,
        "totalWriteBytes": len(file.content),
        "fileSizeInBytes": len(file.content),
        **(log if file.is_log else {}),
        **dict.fromkeys(_NO_OTHERS, 0),
        "runtimeStats": dict.fromkeys(("totalScanTime", "totalCreateTime", "totalUpsertTime"), 0),
    }


def _name(time: datetime) -> str:
    """The name of an instant at a time (UTC), to the millisecond."""
    return f"{time:%Y%m%d%H%M%S}{time.microsecond // 1000:03d}"
