"""Secrets of sources: from the environment or from a file of their own, never from the deployment file."""

from __future__ import annotations

from pathlib import Path

from ..document.section import Section


def check_secret(table: Section, *key: str) -> None:
    """Refuse a secret that is written in the file.

    Raises:
        ConfigError: names its place.
    """
    if table.has(*key) and not table.document.from_environment((*table.path, *key)):
        raise table.error('must not be in the file: write "${NAME}", and set NAME in the environment', *key)


def read_secret(table: Section, key: str) -> str | None:
    """The secret of a key, or in the file that the key ``<key>_file`` names; None if neither is set.

    Raises:
        ConfigError: it is written in the deployment file, or its own file cannot be read.
    """
    check_secret(table, key)
    if (file := table[f"{key}_file"]) is None:
        return None if table[key] is None else str(table[key])
    path = table.resolve(file)
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise table.error(f"{path} cannot be read: {error.strerror}", f"{key}_file") from error
