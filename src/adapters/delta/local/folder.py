"""The files in a table's folder, listed without the log."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from itertools import islice
from operator import itemgetter
from urllib.parse import unquote

from attrs import frozen

from ..actions import DataFile
from ..stored_file import StoredFile
from .storage import Storage

_NUMBERED = re.compile(r"\d{20}\..+")
_LOGGED = re.compile(r"\d{20}\.(json$|checkpoint\.)")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")


@frozen
class LogListing:
    """What one listing of a log's folder found.

    Args:
        log: the folder of the log.
        names: the names in it.
    """

    log: str
    names: Collection[str]

    @property
    def newest(self) -> int:
        """The greatest version that has a commit or a checkpoint of any kind; -1 if none has."""
        return int(max(filter(_LOGGED.match, self.names), default="-1")[:20])

    def checkpoint_at_or_before(self, version: int) -> int | None:
        """The newest complete checkpoint up to a version; None if there is none."""
        return max((each for each in self.checkpoints if each <= version), default=None)

    @property
    def newest_checkpoint(self) -> int | None:
        """The newest complete checkpoint; None if there is none."""
        return max(self.checkpoints, default=None)

    @cached_property
    def checkpoints(self) -> Mapping[int, list[str]]:
        """The paths of the files of each complete checkpoint; those of several parts need all of them."""
        parts: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        for found in sorted(filter(None, map(_CHECKPOINT.fullmatch, self.names)), key=itemgetter(0)):
            parts[int(found[1]), int(found[3] or 1)].append(f"{self.log}/{found[0]}")
        return {version: paths for (version, count), paths in parts.items() if len(paths) == count}


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

    def list_log(self) -> LogListing:
        """All files of the log."""
        return LogListing(self.log, list(self.storage.list_names(self.log)))

    def list_newest(self) -> LogListing:
        """The files of the log from a complete checkpoint on, the newest or a recent one; or all files.

        If there is more than a page of them, the file ``_last_checkpoint`` says where to begin. It may be missing, out
        of date or damaged; then all pages are listed.
        """
        names = self.storage.list_names(self.log)
        first = list(islice(names, self.storage.page))
        if len(first) == self.storage.page and (checkpoint := self._last_checkpoint()) is not None:
            listed = LogListing(self.log, list(self.storage.list_names(self.log, after=f"{checkpoint:020}")))
            if checkpoint in listed.checkpoints:
                return listed
        return LogListing(self.log, [*first, *names])

    def checkpoint_at_or_before(self, version: int) -> int | None:
        """The newest complete checkpoint up to a version; None if there is none."""
        return self.list_log().checkpoint_at_or_before(version)

    def delete(self, files: Iterable[StoredFile]) -> None:
        for file in files:
            self.storage.delete(file.path)

    def _last_checkpoint(self) -> int | None:
        """The version that ``_last_checkpoint`` names; None if it names none."""
        try:
            version = json.loads(self.storage.read_text(f"{self.log}/_last_checkpoint") or "{}")["version"]
        except (ValueError, TypeError, KeyError):
            return None
        return version if type(version) is int and version >= 0 else None
