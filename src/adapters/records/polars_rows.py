"""Converts Arrow batches of rows into Polars frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import narwhals as nw
import polars as pl

from ...domain.source.dead_letter import IN_ORDER
from ...domain.table.schema import Schema
from ..memory_limit import hold_rows
from .dead_letters import COLUMNS, ReadAgain
from .decoder import arrow_schema, batch_schema

if TYPE_CHECKING:
    import pyarrow as pa


def polars_rows(batches: Iterable[pa.RecordBatch], schema: Schema) -> nw.LazyFrame[Any]:
    """A frame of batches of `batch_schema`, whose texts may be views; `schema` is that of their rows."""
    empty = arrow_schema(batch_schema(schema)).empty_table()
    frames = (pl.DataFrame(pl.from_arrow(each)) for each in (empty, *_counted(batches)))
    return nw.from_native(pl.concat(frames, rechunk=True).lazy())


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        hold_rows(batch.nbytes)
        yield batch


def polars_dead_letters(letters: nw.LazyFrame[Any], read: ReadAgain, schema: Schema) -> nw.LazyFrame[Any]:
    """The rows of dead letters decoded again; see `StreamSource.reread`."""
    table = letters.sort(*IN_ORDER).select(*COLUMNS).collect(backend="pyarrow").to_native()
    return polars_rows(read(table.to_batches(), 0), schema)
