"""Dead letters as Spark frames: the workers read them again, each a run of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen
from pyspark import TaskContext

from ...domain.dead_letter import IN_ORDER
from ..letters import COLUMNS
from ..records import batch_schema
from .arrow_map import map_in_arrow
from .schema import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import narwhals as nw
    import pyarrow as pa

    from ...domain.schema import Schema
    from ..letters import ReadAgain

_RUN_POSITIONS = 2**48  # more bytes than a task can read


def spark_letters(letters: nw.LazyFrame[Any], read: ReadAgain, schema: Schema) -> nw.LazyFrame[Any]:
    """The rows of letters read again; see `StreamSource.again`."""
    ordered = letters.to_native().orderBy(*IN_ORDER).select(*COLUMNS)
    return lazy(map_in_arrow(ordered, _Run(read), batch_schema(schema)))


@frozen
class _Run:
    """Reads the letters of a partition; sorted, partitions follow each other as their numbers do."""

    read: ReadAgain

    def __call__(self, letters: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        assert task is not None
        yield from self.read(letters, task.partitionId() * _RUN_POSITIONS)
