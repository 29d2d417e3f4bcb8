"""Small files on the local disk, each written atomically."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from attrs import field, frozen

from ...domain.errors import StoreUnavailable
from ...domain.ports import SmallFiles
from .utf8 import KEEP_BYTES

_NO_FOLDERS = (errno.EINVAL, errno.EBADF, errno.ENOTSUP)
"""The errors of file systems that flush no folders; such a system keeps names in its own way."""


def create(file: Path, content: str | bytes) -> bool:
    """Create a file; False if a file of that name exists already. Its folder is created if missing.

    Raises:
        StoreUnavailable: it cannot be written.
    """
    with translate_errors("write", file), _draft(file, content) as draft:
        return _link(draft, file)


@frozen
class LocalFiles(SmallFiles):
    """The files of one folder; `StoreUnavailable` is raised if the disk fails."""

    folder: Path = field(converter=Path)

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        with translate_errors("write", file), _draft(file, text) as draft:
            draft.replace(file)

    def delete(self, name: str) -> None:
        file = self.folder / name
        with translate_errors("delete", file):
            file.unlink(missing_ok=True)

    def read(self) -> dict[str, str] | None:
        with translate_errors("read", self.folder):
            try:
                return {file.name: file.read_text(encoding="utf-8", errors=KEEP_BYTES) for file in self._files()}
            except FileNotFoundError:
                return None

    def _files(self) -> list[Path]:
        there = self.folder.iterdir() if self.folder.exists() else ()
        return [file for file in there if not file.name.startswith(".")]


@contextmanager
def translate_errors(doing: str, path: Path | str) -> Iterator[None]:
    """Raise `StoreUnavailable` for errors of the disk.

    Args:
        doing: what is done to the path, such as ``read``.
        path: a file or a folder.
    """
    try:
        yield
    except OSError as error:
        look = "look at the disk and its free space" if doing == "write" else "check the disk"
        raise StoreUnavailable(f"cannot {doing} {path}: {error.strerror}; {look}, and who may {doing}") from error


def _link(draft: Path, file: Path) -> bool:
    try:
        # A link, unlike a rename, fails if the name is taken, so the second of two writers gets an error.
        os.link(draft, file)
    except FileExistsError:
        # NFS also answers so about a link that it has made, if its first answer was lost and the request was repeated.
        if not draft.samefile(file):
            return False
    _flush_names(file.parent)
    return True


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _flush_names(folder: Path) -> None:
    try:
        flush(folder)
    except OSError as error:
        if error.errno not in _NO_FOLDERS:
            raise


@contextmanager
def _draft(file: Path, content: str | bytes) -> Iterator[Path]:
    """A temporary hidden file with the content, flushed to the disk, and deleted at the end."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{uuid4().hex}.draft")
    try:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)
        flush(draft)
        yield draft
    finally:
        draft.unlink(missing_ok=True)
