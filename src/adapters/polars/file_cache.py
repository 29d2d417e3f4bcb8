"""The rows of recent data files, in memory."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    import polars as pl

_MEBIBYTE = 1024 * 1024
READ_WHOLE = 32 * _MEBIBYTE
"""Files up to this size are read whole, and cached; of larger ones only what is needed is read."""
IN_MEMORY = 4
"""About this many bytes of memory are needed for each byte of a data file, which is compressed."""


@define(eq=False)
class FileCache:
    """The rows of data files by path, up to a number of bytes; the least recently used file is dropped first.

    Several threads may use it: a file never changes.
    """

    limit: int = 256 * _MEBIBYTE
    _size: int = field(init=False, default=0)
    _frames: OrderedDict[str, tuple[int, pl.DataFrame]] = field(init=False, factory=OrderedDict)
    _lock: Lock = field(init=False, factory=Lock)

    def get(self, path: str) -> pl.DataFrame | None:
        """The rows of a file; None if they are not cached."""
        with self._lock:
            if path not in self._frames:
                return None
            self._frames.move_to_end(path)
            return self._frames[path][1]

    def put(self, path: str, rows: pl.DataFrame) -> None:
        """Cache the rows of a file, unless they would fill a quarter of the cache."""
        size = int(rows.estimated_size())
        if size > self.limit // 4:
            return
        with self._lock:
            if path in self._frames:
                return
            self._frames[path] = (size, rows)
            self._size += size
            while self._size > self.limit:
                _, (freed, _) = self._frames.popitem(last=False)
                self._size -= freed
