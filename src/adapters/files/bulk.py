"""Files as the chunks of a bulk load, on every engine."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime
from typing import Any

import narwhals as nw
from attrs import define, field

from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.epoch.key_range import KeyRange
from ...domain.ports import BulkRows, BulkSource
from ...domain.source.bulk import BulkSpec
from ...domain.table.schema import Schema
from ..shared.chunks import EVERYWHERE, Chunks, Progress, is_due, of_chunk
from .listing import FilesSettings, Listing
from .pieces import Part, Pieces
from .unread import Unread


@define(eq=False)
class FileBulk(BulkSource):
    """The files of a folder, in the order of their names, a few chunks per epoch; engines add `_rows`.

    Args:
        path: the folder.
        spec: the spec of their rows.
        chunk_rows: the approximate number of rows in a chunk.
        chunks_per_epoch: the largest number of chunks in an epoch.
    """

    path: str
    spec: BulkSpec
    chunk_rows: int = 1_000_000
    chunks_per_epoch: int = 1
    schema: Schema = field(init=False)
    repeatable: bool = field(init=False, default=True)
    _unread: Unread = field(init=False)
    _checked: bool = field(init=False, default=False)
    _pieces: Pieces = field(init=False)
    _chunks: Chunks = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.schema = self.spec.records.rows
        self._unread = Unread(self.path, self.spec.records.format)
        listing = Listing(FilesSettings(self.path), self.spec.records.format, self._unread.pass_over)
        self._pieces = Pieces(listing, self.spec, self.chunk_rows)
        self._chunks = Chunks(self._pieces.cut, self._pieces.attempt, self.chunks_per_epoch, self._pieces.read_through)

    def plan(self, after: Offsets | None, watermark: datetime | None) -> OffsetRange | None:
        """The next chunks; see `BulkSource.plan`.

        Raises:
            ConfigError: nothing has been read, and there is no such folder, or it has only what is not read.
        """
        so_far = self._progress(after)
        if not is_due(self.spec, watermark):
            return None
        if so_far.frontier is None and not self._checked:
            self._check_unread()
            self._checked = True
        return self._chunks.plan(after)

    def _check_unread(self) -> None:
        """Warn of sub-folders. Refuse a folder that would be loaded as an empty table, and is not empty."""
        found = bool(self._pieces.waiting(None))
        if not found:
            self._unread.check_empty()
        self._unread.warn_of_folders(beside_files=found)

    def read(self, offsets: OffsetRange) -> BulkRows:
        """The rows of a range's chunks; see `BulkSource.read`.

        Raises:
            SourceChanged: a file is gone or changed.
            BadInput: a file lacks a declared column, or has it in a type that does not fit.
        """
        chunks = Progress.of(offsets.until).reads
        rows = (
            of_chunk(self._rows(Part.all_of(chunk.piece)), self.spec, chunk.number, at)
            for at, chunk in enumerate(chunks)
        )
        return BulkRows(nw.concat(list(rows)))

    def readable(self, offsets: OffsetRange) -> bool:
        return not self._chunks.has_failed(offsets)

    def set_aside(self, offsets: OffsetRange) -> tuple[str, ...]:
        return self._chunks.set_aside(offsets)

    def remaining(self, after: Offsets | None) -> tuple[KeyRange, ...]:
        so_far = self._progress(after)
        return EVERYWHERE if so_far.left else self._pieces.remaining(so_far.frontier)

    def lag(self, after: Offsets | None) -> str:
        so_far = self._progress(after)
        waiting = len(self._pieces.waiting(so_far.frontier))
        if not waiting and so_far.frontier is None:
            return "no file yet"
        return so_far.lag(f"{waiting} file{'' if waiting == 1 else 's'}" if waiting else "")

    def check_after(self, after: Offsets | None) -> None:
        self._pieces.waiting(self._progress(after).frontier)

    def check_complete(self, until: Offsets | None) -> None:
        self._pieces.check_complete(self._progress(until).frontier)

    @property
    def trouble(self) -> tuple[str, ...]:
        return self._chunks.trouble

    def _progress(self, offsets: Offsets | None) -> Progress:
        """The progress in offsets; the files of failed chunks may go and come back."""
        so_far = Progress.of(offsets)
        self._pieces.awaited = {part.name for chunk in so_far.left for part in Part.all_of(chunk.piece)}
        return so_far

    @abstractmethod
    def _rows(self, parts: list[Part]) -> nw.LazyFrame[Any]:
        """The rows of parts of files, with the columns of `Batch.rows`; positions are below `CHUNK_POSITIONS`."""
