"""Dead letters as Spark frames: each worker decodes a run of them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import frozen
from pyspark import TaskContext

from ...domain.source.dead_letter import IN_ORDER
from ...domain.table.schema import Schema
from ..records.dead_letters import COLUMNS, ReadAgain
from ..records.decoder import batch_schema
from .arrow_map import map_in_arrow
from .schema import lazy

if TYPE_CHECKING:
    import pyarrow as pa

_RUN_POSITIONS = 2**48  # more bytes than a task can read


def spark_dead_letters(letters: nw.LazyFrame[Any], read: ReadAgain, schema: Schema) -> nw.LazyFrame[Any]:
    """The rows of dead letters decoded again; see `StreamSource.reread`."""
    ordered = letters.to_native().orderBy(*IN_ORDER).select(*COLUMNS)
    return lazy(map_in_arrow(ordered, _Run(read), batch_schema(schema)))


@frozen
class _Run:
    """Decodes the dead letters of a partition; the partitions are sorted by their numbers."""

    read: ReadAgain

    def __call__(self, letters: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        yield from self.read(letters, task.partitionId() * _RUN_POSITIONS)
