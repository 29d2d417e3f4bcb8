"""Reads all rows of a view or a table."""

from __future__ import annotations

from typing import Any


def drain(frame: Any) -> None:
    """Compute all rows of a frame and discard them; a Polars frame is already computed."""
    if hasattr(frame, "write"):
        frame.write.format("noop").mode("overwrite").save()
