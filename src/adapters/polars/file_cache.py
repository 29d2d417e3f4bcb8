"""The rows of recent data files, in memory."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import polars as pl
from attrs import define, field

_MEBIBYTE = 1024 * 1024
READ_WHOLE = 32 * _MEBIBYTE
"""Files up to this size are read whole, and cached; of larger ones only what is needed is read."""
IN_MEMORY = 4
"""About this many bytes of memory are needed for each byte of a data file, which is compressed."""


_A_COLUMN = 1024
"""About this many bytes are taken by each column of a frame, and by the frame, besides its values."""
_WASTE = 2
"""A frame that keeps more than this many times the bytes of its rows in memory is copied."""
_NEW_SHARE = 8
"""New files take up to an eighth of the cache."""
_MOST_DROPPED = 10_000
"""The number of dropped files whose paths are remembered."""


@define(eq=False)
class _Frames:
    """Frames by path, up to a number of bytes; the one that was put first is dropped first."""

    limit: int
    size: int = 0
    frames: OrderedDict[str, tuple[int, pl.DataFrame]] = field(factory=OrderedDict)

    def put(self, path: str, size: int, rows: pl.DataFrame) -> list[str]:
        """Returns the paths of the frames that are dropped for it."""
        self.take(path)
        self.frames[path] = (size, rows)
        self.size += size
        dropped = []
        while self.size > self.limit:
            dropped.append(next(iter(self.frames)))
            self.take(dropped[-1])
        return dropped

    def take(self, path: str) -> tuple[int, pl.DataFrame] | None:
        found = self.frames.pop(path, None)
        self.size -= found[0] if found else 0
        return found


@define(eq=False)
class FileCache:
    """The rows of data files by path, up to a number of bytes.

    Most files are read soon after they were written, or never. So a new file makes room for the next ones, and is kept
    for longer once it was read again after that; of such files, the least recently used one is dropped first (the
    policy is known as 2Q). Several threads may use it: a file never changes.
    """

    limit: int = 256 * _MEBIBYTE
    _new: _Frames = field(init=False)
    _used: _Frames = field(init=False)
    _dropped: OrderedDict[str, None] = field(init=False, factory=OrderedDict)
    _lock: Lock = field(init=False, factory=Lock)

    def __attrs_post_init__(self) -> None:
        self._new = _Frames(self.limit // _NEW_SHARE)
        self._used = _Frames(self.limit - self._new.limit)

    def get(self, path: str) -> pl.DataFrame | None:
        """The rows of a file; None if they are not cached."""
        with self._lock:
            if path in self._new.frames:
                return self._new.frames[path][1]
            if (found := self._used.take(path)) is None:
                return None
            self._used.put(path, *found)
            return found[1]

    def put(self, path: str, rows: pl.DataFrame) -> None:
        """Cache the rows of a file, unless they would take the place of all new files."""
        rows, held = _compact(rows)
        size = held + _A_COLUMN * (rows.width + 1)
        if size > self._new.limit:
            return
        with self._lock:
            if path in self._used.frames or path in self._dropped:
                self._used.put(path, size, rows)
                return
            self._dropped.update(dict.fromkeys(self._new.put(path, size, rows)))
            while len(self._dropped) > _MOST_DROPPED:
                self._dropped.popitem(last=False)


def _compact(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The same rows, and about how many bytes they keep in memory.

    A frame that was filtered or sliced keeps what it was made from, above all the texts of all rows.
    """
    if (held := _held(rows)) <= _WASTE * (int(rows.estimated_size()) + _A_COLUMN * rows.width):
        return rows, held
    copied = pl.DataFrame(rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
    return copied, _held(copied)


def _held(rows: pl.DataFrame) -> int:
    """The size of all memory that a frame refers to, in bytes."""
    return int(rows.to_arrow(compat_level=pl.CompatLevel.newest()).get_total_buffer_size())
