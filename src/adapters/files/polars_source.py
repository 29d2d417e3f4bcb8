"""Files as Polars frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl
import pyarrow as pa
from attrs import define

from ..records import arrow_schema, batch_schema
from .source import FileSource
from .splits import read

if TYPE_CHECKING:
    from ...domain.epoch import OffsetRange


@define(eq=False)
class PolarsFileSource(FileSource):
    """A directory as a stream of Polars frames."""

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the range's files, with the columns of `Batch.rows`.

        Raises:
            SourceChanged: a file is gone or changed.
            BadInput: a file lacks a declared column, or has it in a type that does not fit.
        """
        batches = [batch for split in self._splits(offsets) for batch in read(split, self.spec)]
        table = pa.Table.from_batches(batches, schema=arrow_schema(batch_schema(self.schema)))
        return nw.from_native(pl.DataFrame(pl.from_arrow(table)).lazy())
