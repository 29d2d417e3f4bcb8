"""The files in a table's folder on this machine, listed without the log."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from attrs import frozen

from ...shared.local_files import translate_errors
from ..actions import DataFile
from ..stored_file import StoredFile

_NUMBERED = re.compile(r"\d{20}\..+")
_LOGGED = re.compile(r"\d{20}\.(json$|checkpoint\.)")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")


@frozen
class LocalFolder:
    """The folder of one table, which need not exist. Its methods raise `StoreUnavailable` if the disk fails."""

    path: str

    @property
    def log(self) -> Path:
        """The folder of the log."""
        return Path(self.path) / "_delta_log"

    def path_of(self, file: DataFile) -> Path:
        """The path of a data file; the log has it percent-encoded, relative to the folder."""
        return Path(self.path) / unquote(file.path)

    def has(self, file: DataFile) -> bool:
        """Whether a data file is there."""
        with translate_errors("read", self.path):
            return self.path_of(file).exists()

    def commit_file(self, version: int) -> Path:
        """The path of a commit."""
        return self.log / f"{version:020}.json"

    def has_commit(self, version: int) -> bool:
        """Whether the log has a commit."""
        with translate_errors("read", self.log):
            return self.commit_file(version).exists()

    def commit_text(self, version: int) -> str | None:
        """The text of a commit; None if the log does not have it."""
        with translate_errors("read", self.log):
            try:
                return self.commit_file(version).read_text(encoding="utf-8")
            except FileNotFoundError:
                return None

    def data_files(self) -> list[StoredFile]:
        root = Path(self.path)
        found: list[StoredFile] = []
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not _hidden(name)]
            found += [_stored(Path(folder) / name, root) for name in names if not _hidden(name)]
        return found

    def log_files(self) -> list[StoredFile]:
        names = sorted(name for name in self._log_names() if _NUMBERED.fullmatch(name))
        return [_stored(self.log / name, self.log) for name in names]

    def newest_logged(self) -> int:
        """The greatest version of which the log has a commit or a checkpoint of any kind; -1 if it has none."""
        return max((int(name[:20]) for name in self._log_names() if _LOGGED.match(name)), default=-1)

    def checkpoint_at_or_before(self, version: int | None) -> int | None:
        """The newest complete checkpoint up to a version (None: of all); None if there is none."""
        found = (each for each in self._checkpoints() if version is None or each <= version)
        return max(found, default=None)

    def checkpoint_files(self, version: int) -> list[Path]:
        """The files of a complete checkpoint."""
        return [self.log / name for name in self._checkpoints()[version]]

    def delete(self, files: Iterable[StoredFile]) -> None:
        for file in files:
            Path(file.path).unlink(missing_ok=True)

    def _log_names(self) -> list[str]:
        with translate_errors("read", self.log):
            return [each.name for each in self.log.iterdir()] if self.log.exists() else []

    def _checkpoints(self) -> dict[int, list[str]]:
        """The names of the files of each complete checkpoint; those of several parts need all of them."""
        parts: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for name in sorted(self._log_names()):
            if found := _CHECKPOINT.fullmatch(name):
                parts[int(found[1]), int(found[3] or 1)].append(name)
        return {version: names for (version, count), names in parts.items() if len(names) == count}


def _hidden(name: str) -> bool:
    """Whether readers of tables pass over a file or folder; a folder ``_x=…`` is a partition."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _stored(path: Path, root: Path) -> StoredFile:
    status = path.stat()
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    return StoredFile(str(path), path.relative_to(root).as_posix(), status.st_size, modified)
