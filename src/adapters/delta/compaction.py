"""When folding a partition's files pays, and how it is written."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from attrs import frozen
from pyspark.sql import functions as F

from ...domain.change import Matching
from ..spark.schema import named, typed
from .rows import APPENDED, OPERATION, logged, stored_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from ...domain.table import TableSpec
    from .actions import DataFile
    from .reading import Reading

_MEBIBYTE = 1024 * 1024


@frozen
class CompactionPolicy:
    """Which partitions a compaction takes up.

    Args:
        min_files: a partition with fewer small files is left alone.
        min_share: so is one whose small files hold a smaller share of its bytes than this, since all of it is written
            again …
        max_files: … unless it has this many small files.
        target_bytes: how large files are made; files of half that are not small.
        max_bytes: of one compaction; what is left over waits for the next.
    """

    min_files: int = 8
    min_share: float = 0.1
    max_files: int = 64
    target_bytes: int = 128 * _MEBIBYTE
    max_bytes: int = 4096 * _MEBIBYTE

    def choose(self, files: Iterable[DataFile]) -> list[DataFile]:
        """All files of the partitions that pay, those with the most small files first, up to `max_bytes`."""
        partitions = defaultdict(list)
        for file in files:
            partitions[file.place].append(file)
        paying = sorted(filter(self._pays, partitions.values()), key=self._small_files, reverse=True)
        return self._affordable(paying)

    def _affordable(self, partitions: list[list[DataFile]]) -> list[DataFile]:
        chosen: list[DataFile] = []
        for files in partitions:
            if not chosen or _bytes(chosen) + _bytes(files) <= self.max_bytes:
                chosen.extend(files)
        return chosen

    def _pays(self, files: list[DataFile]) -> bool:
        small = self._small(files)
        enough = len(small) >= self.min_files and _bytes(small) >= self.min_share * _bytes(files)
        return enough or len(small) >= self.max_files

    def _small_files(self, files: list[DataFile]) -> int:
        return len(self._small(files))

    def _small(self, files: list[DataFile]) -> list[DataFile]:
        return [file for file in files if file.size < self.target_bytes / 2]


def compacted(reading: Reading, files: list[DataFile], policy: CompactionPolicy) -> DataFrame:
    """The content of whole partitions, sorted by key into few files. Rows keep their newest `_sequence`."""
    rows = reading.folded(files, Matching())
    if logged(reading.spec):
        rows = rows.withColumn(OPERATION, F.lit(APPENDED))
    rows = typed(rows, stored_schema(reading.spec))
    return in_parts(rows, reading.spec, -(-_bytes(files) // policy.target_bytes))


def in_parts(rows: DataFrame, spec: TableSpec, parts: int) -> DataFrame:
    """Rows in so many parts, at least one, each of which makes a file a partition; sorted by a key."""
    order = [named(name) for name in (*spec.partition_by, *spec.key)]
    if not order:
        return rows.coalesce(max(1, parts))
    return rows.repartitionByRange(max(1, parts), *order).sortWithinPartitions(*order)


def _bytes(files: Iterable[DataFile]) -> int:
    return sum(file.size for file in files)
