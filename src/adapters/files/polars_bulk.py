"""Bulk loads of files as Polars frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define

from ..records.polars_rows import polars_rows
from .bulk import FileBulk
from .splits import read

if TYPE_CHECKING:
    import narwhals as nw

    from .pieces import Part


@define(eq=False)
class PolarsFileBulk(FileBulk):
    """The files of a folder as Polars frames."""

    def _rows(self, parts: list[Part]) -> nw.LazyFrame[Any]:
        splits = [split for ordinal, part in enumerate(parts) for split in self._splits(ordinal, part)]
        return polars_rows(
            (batch for split in splits for batch in read(split, self.spec.records, views=True)), self.schema
        )
