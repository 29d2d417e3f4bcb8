"""Frames of Polars over Delta tables of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...polars.engine import PolarsEngine
from .errors import explain_read_errors

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class LocalEngine(PolarsEngine):
    """Polars frames whose rows may still be in files: these can be gone or damaged when a frame is computed."""

    def explaining(self) -> AbstractContextManager[None]:
        return explain_read_errors()
