"""The folders of a store's tables."""

from __future__ import annotations

import re
from pathlib import Path

from ...domain.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(~[0-9]*)?\.[A-Za-z0-9_][A-Za-z0-9_-]*")
"""The name of a table; behind ``~`` is the number of the generation, see `headwater.domain.ledger.generation`."""


def absolute(root: str) -> str:
    """The absolute path of a folder; a URI stays as it is."""
    return root if "://" in root else str(Path(root).absolute())


def folder_of(root: str, table: str) -> str:
    """The folder of ``pipeline.table``: ``<root>/<pipeline>/<table>``.

    Raises:
        ConfigError: this is not a table name.
    """
    if not _NAME.fullmatch(table):
        raise ConfigError(f"{table!r} is not a table name; write pipeline.table, in letters, digits, _ and -")
    return "/".join((root.rstrip("/"), *table.split(".")))
