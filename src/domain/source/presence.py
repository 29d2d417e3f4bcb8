"""The columns that a record lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

UNAVAILABLE = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
"""Debezium's placeholder for a large value that did not change and was not sent: as text, and as Base64 bytes."""


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
        """The fields without those whose value was not sent."""
        values = fields.values()
        if UNAVAILABLE[0] not in values and UNAVAILABLE[1] not in values:
            return fields
        return {name: value for name, value in fields.items() if value not in UNAVAILABLE}

    def absent(self, fields: Mapping[str, Any]) -> str | None:
        """The value of `batch.ABSENT` for a record.

        >>> Presence(("id", "name", "city")).absent({"id": 1, "city": None})
        '`name`'
        """
        if fields.keys() >= self._all:
            return None
        return "".join(f"`{name}`" for name in self.names if name not in fields)
