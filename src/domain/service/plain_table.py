"""Plain tables: tables that other programs write."""

from __future__ import annotations

from attrs import frozen


@frozen
class PlainTable:
    """A table that other programs write: its path and its format; see `QueryEngine.scan`."""

    path: str
    format: str

    def __str__(self) -> str:
        return f"{self.format} at {self.path}"
