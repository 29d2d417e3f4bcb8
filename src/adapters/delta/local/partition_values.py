"""Partition values as texts, in Delta's log and in paths."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from ....domain.epoch.watermark import instant
from ....domain.table.schema import FLOATS, INTEGERS, DataType


def is_plain(text: str | None) -> bool:
    """Whether a text can be part of a path as it is."""
    return text is not None and text.isascii() and text.replace("_", "").isalnum()


def partition_text(value: Any) -> str | None:
    """A partition value in the log's form: letter by letter as Spark writes it, so that both mean one partition."""
    if value is None or value == "":  # Delta has no empty text as a partition value
        return None
    if isinstance(value, datetime):
        return _moment_text(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return value.decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _moment_text(value: datetime) -> str:
    if value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    text = value.isoformat(sep=" ")
    return text.rstrip("0") if value.microsecond else text


def partition_value(text: str | None, data_type: DataType) -> Any:
    """A partition value from the log's form."""
    return None if not text else _READERS.get(data_type.name, str)(text)


_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(INTEGERS, int),
    **dict.fromkeys(FLOATS, float),
    "boolean": "true".__eq__,
    "decimal": Decimal,
    "date": date.fromisoformat,
    "timestamp": lambda text: instant(datetime.fromisoformat(text)),
    "timestamp_ntz": datetime.fromisoformat,
    "binary": str.encode,
}
