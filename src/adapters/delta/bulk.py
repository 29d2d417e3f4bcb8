"""A bulk load of a Delta table: the data files of one version, a few at a time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field
from py4j.protocol import Py4JError

from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.epoch.key_range import KeyRange, merge_ranges
from ...domain.errors import BadInput, ConfigError, NotSupported, SourceChanged, VersionExpired
from ...domain.ports import BulkRows, BulkSource
from ...domain.source.bulk import BulkSpec
from ...domain.table.schema import INTEGERS, Schema
from ..shared.chunks import EVERYWHERE, Chunks, Frontier, Piece, Progress, is_due, of_chunk
from ..spark.errors import Fault
from ..spark.schema import lazy
from ..spark.table_rows import TableRows
from .actions import DataFile
from .log import TableLog
from .spec import integers, names_in_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_END = "end"
"""In a frontier, in place of the number of files that are done: all of them are."""


def _is_at_end(frontier: Frontier) -> bool:
    return frontier is not None and frontier[1] == _END


class _BulkLog(TableLog):
    """The log of a table that a bulk load reads."""

    def expired_message(self, version: int) -> str:
        return (
            f"version {version} of {self.path}, which its load reads, has been cleaned away; load the table under"
            " another pipeline name, and keep its files and its log until the load has ended"
        )


@define(eq=False)
class DeltaBulk(BulkSource):
    """Loads the version that a Delta table has when the load begins; later versions are ignored.

    Args:
        session: the session that reads.
        path: the table's path.
        spec: the rows to read.
        chunk_rows: the approximate number of rows in a chunk; a data file is never split.
        chunks_per_epoch: the largest number of chunks in an epoch.
    """

    session: SparkSession
    path: str
    spec: BulkSpec
    chunk_rows: int = 1_000_000
    chunks_per_epoch: int = 1
    schema: Schema = field(init=False)
    repeatable: bool = field(init=False, default=True)
    _log: TableLog = field(init=False)
    _rows: TableRows = field(init=False)
    _chunks: Chunks = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.schema = self.spec.records.rows
        self._log = _BulkLog(self.session, self.path)
        self._rows = TableRows(self.path, self.spec.records)
        self._chunks = Chunks(self._cut, self._attempt, self.chunks_per_epoch)

    def plan(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:
        """The next chunks; see `BulkSource.plan`.

        Raises:
            ConfigError: there is no such table.
            NotSupported: the session was started without Delta's jars.
            BadInput: the table lacks a declared column.
            SourceChanged: it was dropped and made again since the load began.
            VersionExpired: the log of the version has been cleaned away since the load began.
        """
        if not is_due(self.spec, watermark):
            return None
        so_far = Progress.of(after)
        if so_far.left or not _is_at_end(so_far.frontier):
            self._check_same(so_far.frontier)
        return self._chunks.plan(after)

    def read(self, offsets: OffsetRange) -> BulkRows:
        """The rows of a range's chunks; see `BulkSource.read`.

        Raises:
            VersionExpired: the version has been cleaned away since the load began.
            SourceChanged: as of `plan`.
        """
        until = Progress.of(offsets.until)
        self._check_same(until.frontier)
        rows = (of_chunk(self._of(each.piece), self.spec, each.number, at) for at, each in enumerate(until.reads))
        return BulkRows(nw.concat(list(rows)))

    def remaining(self, after: Offsets | None) -> tuple[KeyRange, ...]:
        so_far = Progress.of(after)
        version, files = self._waiting(so_far.frontier)
        for chunk in so_far.left:
            of, start, end = chunk.piece
            files += self._files(of)[start:end]
        if not files:
            return ()
        key = self._bounded_key(version)
        if key is None or any(key not in file.lowest or key not in file.highest for file in files):
            return EVERYWHERE
        return merge_ranges([KeyRange(file.lowest[key], file.highest[key]) for file in files])

    def _bounded_key(self, version: int) -> str | None:
        """The name of the first key column in the statistics of the files; None unless its bounds are whole numbers.

        Bounds of texts, and of numbers that may be rounded, do not enclose the numbers that the values are read as.
        """
        key, columns = self.spec.key[0], self._log.columns(version)
        if self.spec.records.columns[key].name not in INTEGERS:
            return None
        try:
            own = self._rows.names(names_in_files(columns))[key]
        except BadInput:  # a column is missing, which is refused where rows are read
            return None
        return names_in_files(columns)[own] if own in integers(columns) else None

    def lag(self, after: Offsets | None) -> str:
        so_far = Progress.of(after)
        waiting = len(self._waiting(so_far.frontier)[1])
        return so_far.lag(f"{waiting} file{'' if waiting == 1 else 's'}" if waiting else "")

    @property
    def trouble(self) -> tuple[str, ...]:
        return self._chunks.trouble

    def _newest(self) -> int:
        """The version that a load starting now would read.

        Raises:
            ConfigError: there is no such table.
            NotSupported: the session was started without Delta's jars.
        """
        try:
            there = self._log.exists
        except Py4JError as error:
            if "DeltaLog" not in Fault.behind(error).reason:
                raise
            raise NotSupported(
                "reading delta tables", "this Spark session", "start it with the jars of delta"
            ) from error
        if not there:
            raise ConfigError(f"{self.path} is not a Delta table; create it, or correct the path")
        return self._log.newest()

    def _files(self, version: int) -> list[DataFile]:
        """The data files of a version, always in the same order."""
        return sorted(self._log.files(version).values(), key=lambda file: file.path)

    def _cut(self, frontier: Frontier) -> tuple[Piece, Frontier] | None:
        """The next chunk: whole files until they have `chunk_rows` rows; see `chunks.Cut`."""
        if _is_at_end(frontier):
            return None
        version, at, *of = frontier or (self._newest(), 0)
        files, table = self._files(version), of or [self._log.table_id(version)]
        if at == len(files):
            return None
        end, rows = at + 1, files[at].rows or self.chunk_rows
        while end < len(files) and rows + (files[end].rows or self.chunk_rows) <= self.chunk_rows:
            rows += files[end].rows or self.chunk_rows
            end += 1
        return [version, at, end], [version, _END if end == len(files) else end, *table]

    def _waiting(self, frontier: Frontier) -> tuple[int, list[DataFile]]:
        """The version that the load reads, and its data files from a frontier on."""
        version, at, *_ = frontier or (self._newest(), 0)
        return version, [] if at == _END else self._files(version)[at:]

    def _check_same(self, frontier: Frontier) -> None:
        """Check that the table is the one whose load has come to a frontier; early loads did not note its id."""
        version, _, *of = frontier or (0, 0)
        if of and self._log.newest() < version:
            raise SourceChanged(
                f"{self.path} lacks version {version}, which its load reads; put it back from a backup,"
                " or load the table under another pipeline name"
            )
        if of and self._log.table_id(version) != of[0]:
            raise SourceChanged(
                f"{self.path} is not the table any more whose load has begun: it was dropped, and made again; load the"
                " new one under another pipeline name"
            )

    def _attempt(self, piece: Piece) -> tuple[Piece, str | None]:
        """Check that the files of a chunk still exist; see `chunks.Try`."""
        version, start, end = piece
        self._log.newest()
        try:
            self._log.check_present(version, self._files(version)[start:end])
        except VersionExpired as error:
            return piece, str(error)
        return piece, None

    def _of(self, piece: Piece) -> nw.LazyFrame[Any]:
        version, start, end = piece
        rows = self._log.frame(version, self._files(version)[start:end])
        return lazy(self._rows.typed(rows))
