"""Paths as users write them: of this machine, ``file:`` URIs, or URIs of other stores."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ...domain.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

_FILE = "file"


def without_file_scheme(text: str) -> str:
    """A ``file:`` URI as the path of this machine that it means; any other text as it is.

    Raises:
        ConfigError: the URI names another host, which is mostly a slash that is missing.

    >>> without_file_scheme("file:///data/my%20lake")
    '/data/my lake'
    >>> without_file_scheme("s3a://bucket/lake")
    's3a://bucket/lake'
    """
    parts = urlsplit(text)
    if parts.scheme != _FILE:
        return text
    if parts.netloc not in ("", "localhost"):
        raise ConfigError(f"{text!r} names the host {parts.netloc!r}; write file:///{parts.netloc}{parts.path}")
    return unquote(parts.path)


def resolve(text: str, folder: Path) -> str:
    """A path as seen from anywhere: relative ones start from a folder, URIs stay as they are.

    Raises:
        ConfigError: see `without_file_scheme`.
    """
    path = without_file_scheme(text)
    return path if "://" in path else str((folder / path).resolve())


def check_local(text: str) -> str:
    """A path of this machine.

    Raises:
        ConfigError: it is a URI of another store.
    """
    path = without_file_scheme(text)
    if "://" in path:
        raise ConfigError(
            f"{text!r} is not a folder of this machine, and files are read from such folders alone: mount the store, or"
            " copy the files into a folder"
        )
    return path
