"""Tells a file that was removed from a folder that is away for a moment: a lost mount, or a folder that is renamed."""

from __future__ import annotations

from pathlib import Path

from ...domain.errors import SourceUnavailable


def away(folder: Path | str) -> SourceUnavailable:
    """The error about a folder of which files have been read, and which is not there now."""
    return SourceUnavailable(
        f"{folder} is not a directory now, though files of it have been read; put it back, or correct the path"
    )


def check_not_away(folder: Path) -> None:
    """Check that a folder is there in which a file is missing.

    Raises:
        SourceUnavailable: it is not there, so its files may come back with it.
    """
    if not folder.is_dir():
        raise away(folder)
