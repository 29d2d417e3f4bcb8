"""The columns that a record lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from .record_spec import RecordSpec

UNAVAILABLE = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")
"""Debezium's placeholder for a large value that did not change and was not sent: as text, and as Base64 bytes."""

_UNAVAILABLE_BYTES = UNAVAILABLE[0].encode()


def unavailable(spec: RecordSpec) -> tuple[Any, ...]:
    """Debezium's placeholders for values of a spec's columns; for an array, that of text, of bytes or of numbers."""
    single = (*UNAVAILABLE, _UNAVAILABLE_BYTES) if spec.is_typed else UNAVAILABLE
    arrays = any(each.type.name == "array" for each in spec.columns.columns)
    return (*single, *([each] for each in single), list(_UNAVAILABLE_BYTES)) if arrays else single


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
    def available(fields: Mapping[str, Any], placeholders: tuple[Any, ...] = UNAVAILABLE) -> Mapping[str, Any]:
        """The fields without those whose value was not sent; see `unavailable`."""
        values = fields.values()
        for each in placeholders:
            if each in values:
                return {name: value for name, value in fields.items() if value not in placeholders}
        return fields

    def absent(self, fields: Mapping[str, Any]) -> str | None:
        """The value of `batch.ABSENT` for a record.

        >>> Presence(("id", "name", "city")).absent({"id": 1, "city": None})
        '`name`'
        """
        if fields.keys() >= self._all:
            return None
        return "".join(f"`{name}`" for name in self.names if name not in fields)
