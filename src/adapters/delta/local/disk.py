"""Tables in folders of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from attrs import frozen

from ....domain.ports import SmallFiles
from ...polars.file_errors import explain_write_errors
from ...shared.local_files import LocalFiles, create, flush, translate_errors
from ...shared.table_folders import is_hidden
from ...shared.utf8 import KEEP_BYTES
from ..stored_file import StoredFile
from .storage import Storage


@frozen
class Disk(Storage):
    """The file system of this machine."""

    page, at_once = None, 1

    def read_text(self, path: str) -> str | None:
        with translate_errors("read", Path(path).parent):
            try:
                return Path(path).read_text(encoding="utf-8", errors=KEEP_BYTES)
            except FileNotFoundError:
                return None

    def create(self, path: str, text: str) -> bool:
        return create(Path(path), text)

    def has(self, path: str) -> bool:
        with translate_errors("read", Path(path).parent):
            return Path(path).exists()

    def list_files(self, folder: str, *, deep: bool) -> list[StoredFile]:
        root = str(Path(folder))
        with translate_errors("read", root):
            return list(_stored(_walk(root) if deep else _shown(root), root))

    def list_names(self, folder: str, *, after: str = "") -> Iterator[str]:
        with translate_errors("read", folder):
            return (entry.name for entry in _entries(folder) if entry.name > after and not entry.name.startswith("."))

    def delete(self, path: str) -> None:
        with translate_errors("delete", path):
            Path(path).unlink(missing_ok=True)

    def small_files(self, folder: str) -> SmallFiles:
        return LocalFiles(folder)

    @contextmanager
    def writing(self, path: str) -> Iterator[Path]:
        file = Path(path)
        with explain_write_errors(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            yield file
            flush(file)

    def open(self, path: str) -> Path:
        return Path(path)

    def open_end(self, path: str) -> Path:
        return Path(path)

    def scan(self, path: str) -> pl.LazyFrame:
        return pl.scan_parquet(path, hive_partitioning=False, glob=False)


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    """The files in a folder and those below it, without hidden ones."""
    for entry in _entries(folder):
        if is_hidden(entry.name):
            continue
        if not entry.is_dir():
            yield entry
        elif not entry.is_symlink():
            yield from _walk(entry.path)


def _shown(folder: str) -> Iterator[os.DirEntry[str]]:
    return (entry for entry in _entries(folder) if not entry.name.startswith("."))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing if it is gone."""
    with suppress(FileNotFoundError), os.scandir(folder) as found:
        return list(found)
    return []


def _stored(entries: Iterable[os.DirEntry[str]], folder: str) -> Iterator[StoredFile]:
    """The files that are still there."""
    for entry in entries:
        with suppress(FileNotFoundError):
            status = entry.stat()
            modified = datetime.fromtimestamp(status.st_mtime, UTC)
            yield StoredFile(entry.path, entry.path.removeprefix(folder).lstrip(os.sep), status.st_size, modified)
