"""Arrow batches of rows as Polars frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl
import pyarrow as pa

from ..domain.dead_letter import IN_ORDER
from .letters import COLUMNS
from .records import arrow_schema, batch_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..domain.schema import Schema
    from .letters import ReadAgain


def polars_rows(batches: Iterable[pa.RecordBatch], schema: Schema) -> nw.LazyFrame[Any]:
    """A frame of batches of `batch_schema`, given the schema of their rows."""
    table = pa.Table.from_batches(batches, schema=arrow_schema(batch_schema(schema)))
    return nw.from_native(pl.DataFrame(pl.from_arrow(table)).lazy())


def polars_letters(letters: nw.LazyFrame[Any], read: ReadAgain, schema: Schema) -> nw.LazyFrame[Any]:
    """The rows of letters read again; see `StreamSource.again`."""
    table = letters.sort(*IN_ORDER).select(*COLUMNS).collect(backend="pyarrow").to_native()
    return polars_rows(read(table.to_batches(), 0), schema)
