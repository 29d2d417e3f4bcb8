"""Bulk loads of files as Polars frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl
from attrs import define, field

from ...domain.epoch.batch import BATCH_COLUMNS, BYTES, ERROR, ORIGIN, RAW
from ...domain.epoch.epoch import OffsetRange
from ...domain.ports import BulkRows
from ...domain.table.change import POSITION
from ...domain.table.row_kind import INSERT, ROW_KIND
from ..memory_limit import hold_rows
from ..polars.schema import empty
from ..records.absent_fields import warn_of_absent
from ..records.object_texts import object_texts
from ..records.polars_rows import polars_rows
from ..records.shapes.decoders import ShapeDecoders
from ..records.typed_rows import TypedRows
from .bulk import FileBulk
from .pieces import Part
from .splits import read, read_parquet

if TYPE_CHECKING:
    import pyarrow as pa


_ROWS_A_BATCH = 100_000
"""Each batch costs time of its own. Smaller ones would be for texts, which are much larger than the rows."""


@define(eq=False)
class PolarsFileBulk(FileBulk):
    """The files of a folder as Polars frames. A row of Parquet has its origin and its text made when asked for."""

    def read(self, offsets: OffsetRange) -> BulkRows:
        found = super().read(offsets)
        if offsets.after is None:
            warn_of_absent(found.rows, self.spec.records, self.path)
        return found

    def _rows(self, parts: list[Part]) -> nw.LazyFrame[Any]:
        splits = [split for ordinal, part in enumerate(parts) for split in self._pieces.splits(ordinal, part)]
        if self.spec.records.format != "parquet":
            decoders = ShapeDecoders(self.spec.records)
            batches = (batch for split in splits for batch in read(split, decoders))
            return polars_rows(batches, self.schema)
        found = _Found()
        for split in splits:
            for rows in read_parquet(split, self.spec.records, _ROWS_A_BATCH):
                hold_rows(rows.values.nbytes)
                found.add(rows)
        return nw.from_native(found.frame(empty(self.schema)))


@define(eq=False)
class _Found:
    """The rows that were read, in the order of their positions."""

    parts: list[TypedRows] = field(factory=list)
    firsts: list[int] = field(factory=list)

    def add(self, rows: TypedRows) -> None:
        """Add rows of later positions."""
        self.parts.append(rows)
        self.firsts.append(rows.first)

    def frame(self, nothing: pl.DataFrame) -> pl.LazyFrame:
        """The rows with the columns of `Batch.rows`; `nothing` has the columns of the source and no rows."""
        values = pl.concat([nothing, *(pl.DataFrame(pl.from_arrow(each.values)) for each in self.parts)], rechunk=True)
        positions = [pl.int_range(each.first, each.first + each.values.num_rows, eager=True) for each in self.parts]
        rows = values.with_columns(
            self._read([each.kinds for each in self.parts], INSERT).alias(ROW_KIND),
            pl.concat([pl.Series(dtype=pl.Int64), *positions], rechunk=True).alias(POSITION),
            pl.lit(None, pl.Binary).alias(BYTES),
            self._read([each.errors for each in self.parts], None).alias(ERROR),
        )
        origin = self._made(lambda rows, at: pl.repeat(rows.origin, at.len(), eager=True))
        raw = self._made(lambda rows, at: pl.Series(object_texts(rows.original.take(at.to_arrow()))))
        texts = rows.lazy().with_columns(origin.alias(ORIGIN), raw.alias(RAW))
        return texts.select(*nothing.columns, *BATCH_COLUMNS)

    def _read(self, arrays: list[pa.Array | None], usual: str | None) -> pl.Series | pl.Expr:
        """A column of texts that were read; those of an array that is None are `usual`."""
        if all(each is None for each in arrays):
            return pl.lit(usual, pl.String)
        found = [
            pl.repeat(usual, rows.values.num_rows, dtype=pl.String, eager=True) if each is None else pl.Series(each)
            for rows, each in zip(self.parts, arrays, strict=True)
        ]
        return pl.concat(found, rechunk=True)

    def _made(self, texts: Callable[[TypedRows, pl.Series], pl.Series]) -> pl.Expr:
        """A column of texts, which are made of rows and of the places in them (from 0) where they are wanted."""

        def made(positions: pl.Series) -> pl.Series:
            number = pl.Series(self.firsts, dtype=pl.Int64).search_sorted(positions, side="right") - 1
            wanted = pl.DataFrame({"position": positions, "number": number}).with_row_index("row")
            found = [pl.DataFrame(schema={"row": pl.UInt32, "text": pl.String})]
            for (at,), some in wanted.group_by("number"):
                rows = self.parts[int(at)]
                text = texts(rows, some["position"] - rows.first).cast(pl.String)
                found.append(some.select("row", text.alias("text")))
            return pl.concat(found).sort("row")["text"]

        return pl.col(POSITION).map_batches(made, return_dtype=pl.String, is_elementwise=True)
