"""The files that exist in a table's folder."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from attrs import frozen


@frozen
class StoredFile:
    """An existing file.

    Args:
        path: its path, as the file system of the engine writes it.
        name: its path relative to the folder, decoded.
        size: in bytes.
        modified: the time of its last change on the file system (UTC).
    """

    path: str
    name: str
    size: int
    modified: datetime

    @property
    def version(self) -> int:
        """The version of a log file."""
        return int(self.name.split(".", 1)[0])

    @property
    def is_commit(self) -> bool:
        """Whether a log file is a commit."""
        return self.name == f"{self.version:020}.json"


class Folder(Protocol):
    """The files in a table's folder, listed without the log, on either engine."""

    def data_files(self) -> list[StoredFile]:
        """All data files in the folder."""

    def log_files(self) -> list[StoredFile]:
        """The log files that belong to one version each, in the order of the versions."""

    def checkpoint_at_or_before(self, version: int, /) -> int | None:
        """The newest complete checkpoint up to a version; None if there is none."""

    def delete(self, files: Iterable[StoredFile]) -> None:
        """Delete files one by one; missing files are ignored."""
