"""The keys of a bulk load: where a table is read from, its chunks, and the time of the read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....domain.errors import ConfigError
from ...deployment.deployment import BulkFiles, BulkJdbc
from ...document.paths import check_local
from ...document.value_types import PATH, SETTINGS, TEXT, Key, Kind, choice, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...deployment.deployment import BulkInput
    from ...document.document import Document
    from ...document.lines import KeyPath


def _moment_or_text(value: Any) -> datetime | str:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{value!r} is not {MOMENT_OR_COLUMN.expects}")
    try:
        return _moment_or_text(datetime.fromisoformat(value))
    except ValueError:
        return value


MOMENT_OR_COLUMN = Kind("a time such as '2024-01-01T00:00:00Z', or a column of the files", _moment_or_text)
_COLUMN = re.compile(r"[^\W\d]")
"""The first character of a column name; checked if no file can be read."""
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


def bulk(document: Document, path: KeyPath, resolve: Callable[[str], str]) -> BulkInput:
    """Read the settings of a bulk load; errors name the line of each key.

    Args:
        document: the configuration file.
        path: of its table.
        resolve: makes a path of the file absolute.

    Raises:
        ConfigError: names file, line and key of the first mistake, and what is allowed.
    """
    if "jdbc" in document.table(path):
        return _jdbc(document, path, resolve)
    values: Mapping[str, Any] = document.section(path, FILES)
    if values["format"] != "delta":  # Spark lists the files of a Delta table, Headwater all others
        document.build((*path, "path"), lambda: check_local(values["path"]))
    found = BulkFiles(**{**values, "path": resolve(values["path"])})
    if isinstance(found.search_ts, str):
        document.build((*path, "search_ts"), lambda: _check_search_ts(str(found.search_ts), found))
    return found


def _check_search_ts(name: str, files: BulkFiles) -> None:
    """Refuse a text that is not a time and cannot be a column of the files.

    Raises:
        ConfigError: names what is allowed.
    """
    from ....adapters.files.columns import columns_of_first

    there = None if files.format == "delta" else columns_of_first(files.path, files.format)
    if there is not None and name not in there.names:
        listed = ", ".join(there.names)
        raise ConfigError(f"{name!r} is not {MOMENT_OR_COLUMN.expects}; file {there.file} has the columns: {listed}")
    if there is None and not _COLUMN.match(name):
        raise ConfigError(f"{name!r} is not {MOMENT_OR_COLUMN.expects}")


def _jdbc(document: Document, path: KeyPath, resolve: Callable[[str], str]) -> BulkJdbc:
    values: Mapping[str, Any] = document.section(path, JDBC)
    secrets = [(*path, "password"), *((*path, "options", name) for name in values["options"] if _SECRET.search(name))]
    for secret in secrets:
        if secret[-1] in document.table(secret[:-1]) and not document.from_environment(secret):
            raise document.error(secret, 'must not be in the file: write "${NAME}", and set NAME in the environment')
    credentials = {name: values[name] for name in ("user", "password") if values[name] is not None}
    if values["password_file"] is not None:
        credentials["password"] = _text_of(document, (*path, "password_file"), resolve(values["password_file"]))
    own = {name: values[name] for name in JDBC if name not in ("user", "password", "password_file", "options")}
    return document.build(path, lambda: BulkJdbc(**own, options={**values["options"], **credentials}))


def _text_of(document: Document, path: KeyPath, file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise document.error(path, f"{file} cannot be read: {error.strerror}") from error


def bulk_shape(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a bulk load that the environment may override."""
    return dict(JDBC if "jdbc" in table else FILES)
