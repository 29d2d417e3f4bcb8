"""Where the files of tables are: in folders of this machine, or in a bucket of an object store."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar, Protocol

from ..stored_file import StoredFile

if TYPE_CHECKING:
    import polars as pl

    from ....domain.ports import SmallFiles

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""Of the addresses of object stores: Amazon's and those that speak its protocol, Google's, and Azure's."""
_BUCKET = re.compile(f"({'|'.join(SCHEMES)})://", re.IGNORECASE)


class Files(Protocol):
    """Files by their paths. Its methods raise `StoreUnavailable` if they cannot be reached."""

    page: ClassVar[int | None]
    """How many names a request for the names in a folder returns; None: all of them."""

    @abstractmethod
    def read_text(self, path: str) -> str | None:
        """The text of a file, to be checked with `check_utf8`; None if there is none."""

    @abstractmethod
    def create(self, path: str, text: str) -> bool:
        """Create a file that others see as a whole; False, and nothing is changed, if there is one already.

        No other writer has the same text: a file that has it was written by an earlier try of this one.
        """

    @abstractmethod
    def has(self, path: str) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def list_files(self, folder: str, *, deep: bool) -> list[StoredFile]:
        """The files in a folder, which need not exist; `deep`: and in its subfolders, without hidden ones."""

    @abstractmethod
    def list_names(self, folder: str, *, after: str = "") -> Iterator[str]:
        """The names of the files in a folder, and perhaps of its subfolders, that sort after a name.

        Cheaper than `list_files`, as neither sizes nor times are looked up. The folder need not exist. If the names
        come in pages, they are sorted, and each page is asked for when it is needed.
        """

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""

    @abstractmethod
    def small_files(self, folder: str) -> SmallFiles:
        """The small files of a folder."""


class ParquetFiles(Protocol):
    """Parquet files by their paths. A file never changes."""

    at_once: ClassVar[int]
    """How many files are read or written at a time. Requests to an object store take long, and no processor."""

    @abstractmethod
    def writing(self, path: str) -> AbstractContextManager[Path]:
        """Where to write a new file. It is at `path`, and on the disk, when this ends without an error.

        Raises:
            StoreUnavailable: it cannot be written.
        """

    @abstractmethod
    def open(self, path: str) -> Path | IO[bytes]:
        """A file that is read whole.

        Raises:
            FileNotFoundError: there is none; the same for the other methods.
            StoreUnavailable: it cannot be reached; the same for the other methods.
        """

    @abstractmethod
    def open_end(self, path: str) -> Path | IO[bytes]:
        """A file, or its end, from which its footer is read."""

    @abstractmethod
    def scan(self, path: str) -> pl.LazyFrame:
        """The rows of a file, of which only what a query needs is read."""


class Storage(Files, ParquetFiles, Protocol):
    """A place for tables."""


def is_in_bucket(path: str) -> bool:
    """Whether a path is an address in an object store that the local engine can use.

    >>> [is_in_bucket(path) for path in ("s3://lake/tables", "GS://lake", "/lake", "hdfs://host/lake")]
    [True, True, False, False]
    """
    return _BUCKET.match(path) is not None


def bucket_address(path: str) -> str:
    """An address as all libraries know it: ``s3a`` is Hadoop's name for ``s3``.

    >>> [bucket_address(path) for path in ("s3a://lake/tables/", "ABFSS://lake@bank.dfs.core.windows.net/")]
    ['s3://lake/tables', 'abfss://lake@bank.dfs.core.windows.net']
    """
    return _BUCKET.sub(lambda found: found[0].lower().replace("s3a", "s3"), path.rstrip("/"), count=1)
