"""Files as Spark frames. The workers read and decode them, so the directory must be mounted on every worker."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field, frozen

from ..records.decoder import batch_schema
from ..spark.arrow_map import map_in_arrow
from ..spark.dead_letters import spark_dead_letters
from ..spark.skipped_counts import PassedOver
from .source import FileSource
from .splits import Split, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from ...domain.epoch.epoch import OffsetRange
    from ...domain.source.record_spec import RecordSpec


@define(eq=False)
class SparkFileSource(FileSource):
    """A directory as a stream of Spark frames.

    Args:
        spark: the session that reads.
    """

    spark: SparkSession
    _passed_over: PassedOver | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.spec.changes.tables:
            self._passed_over = PassedOver.of(self.spark)

    def passed_over(self) -> Mapping[str, int]:
        return self._passed_over.take() if self._passed_over else {}

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The rows of the range's files, with the columns of `Batch.rows`; files are opened when the frame is computed.

        Raises:
            SourceChanged: a file is gone or changed.
            BadInput: a file lacks a declared column, or has it in a type that does not fit.
        """
        reader = SplitReader(self._splits(offsets), self.spec, self._passed_over)
        parts = max(1, len(reader.splits))
        numbers = self.spark.range(0, len(reader.splits), 1, parts)
        return nw.from_native(map_in_arrow(numbers, reader, batch_schema(self.schema)))

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return spark_dead_letters(letters, self._rereading(letters), self.schema)


@frozen
class SplitReader:
    """Reads splits on a worker, given their numbers."""

    splits: list[Split]
    spec: RecordSpec
    passed_over: PassedOver | None = None

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                counts: Counter[str] = Counter()
                split = self.splits[number]
                yield from read(split, self.spec, counts)
                if self.passed_over:
                    self.passed_over.add(f"{split.path}@{split.start}", counts)
