"""The bytes of files, some of which are compressed as a whole: gzip (``.gz``) and Zstandard (``.zst``)."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa

from ...domain.errors import BadInput

COMPRESSED = (".gz", ".zst")
"""The ends of the names of compressed files."""
BYTES_A_BLOCK = 8 * 2**20
"""About this many bytes are read at a time."""


def is_compressed(path: str | Path) -> bool:
    """Whether a file is compressed as a whole, so that it is read from its start only."""
    return str(path).endswith(COMPRESSED)


def open_file(path: str) -> IO[bytes]:
    """A file's bytes, unpacked.

    Raises:
        FileNotFoundError: the file is missing.
        BadGzipFile, EOFError, zlib.error: it is damaged; raised when it is read.
    """
    if path.endswith(".gz"):
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return io.BufferedReader(_Zstandard(path)) if path.endswith(".zst") else Path(path).open("rb")


@contextmanager
def explain_damage(path: str | Path) -> Iterator[None]:
    """Translate errors in reading a file of `open_file`.

    Raises:
        BadInput: it is damaged.
    """
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadInput(f"file {path} is damaged: {error}; replace it") from error


class _Zstandard(io.RawIOBase):
    """The bytes of a file in Zstandard's format, of one frame or of several."""

    def __init__(self, path: str) -> None:
        self._stream = pa.CompressedInputStream(pa.OSFile(path, "rb"), "zstd")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        try:
            return int(self._stream.readinto(buffer))
        except OSError as error:
            if error.errno is not None:  # of the disk
                raise
            raise EOFError(str(error)) from error

    def close(self) -> None:
        self._stream.close()
        super().close()
