"""The folders of a store's tables."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ...domain.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(~[0-9]*)?\.[A-Za-z0-9_][A-Za-z0-9_-]*")
"""The name of a table; behind ``~`` is the number of the generation, see `headwater.domain.ledger.generation`."""


def absolute(root: str) -> str:
    """The absolute path of a folder; a URI stays as it is."""
    return root if "://" in root else str(Path(root).absolute())


def name_fault(name: str) -> str | None:
    r"""Why a path or a name of a file cannot be used; None if it can.

    Polars, DuckDB and Java take names as UTF-8 only, and names that have been read are stored. A process that does not
    read names as UTF-8 has other texts for all but those in ASCII.

    >>> name_fault("lake"), name_fault("b\udcff")
    (None, 'is not UTF-8; rename it')
    """
    coding = sys.getfilesystemencoding()
    if not name.isascii() and coding != "utf-8":
        return (
            f"is not ASCII, and this process reads file names as {coding}, not as UTF-8: start it with LC_ALL=C.UTF-8,"
            " or with PYTHONUTF8=1"
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        return "is not UTF-8; rename it"
    return None


def folder_of(root: str, table: str) -> str:
    """The folder of ``pipeline.table``: ``<root>/<pipeline>/<table>``.

    Raises:
        ConfigError: this is not a table name.
    """
    if not _NAME.fullmatch(table):
        raise ConfigError(f"{table!r} is not a table name; write pipeline.table, in letters, digits, _ and -")
    return "/".join((root.rstrip("/"), *table.split(".")))
