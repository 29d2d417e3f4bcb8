"""Tells of what a directory has that is not read: files with other endings, and sub-folders."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from attrs import define, field

from ...domain.errors import ConfigError, name_some
from .listing import ENDINGS, INCOMPLETE

_log = logging.getLogger(__name__)


@define(eq=False)
class Unread:
    """What a directory has that is not read; each warning is given once.

    Args:
        path: the directory.
        format: the format of the records, which decides the file names that are read.
    """

    path: str
    format: str
    _warned_of_files: bool = field(init=False, default=False)
    _warned_of_folders: bool = field(init=False, default=False)

    def pass_over(self, names: list[str]) -> None:
        """Warn once of files that are not read because of their endings."""
        if not self._warned_of_files:
            self._warned_of_files = True
            _log.warning(
                "%s: %d %s skipped (%s): %s",
                self.path,
                len(names),
                "file with another ending was" if len(names) == 1 else "files with other endings were",
                name_some(names),
                self._what_is_read,
            )

    def warn_of_folders(self, *, beside_files: bool) -> None:
        """Warn once of sub-folders.

        Args:
            beside_files: whether the directory has files that are read.
        """
        if not self._warned_of_folders and (folders := self._folders()):
            self._warned_of_folders = True
            _log.warning(
                "%s: %ssub-folders are not read (%s): put the files into one folder",
                self.path,
                "" if beside_files else "there are no files to read, and ",
                name_some(folders),
            )

    def check_empty(self) -> None:
        """Check that a directory without files to read has no other files or sub-folders either.

        Raises:
            ConfigError: it has some.
        """
        with os.scandir(self.path) as entries:
            files = sorted(each.name for each in entries if each.is_file() and _is_told(each.name))
        if others := files + self._folders():
            raise ConfigError(
                f"{self.path}: there are no files to read, only {name_some(others)}: {self._what_is_read}, and no"
                " sub-folders; put the files into this folder, or correct `path` or `format`. If the table is empty,"
                " empty the folder"
            )

    @property
    def _what_is_read(self) -> str:
        return f"format {self.format} reads names that end in {', '.join(ENDINGS[self.format])}"

    def _folders(self) -> list[str]:
        """The names of the sub-folders that are not empty, in order."""
        with os.scandir(self.path) as entries:
            there = sorted(each.name for each in entries if each.is_dir() and _is_told(each.name))
        return [name for name in there if _has_entries(Path(self.path, name))]


def _is_told(name: str) -> bool:
    """Whether a file or folder is neither hidden nor still being written."""
    return not name.startswith(("_", ".")) and not name.endswith(INCOMPLETE)


def _has_entries(folder: Path) -> bool:
    """Whether a folder has entries to tell; one that cannot be listed, such as ``lost+found``, counts as empty."""
    try:
        with os.scandir(folder) as entries:
            return any(_is_told(each.name) for each in entries)
    except OSError:
        return False
