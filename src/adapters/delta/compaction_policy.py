"""Which partitions of a table are worth compacting."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from .actions import DataFile, by_partition

_MEBIBYTE = 1024 * 1024
_MOST = 0.8
_PATIENCE = 4.5
"""With the usual `min_share` a partition is compacted when it has grown to four times its size."""


@frozen
class CompactionPolicy:
    """Which partitions a compaction rewrites.

    Args:
        min_files: a partition with fewer small files is not compacted.
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

    def choose(self, files: Iterable[DataFile], patience: float = 1.0) -> list[DataFile]:
        """All files of the partitions worth compacting, most small files first, up to `max_bytes`.

        Args:
            files: the files of a table.
            patience: how many times as much as `min_share` asks for must have come to a partition.
        """
        partitions = (each for each in by_partition(files).values() if self._pays(each, patience))
        return self._affordable(sorted(partitions, key=self._small_files, reverse=True))

    def _affordable(self, partitions: list[list[DataFile]]) -> list[DataFile]:
        chosen: list[DataFile] = []
        for files in partitions:
            if not chosen or total_bytes(chosen) + total_bytes(files) <= self.max_bytes:
                chosen.extend(files)
        return chosen

    def _pays(self, files: list[DataFile], patience: float) -> bool:
        small = self._small(files)
        written = max((file.size for file in small), default=0) if len(small) == len(files) else 0
        new = total_bytes(small) - written
        enough = new * (1 - self.min_share) >= patience * self.min_share * (total_bytes(files) - new)
        return len(small) >= self.max_files or (len(small) >= self.min_files and enough)

    def _small_files(self, files: list[DataFile]) -> int:
        return len(self._small(files))

    def _small(self, files: list[DataFile]) -> list[DataFile]:
        return [file for file in files if file.size < self.target_bytes / 2]


def patience_of(files: Iterable[DataFile], compacted: Iterable[DataFile]) -> float:
    """The patience for the next compaction of a table of sums; see `CompactionPolicy.choose`.

    A compaction that keeps most rows as they are costs much and saves little: a read by key adds up what it finds.
    """
    before, after = (sum(file.rows or 0 for file in each) for each in (files, compacted))
    return _PATIENCE if before and after >= _MOST * before else 1.0


def total_bytes(files: Iterable[DataFile]) -> int:
    """The size of files, in bytes."""
    return sum(file.size for file in files)
