"""Paths as users write them: local paths, ``file:`` URIs, or URIs of other stores."""

from __future__ import annotations

import errno
from os.path import realpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ...adapters.shared.path import name_fault
from ...domain.errors import ConfigError

_FILE = "file"
_NO_PATH = (errno.ELOOP, errno.ENAMETOOLONG)


def without_file_scheme(text: str) -> str:
    """Convert a ``file:`` URI to a local path; return any other text unchanged.

    Raises:
        ConfigError: the URI names another host (usually a slash is missing), no path, or more than a path; or the text
            is no URI, and no path.

    >>> without_file_scheme("file:///data/my%20lake")
    '/data/my lake'
    >>> without_file_scheme("s3a://bucket/lake")
    's3a://bucket/lake'
    """
    if "\0" in text:
        raise ConfigError(f"{text!r} has a null character; write a path without it")
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is not an address: {error}") from error
    if parts.scheme != _FILE:
        return text
    if parts.query or parts.fragment or not parts.path:
        raise ConfigError(f"{text!r} must be a path and nothing else; write %3F for ? and %23 for #")
    if parts.netloc not in ("", "localhost"):
        raise ConfigError(f"{text!r} names the host {parts.netloc!r}; write file:///{parts.netloc}{parts.path}")
    return unquote(parts.path)


def resolve(text: str, folder: Path) -> str:
    """Make a path absolute: relative paths start from a folder, URIs stay unchanged.

    Raises:
        ConfigError: see `without_file_scheme`; or it begins with ``~``, no file system can have it, it is relative to
            a working directory that was removed, or it or a folder above has a name that this process cannot read.
    """
    path = without_file_scheme(text)
    if path == "~" or path.startswith("~/"):
        raise ConfigError(f"{text!r}: ~ is not replaced here; write the whole path of the folder, or use ${{HOME}}")
    return path if "://" in path else _absolute(folder / path)


def _absolute(path: Path) -> str:
    if not path.is_absolute():
        check_working_directory()
    if fault := name_fault(str(path)):
        raise ConfigError(f"{str(path)!r} {fault}")
    found = realpath(path)
    if fault := name_fault(found):
        raise ConfigError(f"{found!r} {fault}")
    try:
        Path(found).stat()
    except OSError as error:  # most mean that nothing is there yet, and are told by who uses the path
        if error.errno in _NO_PATH:
            raise ConfigError(f"{str(path)!r} cannot be a path: {error.strerror}") from error
    return found


def check_working_directory() -> None:
    """Refuse to go on in a working directory that is not there.

    Raises:
        ConfigError: it was removed.
    """
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise ConfigError("the working directory was removed; change to another one") from error


def check_local(text: str) -> str:
    """Return a local path.

    Raises:
        ConfigError: the text is a URI of another store.
    """
    path = without_file_scheme(text)
    if "://" in path:
        raise ConfigError(
            f"{text!r} is not a local folder, and files are only read from local folders: mount the store, or copy the"
            " files into a folder"
        )
    return path
