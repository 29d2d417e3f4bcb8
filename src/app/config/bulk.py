"""The keys of a bulk load: where a table is read from, in which chunks, and when it was."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...domain.errors import ConfigError
from .kinds import PATH, SETTINGS, TEXT, Key, Kind, choice, whole
from .paths import check_local
from .values import BulkFiles, BulkJdbc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .document import Document
    from .lines import KeyPath
    from .values import BulkInput


def _moment_or_text(value: Any) -> datetime | str:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{value!r} is not {MOMENT_OR_COLUMN.expects}")
    try:
        return _moment_or_text(datetime.fromisoformat(value))
    except ValueError:
        return value


MOMENT_OR_COLUMN = Kind("a moment such as '2024-01-01T00:00:00Z', or a column of the files", _moment_or_text)
_COLUMN = re.compile(r"[^\W\d]")
"""How a column's name begins, where no file can be looked into."""
_CHUNKS = {"chunk_rows": Key(whole(1), 1_000_000), "chunks_per_epoch": Key(whole(1), 1)}
FILES = {
    "path": Key(PATH, required=True),
    "format": Key(choice("parquet", "json", "csv", "delta"), "parquet"),
    "search_ts": Key(MOMENT_OR_COLUMN),
    **_CHUNKS,
}
JDBC = {
    "jdbc": Key(TEXT, required=True),
    "table": Key(TEXT, required=True),
    "user": Key(TEXT),
    "password": Key(TEXT),
    "password_file": Key(TEXT),
    "clock_query": Key(TEXT),
    "position_query": Key(TEXT),
    "options": Key(SETTINGS, {}),
    **_CHUNKS,
}
_SECRET = re.compile("password|secret|token", re.IGNORECASE)


def bulk(document: Document, path: KeyPath, resolved: Callable[[str], str]) -> BulkInput:
    """What a bulk load reads, each key checked at its own place.

    Args:
        document: what they stand in.
        path: of its table.
        resolved: a path of the file as seen from anywhere.

    Raises:
        ConfigError: with file, line and key of the first thing that is wrong, and what is allowed.
    """
    if "jdbc" in document.table(path):
        return _jdbc(document, path, resolved)
    given: Mapping[str, Any] = document.section(path, FILES)
    if given["format"] != "delta":  # Spark lists the files of a Delta table, Headwater all others
        document.built((*path, "path"), lambda: check_local(given["path"]))
    found = BulkFiles(**{**given, "path": resolved(given["path"])})
    if isinstance(found.search_ts, str):
        document.built((*path, "search_ts"), lambda: _check_search_ts(str(found.search_ts), found))
    return found


def _check_search_ts(name: str, files: BulkFiles) -> None:
    """Refuse what is not a moment and cannot be a column of the files.

    Raises:
        ConfigError: with what is allowed.
    """
    from ...adapters.files.columns import columns_of_first  # few configurations name a column

    there = None if files.format == "delta" else columns_of_first(files.path, files.format)
    if there is not None and name not in there.names:
        listed = ", ".join(there.names)
        raise ConfigError(f"{name!r} is not {MOMENT_OR_COLUMN.expects}; file {there.file} has the columns: {listed}")
    if there is None and not _COLUMN.match(name):
        raise ConfigError(f"{name!r} is not {MOMENT_OR_COLUMN.expects}")


def _jdbc(document: Document, path: KeyPath, resolved: Callable[[str], str]) -> BulkJdbc:
    given: Mapping[str, Any] = document.section(path, JDBC)
    secrets = [(*path, "password"), *((*path, "options", name) for name in given["options"] if _SECRET.search(name))]
    for secret in secrets:
        if secret[-1] in document.table(secret[:-1]) and not document.from_environment(secret):
            raise document.error(secret, 'must not stand in the file: write "${NAME}", and set NAME in the environment')
    said = {name: given[name] for name in ("user", "password") if given[name] is not None}
    if given["password_file"] is not None:
        said["password"] = _text_of(document, (*path, "password_file"), resolved(given["password_file"]))
    own = {name: given[name] for name in JDBC if name not in ("user", "password", "password_file", "options")}
    return document.built(path, lambda: BulkJdbc(**own, options={**given["options"], **said}))


def _text_of(document: Document, path: KeyPath, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise document.error(path, f"{file} cannot be read: {error.strerror}") from error


def bulk_shape(table: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a bulk load that the environment may override."""
    return dict(JDBC if "jdbc" in table else FILES)
