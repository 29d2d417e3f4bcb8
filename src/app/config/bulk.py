"""The keys of a bulk load: where a table is read from, in which chunks, and when it was."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...domain.errors import ConfigError
from .kinds import TEXT, Key, Kind, choice, whole
from .values import BulkFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .document import Document
    from .lines import KeyPath


def _moment_or_text(value: Any) -> datetime | str:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{value!r} is not {MOMENT_OR_COLUMN.expects}")
    try:
        return _moment_or_text(datetime.fromisoformat(value))
    except ValueError:
        return value


MOMENT_OR_COLUMN = Kind("a moment such as '2024-01-01T00:00:00Z', or the name of a column", _moment_or_text)
BULK = {
    "path": Key(TEXT, required=True),
    "format": Key(choice("parquet", "json", "csv"), "parquet"),
    "search_ts": Key(MOMENT_OR_COLUMN),
    "chunk_rows": Key(whole(1), 1_000_000),
    "chunks_per_epoch": Key(whole(1), 1),
}


def bulk(document: Document, path: KeyPath, resolved: Callable[[str], str]) -> BulkFiles:
    """What a bulk load reads, each key checked at its own place.

    Args:
        document: what it stands in.
        path: of its table.
        resolved: a path of the file as seen from anywhere.

    Raises:
        ConfigError: with file, line and key of the first thing that is wrong, and what is allowed.
    """
    given: Mapping[str, Any] = document.section(path, BULK)
    return BulkFiles(**{**given, "path": resolved(given["path"])})
