"""The columns that a record lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

_UNAVAILABLE = "__debezium_unavailable_value"
UNAVAILABLE = (
    _UNAVAILABLE,
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    *(f'{{"{_UNAVAILABLE}"{colon}"{_UNAVAILABLE}"}}' for colon in (":", ": ", " : ")),
)
"""Debezium's placeholder for a large value that was not sent, as it did not change: text, Base64, JSON of an hstore."""

_SINGLE = frozenset({*UNAVAILABLE, _UNAVAILABLE.encode()})
_OF_UUIDS = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
"""The UUID that Java makes of the placeholder."""
_NESTED = (
    *([each] for each in (*UNAVAILABLE[:2], _UNAVAILABLE.encode(), _OF_UUIDS)),
    [*_UNAVAILABLE.encode()],
    {_UNAVAILABLE: _UNAVAILABLE},
)
"""The placeholder for an array of texts, bytes, UUIDs or numbers, and for hstore as a map."""

_NOT_PLAIN = (bytes, list, dict)
"""The types of other values than texts that may be the placeholder."""


def is_unavailable(value: Any) -> bool:
    """Whether a value is Debezium's placeholder."""
    kind = type(value)
    return value in _SINGLE if kind is str or kind is bytes else (kind is list or kind is dict) and value in _NESTED


@frozen
class Presence:
    """Finds the columns that are missing in a record.

    Args:
        names: the columns that a record may have.
    """

    names: tuple[str, ...]
    _all: frozenset[str] = field(init=False)

    @_all.default
    def _every(self) -> frozenset[str]:
        return frozenset(self.names)

    @staticmethod
    def available(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The fields without those whose value was not sent; see `is_unavailable`."""
        for value in fields.values():
            kind = type(value)
            if (kind is str and value in _SINGLE) or (kind in _NOT_PLAIN and is_unavailable(value)):
                break
        else:
            return fields
        return {name: value for name, value in fields.items() if not is_unavailable(value)}

    def absent(self, fields: Mapping[str, Any]) -> str | None:
        """The value of `batch.ABSENT` for a record.

        >>> Presence(("id", "name", "city")).absent({"id": 1, "city": None})
        '`name`'
        """
        if fields.keys() >= self._all:
            return None
        return "".join(f"`{name}`" for name in self.names if name not in fields)
