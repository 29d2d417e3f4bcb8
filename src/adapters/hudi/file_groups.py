"""The data files in a table's folder: file groups, and the file slices of each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from attrs import frozen

from ..spark.jvm import each_of, java_class
from .path import Folder
from .timeline import Timeline


@frozen
class DataFile:
    """A base file or a log file.

    Args:
        path: its path, as Hadoop writes it.
        instant: the commit that wrote it.
        size: in bytes.
    """

    path: str
    instant: str
    size: int


@frozen
class Slice:
    """A file slice: the files of a file group from an instant on, until the next slice begins.

    Args:
        begun: that instant.
        completed: when its commit completed. A compaction is planned long before that. Versions made in between were
            read from the slice before, and readers that opened one then still read it.
        files: a base file, if any, and the log files on top of it.
    """

    begun: str
    completed: str
    files: tuple[DataFile, ...]


@frozen
class FileGroup:
    """The successive files of the same keys.

    Args:
        slices: oldest first.
        replaced: the instant from which on the group is no longer read; None if its newest slice is still read.
    """

    slices: tuple[Slice, ...]
    replaced: str | None

    def read_from(self, version: str) -> Iterator[DataFile]:
        """The files from which a version is read now."""
        if self.replaced is None or version < self.replaced:
            begun = [each for each in self.slices if each.begun <= version]
            yield from (file for each in begun[-1:] for file in each.files if file.instant <= version)

    def unneeded(self, kept: Sequence[str]) -> Iterator[DataFile]:
        """The files that no version in `kept`, which is sorted, reads."""
        for each, later in zip_longest(self.slices, self.slices[1:]):
            last = _newest(kept, each.begun, *self._end(later))
            yield from (file for file in each.files if file.instant > last)

    def _end(self, later: Slice | None) -> tuple[str | None, str | None]:
        """The first instant at which nobody reads the slice before, and an earlier version that never read it."""
        return (self.replaced, None) if later is None else (later.completed, later.begun)


def file_groups(folder: Folder, timeline: Timeline, completed: Mapping[str, str]) -> list[FileGroup]:
    """All file groups, with the files of completed commits only.

    `completed` has the instants of the timeline, oldest first, and their completion times. Files of older instants
    belong to archived commits, which were completed.
    """
    context = java_class(folder.session, "org.apache.hudi.client.common.HoodieSparkEngineContext")
    view = java_class(folder.session, "org.apache.hudi.common.table.view.HoodieTableFileSystemView")
    visible = timeline.client.getActiveTimeline().filterCompletedAndCompactionInstants()
    listed = view.fileListingBasedFileSystemView(context(folder.session.sparkContext._jsc), timeline.client, visible)
    try:
        listed.loadAllPartitions()
        replaced = timeline.replaced()
        return [_group(each, completed, replaced) for each in each_of(listed.fetchAllStoredFileGroups())]
    finally:
        listed.close()


def _group(java: Any, completed: Mapping[str, str], replaced: Mapping[tuple[str, str], str]) -> FileGroup:
    slices = (_slice(each, completed) for each in each_of(java.getAllRawFileSlices()))
    identity = str(java.getPartitionPath()), str(java.getFileGroupId().getFileId())
    return FileGroup(_joined(slices, completed), replaced.get(identity))


def _joined(slices: Iterable[Slice], completed: Mapping[str, str]) -> tuple[Slice, ...]:
    """Slices, oldest first; a slice whose base file is not written yet is part of the slice before."""
    joined: list[Slice] = []
    for each in sorted(slices, key=lambda each: each.begun):
        if joined and not _complete(each.begun, completed):
            before = joined.pop()
            joined.append(Slice(before.begun, before.completed, before.files + each.files))
        else:
            joined.append(each)
    return tuple(joined)


def _slice(java: Any, completed: Mapping[str, str]) -> Slice:
    base = java.getBaseFile()
    files = [_file(base.get(), base.get().getCommitTime())] if base.isPresent() else []
    files += [_file(log, log.getDeltaCommitTime()) for log in each_of(java.getLogFiles())]
    # Other files belong to a writer that is still running or has died.
    known, begun = tuple(file for file in files if _complete(file.instant, completed)), str(java.getBaseInstantTime())
    return Slice(begun, completed.get(begun, begun), known)


def _complete(instant: str, completed: Mapping[str, str]) -> bool:
    return instant in completed or instant < next(iter(completed))


def _file(java: Any, instant: Any) -> DataFile:
    return DataFile(str(java.getPathInfo().getPath().toString()), str(instant), int(java.getFileSize()))


def _newest(versions: Sequence[str], after: str, before: str | None, other_than: str | None) -> str:
    """The last sorted version from `after` to before `before`, except `other_than`; empty if there is none."""
    place = len(versions) if before is None else bisect_left(versions, before)
    found = (version for version in reversed(versions[max(0, place - 2) : place]) if version != other_than)
    newest = next(found, "")
    return newest if newest >= after else ""
