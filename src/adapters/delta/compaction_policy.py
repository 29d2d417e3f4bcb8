"""Which files of a table are worth compacting."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise

from attrs import evolve, frozen

from ...domain.table.spec import TableSpec
from .actions import DataFile, by_partition, total_bytes
from .stored import APPENDED, OPERATION, has_log

_MEBIBYTE = 1024 * 1024
_MOST = 0.8
_PATIENCE = 4.5


@frozen(eq=False)
class Rewrite:
    """Files of one partition that a compaction replaces.

    Args:
        files: these files.
        whole: whether they are all files of the partition; else others may have rows of the same keys.
        deletes: whether any file of the partition may delete rows.
    """

    files: Sequence[DataFile]
    whole: bool
    deletes: bool

    @classmethod
    def of(cls, files: Sequence[DataFile], partition: Collection[DataFile]) -> Rewrite:
        """A rewrite of some files of a partition."""
        return cls(files, len(files) == len(partition), any(file.may_delete for file in partition))


@frozen
class CompactionPolicy:
    """Which files a compaction rewrites.

    Args:
        min_files: a partition with fewer small files is not compacted, unless it has been emptied.
        min_share: a partition is compacted as a whole if at least this share of its bytes, or of its rows, is new: in
            small files, or in files of changes. The largest file does not count if all are new: the last compaction may
            have written it. A low share would write each row many times while a partition grows.
        max_files: of a partition with less that is new, but with at least this many small files, the smallest ones are
            brought together; the number of files that a read has to look at stays small.
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

    def choose(self, files: Iterable[DataFile]) -> list[Rewrite]:
        """What is worth rewriting of each partition, most small files first, up to `max_bytes`."""
        paying = [found for each in by_partition(files).values() if (found := self._choose_of(each))]
        return self._affordable(sorted(paying, key=lambda found: len(self._small(found.files)), reverse=True))

    def _affordable(self, rewrites: list[Rewrite]) -> list[Rewrite]:
        chosen: list[Rewrite] = []
        total = 0
        for each in rewrites:
            size = total_bytes(each.files)
            if not chosen or total + size <= self.max_bytes:
                chosen.append(each)
                total += size
        return chosen

    def _choose_of(self, partition: list[DataFile]) -> Rewrite | None:
        """What is worth rewriting of one partition."""
        small = self._small(partition)
        if _is_emptied(partition) or (len(small) >= self.min_files and self._is_mostly_new(partition)):
            return Rewrite.of(partition, partition)
        return Rewrite.of(self._smallest(small), partition) if len(small) >= self.max_files else None

    def _is_mostly_new(self, partition: list[DataFile]) -> bool:
        new = [file for file in partition if self._is_small(file) or file.highest.get(OPERATION, APPENDED) > APPENDED]
        # Rows of a key that repeat take few bytes, and a read has to fold them all the same.
        return self._is_most(new, partition, lambda file: file.size) or self._is_most(
            new, partition, lambda file: file.rows or 0
        )

    def _is_most(self, new: list[DataFile], partition: list[DataFile], weight: Callable[[DataFile], int]) -> bool:
        written = max(map(weight, new)) if len(new) == len(partition) else 0
        total = sum(map(weight, partition))
        return total > 0 and sum(map(weight, new)) - written >= self.min_share * total

    def _smallest(self, small: list[DataFile]) -> list[DataFile]:
        """The files up to the largest size of which there are enough; about twice as large is another size.

        So the results are brought together in their turn by eights, and each row is written again only some times.
        """
        in_order = sorted(small, key=lambda file: file.size)
        ends = [at for at in range(1, len(small)) if in_order[at].size > 2 * in_order[at - 1].size]
        enough = [end for begin, end in pairwise([0, *ends, len(small)]) if end - begin >= self.min_files]
        return in_order[: enough[-1]] if enough else in_order

    def _small(self, files: Iterable[DataFile]) -> list[DataFile]:
        return list(filter(self._is_small, files))

    def _is_small(self, file: DataFile) -> bool:
        return file.size < self.target_bytes / 2


def with_operations(files: Iterable[DataFile], spec: TableSpec) -> Iterable[DataFile]:
    """The files of a table, without bounds of a user's column `_op` if the table has no log."""
    return files if has_log(spec) else map(_without_operations, files)


def _without_operations(file: DataFile) -> DataFile:
    lowest, highest = ({name: each[name] for name in each if name != OPERATION} for each in (file.lowest, file.highest))
    return evolve(file, lowest=lowest, highest=highest)


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


def files_of(rewrites: Iterable[Rewrite]) -> list[DataFile]:
    """All files of rewrites."""
    return [file for each in rewrites for file in each.files]
