"""Bulk loads of files as Polars frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl
from attrs import define, field

from ...domain.epoch.batch import RAW
from ...domain.table.change import POSITION
from ..records.object_texts import object_texts
from ..records.polars_rows import polars_rows
from .bulk import FileBulk
from .splits import read, read_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from .pieces import Part
    from .splits import Split

_ROWS_A_BATCH = 100_000
"""Each batch costs time of its own. Smaller ones would be for texts, which are much larger than the rows."""


@define(eq=False)
class PolarsFileBulk(FileBulk):
    """The files of a folder as Polars frames. Rows of Parquet become texts only where these are asked for."""

    def _rows(self, parts: list[Part]) -> nw.LazyFrame[Any]:
        splits = [split for ordinal, part in enumerate(parts) for split in self._splits(ordinal, part)]
        if self.spec.records.format == "parquet":
            texts = _Texts()
            rows: pl.LazyFrame = polars_rows(self._decoded(splits, texts), self.schema).to_native()
            raw = pl.col(POSITION).map_batches(texts.at, return_dtype=pl.String, is_elementwise=True)
            return nw.from_native(rows.with_columns(raw.alias(RAW)))
        return polars_rows(
            (batch for split in splits for batch in read(split, self.spec.records, views=True)), self.schema
        )

    def _decoded(self, splits: list[Split], texts: _Texts) -> Iterator[pa.RecordBatch]:
        """The rows of splits of Parquet files without their texts, which are added to `texts`."""
        for split in splits:
            first = split.first_position
            for rows in read_parquet(split, self.spec.records, _ROWS_A_BATCH):
                texts.add(first, rows.original)
                first += rows.decoded.num_rows
                yield rows.decoded


@define(eq=False)
class _Texts:
    """Makes the texts of some of the rows that were read.

    Args:
        firsts: the position of the first row of each batch, ascending.
        batches: the rows as they were read.
    """

    firsts: list[int] = field(factory=list)
    batches: list[pa.RecordBatch] = field(factory=list)

    def add(self, first: int, batch: pa.RecordBatch) -> None:
        """Add rows of consecutive positions, later than those before."""
        self.firsts.append(first)
        self.batches.append(batch)

    def at(self, positions: pl.Series) -> pl.Series:
        """The texts of the rows at these positions."""
        firsts = pl.Series(self.firsts, dtype=pl.Int64)
        wanted = pl.DataFrame({"position": positions, "batch": firsts.search_sorted(positions, side="right") - 1})
        wanted = wanted.with_row_index("at")
        texts = [pl.DataFrame(schema={"at": pl.UInt32, "text": pl.String})]
        for (number,), found in wanted.group_by("batch"):
            rows = self.batches[int(number)].take((found["position"] - self.firsts[int(number)]).to_arrow())
            texts.append(found.select("at", text=pl.Series(object_texts(rows), dtype=pl.String)))
        return pl.concat(texts).sort("at")["text"]
