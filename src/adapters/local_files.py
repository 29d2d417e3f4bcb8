"""Small text files on this machine's disk, each of which appears whole or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from attrs import field, frozen

from ..domain.errors import StoreUnavailable
from ..domain.ports import SmallFiles

if TYPE_CHECKING:
    from collections.abc import Iterator


def create(file: Path, text: str) -> bool:
    """Write a file under a name that is free; False if somebody else has taken it. Its folder is made where needed.

    Raises:
        StoreUnavailable: it cannot be written.
    """
    with _explained("write", file), _draft(file, text) as draft:
        return _linked(draft, file)


@frozen
class LocalFiles(SmallFiles):
    """The files of one folder. Where the disk fails, `StoreUnavailable` is raised."""

    folder: Path = field(converter=Path)

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        with _explained("write", file), _draft(file, text) as draft:
            draft.replace(file)

    def delete(self, name: str) -> None:
        file = self.folder / name
        with _explained("delete", file):
            file.unlink(missing_ok=True)

    def read(self) -> dict[str, str] | None:
        with _explained("read", self.folder):
            try:
                return {file.name: file.read_text(encoding="utf-8") for file in self._files()}
            except FileNotFoundError:
                return None

    def _files(self) -> list[Path]:
        there = self.folder.iterdir() if self.folder.exists() else ()
        return [file for file in there if not file.name.startswith(".")]


@contextmanager
def _explained(doing: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnavailable(
            f"cannot {doing} {path}: {error.strerror}; check the disk, and who may {doing}"
        ) from error


def _linked(draft: Path, file: Path) -> bool:
    try:
        # A link, unlike a rename, fails where the name is taken: of two writers, one is told.
        os.link(draft, file)
    except FileExistsError:
        return False
    return True


@contextmanager
def _draft(file: Path, text: str) -> Iterator[Path]:
    """The text on the disk, under a name that nobody looks for, for as long as it is needed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{uuid4().hex}.draft")
    try:
        with draft.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)
