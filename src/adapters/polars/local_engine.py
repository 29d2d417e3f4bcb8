"""Frames of Polars over tables in files of this machine."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import narwhals as nw

from ..memory_limit import hold_rows
from .engine import PolarsEngine
from .file_errors import explain_read_errors
from .schema import collect, lazy


class LocalEngine(PolarsEngine):
    """Polars frames whose rows may still be in files: these can be gone or damaged when a frame is computed."""

    def persist(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        rows = collect(frame)
        hold_rows(int(rows.estimated_size()))
        return lazy(rows)

    def explaining(self) -> AbstractContextManager[None]:
        return explain_read_errors()
