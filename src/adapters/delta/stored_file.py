"""A file that exists in a table's folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from datetime import datetime


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
