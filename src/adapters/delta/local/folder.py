"""The files in a table's folder, listed without the log."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from urllib.parse import unquote

from attrs import frozen

from ..actions import DataFile
from ..stored_file import StoredFile
from .storage import Storage

_NUMBERED = re.compile(r"\d{20}\..+")
_LOGGED = re.compile(r"\d{20}\.(json$|checkpoint\.)")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")


@frozen
class LocalFolder:
    """The folder of one table, which need not exist. Its methods raise `StoreUnavailable` if it cannot be reached."""

    path: str
    storage: Storage

    @property
    def log(self) -> str:
        return f"{self.path}/_delta_log"

    def path_of(self, file: DataFile) -> str:
        """The path of a data file; the log has it percent-encoded, relative to the folder."""
        return f"{self.path}/{unquote(file.path)}"

    def has(self, file: DataFile) -> bool:
        """Whether a data file is there."""
        return self.storage.has(self.path_of(file))

    def commit_file(self, version: int) -> str:
        return f"{self.log}/{version:020}.json"

    def create_commit(self, version: int, text: str) -> bool:
        """Write a commit; False if there is one of this version."""
        return self.storage.create(self.commit_file(version), text)

    def has_commit(self, version: int) -> bool:
        return self.storage.has(self.commit_file(version))

    def commit_text(self, version: int) -> str | None:
        """The text of a commit; None if the log does not have it."""
        return self.storage.read_text(self.commit_file(version))

    def data_files(self) -> list[StoredFile]:
        return self.storage.list_files(self.path, deep=True)

    def log_files(self) -> list[StoredFile]:
        found = self.storage.list_files(self.log, deep=False)
        return sorted((file for file in found if _NUMBERED.fullmatch(file.name)), key=lambda file: file.name)

    def newest_logged(self) -> int:
        """The greatest version of which the log has a commit or a checkpoint of any kind; -1 if it has none."""
        return max((int(name[:20]) for name in self._log_names() if _LOGGED.match(name)), default=-1)

    def checkpoint_at_or_before(self, version: int | None) -> int | None:
        """The newest complete checkpoint up to a version (None: of all); None if there is none."""
        found = (each for each in self._checkpoints() if version is None or each <= version)
        return max(found, default=None)

    def checkpoint_files(self, version: int) -> list[str]:
        """The paths of the files of a complete checkpoint."""
        return [f"{self.log}/{name}" for name in self._checkpoints()[version]]

    def delete(self, files: Iterable[StoredFile]) -> None:
        for file in files:
            self.storage.delete(file.path)

    def _log_names(self) -> list[str]:
        return [file.name for file in self.storage.list_files(self.log, deep=False)]

    def _checkpoints(self) -> dict[int, list[str]]:
        """The names of the files of each complete checkpoint; those of several parts need all of them."""
        parts: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for name in sorted(self._log_names()):
            if found := _CHECKPOINT.fullmatch(name):
                parts[int(found[1]), int(found[3] or 1)].append(name)
        return {version: names for (version, count), names in parts.items() if len(names) == count}
