"""Which partitions of a table are worth compacting."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve, frozen

from .actions import DataFile, by_partition

_MEBIBYTE = 1024 * 1024
_MOST = 0.8
_PATIENCE = 4.5


@frozen
class CompactionPolicy:
    """Which partitions a compaction rewrites.

    Args:
        min_files: a partition with fewer small files is not compacted, unless it has been emptied.
        min_share: a partition is not compacted if its small files, without the largest one if that is what the last
            compaction wrote, have less than this share of its bytes. All its files are written again, so a low share
            would write each row many times while a partition grows …
        max_files: … unless it has at least this many small files.
        target_bytes: the size of new files, in bytes; files smaller than half of it are small.
        max_bytes: the most bytes that one compaction rewrites; the rest waits for the next compaction.
    """

    min_files: int = 8
    min_share: float = 0.4
    max_files: int = 64
    target_bytes: int = 128 * _MEBIBYTE
    max_bytes: int = 4096 * _MEBIBYTE

    @property
    def patient(self) -> CompactionPolicy:
        """The policy for a table of which compactions keep most rows: 4.5 times as many new bytes to an old one.

        With the usual `min_share` a partition is compacted when it has grown to four times its size.
        """
        new = _PATIENCE * self.min_share
        return evolve(self, min_share=new / (new + 1 - self.min_share))

    def choose(self, files: Iterable[DataFile]) -> list[DataFile]:
        """All files of the partitions worth compacting, most small files first, up to `max_bytes`."""
        paying = filter(self._pays, by_partition(files).values())
        return self._affordable(sorted(paying, key=lambda files: len(self._small(files)), reverse=True))

    def _affordable(self, partitions: list[list[DataFile]]) -> list[DataFile]:
        chosen: list[DataFile] = []
        for files in partitions:
            if not chosen or total_bytes(chosen) + total_bytes(files) <= self.max_bytes:
                chosen.extend(files)
        return chosen

    def _pays(self, files: list[DataFile]) -> bool:
        if _is_emptied(files):
            return True
        small = self._small(files)
        written = max((file.size for file in small), default=0) if len(small) == len(files) else 0
        enough = total_bytes(small) - written >= self.min_share * total_bytes(files)
        return len(small) >= self.max_files or (len(small) >= self.min_files and enough)

    def _small(self, files: list[DataFile]) -> list[DataFile]:
        return [file for file in files if file.size < self.target_bytes / 2]


def _is_emptied(files: Iterable[DataFile]) -> bool:
    """Whether there are as many deletes as each other file has rows: nothing is left of a partition that has expired.

    A file has at most one row of a key, as a rule.
    """
    deletes, largest = 0, 0
    for file in files:
        if file.rows is None:
            return False
        if file.only_deletes:
            deletes += file.rows
        else:
            largest = max(largest, file.rows)
    return 0 < deletes >= largest


def keeps_most(files: Iterable[DataFile], compacted: Iterable[DataFile]) -> bool:
    """Whether a compaction kept most rows as they were.

    It costs much, and saves little if the rows are sums: a read by key adds up what it finds.
    """
    before, after = (sum(file.rows or 0 for file in each) for each in (files, compacted))
    return 0 < _MOST * before <= after


def total_bytes(files: Iterable[DataFile]) -> int:
    """The size of files, in bytes."""
    return sum(file.size for file in files)
