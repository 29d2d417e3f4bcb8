"""Parsed messages, and the rows made from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ..conversion import Undecodable, shown

Message: TypeAlias = Mapping[str, Any]
"""A parsed JSON object."""

Read: TypeAlias = Callable[[Message, int], Any]
"""Reads a metadata field, as a JSON value, from a message and the number of a row in it."""

Row: TypeAlias = tuple[str | None, list[Any], Message | None]
"""Row kind (None for a mark, see `domain.source.transactions`); values in the order of `RecordSpec.rows`; the fields of
a message with only this row, if the message has several."""

Rows: TypeAlias = Sequence[Row]

NO_ROWS: Rows = ()
EMPTIED = "the table was emptied, and its rows are not listed: build the pipeline again"


def as_object(value: object, what: str) -> dict[str, Any]:
    """A part of a message that must be an object.

    Raises:
        Undecodable: it is not an object.
    """
    if type(value) is not dict:
        raise Undecodable(f"{what}: a JSON object wanted, not {shown(value)}")
    return value
