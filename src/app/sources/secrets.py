"""Secrets of sources: from the environment or from a file of their own, never from the deployment file."""

from __future__ import annotations

from pathlib import Path

from ...domain.errors import ConfigError
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

    A line break around it, as editors and ``$(…)`` leave one, is not a part of it.

    Raises:
        ConfigError: it is empty or written in the deployment file, or its own file cannot be read.
    """
    check_secret(table, key)
    if (file := table[f"{key}_file"]) is not None:
        return table.build(lambda: read_secret_file(table.resolve(file)), f"{key}_file")
    if table[key] is None:
        return None
    if not (secret := str(table[key]).strip("\r\n")):
        raise table.error("is empty: write the secret into its variable", key)
    return secret


def read_secret_file(file: str) -> str:
    """The secret in a file, without blanks and line breaks around it.

    Raises:
        ConfigError: the file cannot be read, is not in UTF-8, or is empty.
    """
    try:
        secret = Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:  # its text may show a part of the secret
        raise ConfigError(f"{file} is not in UTF-8; write the secret into it again") from None
    if not secret:
        raise ConfigError(f"{file} is empty; write the secret into it")
    return secret
