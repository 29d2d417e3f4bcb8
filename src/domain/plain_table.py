"""Tables of the user's own, which other programs write."""

from __future__ import annotations

from attrs import frozen


@frozen
class PlainTable:
    """A table of the user's own: where it lies, and its format; see `QueryEngine.scan`."""

    path: str
    format: str
