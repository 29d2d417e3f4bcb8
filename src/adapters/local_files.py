"""Small text files on this machine's disk, each of which appears whole or not at all."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from ..domain.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def create(file: Path, text: str) -> bool:
    """Write a file under a name that is free; False if somebody else has taken it. Its folder is made where needed.

    Raises:
        StoreUnavailable: it cannot be written.
    """
    try:
        with _draft(file, text) as draft:
            return _linked(draft, file)
    except OSError as error:
        raise StoreUnavailable(f"cannot write {file}: {error.strerror}; check the disk, and who may write") from error


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
