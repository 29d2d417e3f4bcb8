"""One version of a table, on either engine, and what changed between two."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Any, Generic, Self, TypeVar

import narwhals as nw
from attrs import define

from ...domain.table.change import Matching
from ...domain.table.spec import TableSpec
from .actions import DataFile, PartitionValues
from .followed_log import FollowedLog
from .stored import has_log

LogT = TypeVar("LogT", bound="FollowedLog")
FrameT = TypeVar("FrameT")


@define(eq=False)
class DeltaVersion(ABC, Generic[LogT, FrameT]):
    """One version of a table.

    Args:
        spec: the table.
        log: its log.
        version: the version; -1 if the table does not exist yet.
    """

    spec: TableSpec
    log: LogT
    version: int

    @property
    def files(self) -> Collection[DataFile]:
        return self.log.files(self.version).values()

    def files_not_in(self, other: Self) -> list[DataFile]:
        """The data files that another version does not have."""
        elsewhere = self.log.files(other.version)
        return [file for file in self.files if file.path not in elsewhere]

    def content(self, matching: Matching, places: Collection[PartitionValues] | None = None) -> FrameT:
        """The matching rows, in the spec's columns; only from the given partitions, if any."""
        files = [file for file in self.files if places is None or file.place in places]
        return self.content_of(files, matching)

    @abstractmethod
    def content_of(self, files: Iterable[DataFile], matching: Matching | None = None) -> FrameT:
        """The matching rows of files that contain all rows of their keys."""

    @abstractmethod
    def nothing(self) -> FrameT:
        """No rows, in the spec's columns."""

    @abstractmethod
    def keys_in(self, files: Iterable[DataFile]) -> nw.LazyFrame[Any]:
        """The keys of the rows in files, each once."""

    def sides(self, before: Self | None) -> tuple[FrameT, FrameT]:
        """The rows of an earlier version (None: no rows) and of this one, of at least all keys that changed.

        Only files that were added or removed in between are read, and those of their partitions that may have the keys.
        """
        if before is None:
            return self.nothing(), self.content(Matching())
        if not has_log(self.spec):
            return before.content_of(before.files_not_in(self)), self.content_of(self.files_not_in(before))
        wanted, files = Matching(), self.appended_since(before)
        if files is None:
            files = [*before.files_not_in(self), *self.files_not_in(before)]
        elif not files:
            return self.nothing(), self.nothing()
        else:
            wanted = Matching(self.keys_in(files))
        places = {file.place for file in files}
        return before.content(wanted, places), self.content(wanted, places)

    def appended_since(self, before: Self) -> list[DataFile] | None:
        """The files with all rows that a table with a log got after a version.

        None if rows were rewritten, or if such files have expired: they were compacted, and no kept version has them.
        """
        commits = [self.log.commit(number) for number in range(before.version + 1, self.version + 1)]
        if any(commit.rewrites for commit in commits):
            return None
        files = [file for commit in commits if commit.user_metadata is not None for file in commit.added]
        return files if self.log.has(files) else None
