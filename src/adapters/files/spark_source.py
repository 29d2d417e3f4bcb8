"""Files as Spark frames. The workers read and decode them, so the directory must be mounted on every worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen
from pyspark.sql import DataFrame

from ...domain.epoch.batch import ERROR, RAW
from ...domain.epoch.epoch import OffsetRange
from ...domain.source.record_spec import RecordSpec
from ..records.decoder import batch_schema, take_counts
from ..records.shapes.decoder import ShapeDecoder
from ..spark.arrow_map import map_in_arrow
from ..spark.dead_letters import spark_dead_letters
from ..spark.skipped_counts import PassedOver
from .source import FileSource
from .spark_parquet import plain_columns, plain_rows
from .splits import Split, explain_errors, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MOST_PLAIN = 16
"""So many files may have a plan of their own."""


@define(eq=False)
class SparkFileSource(FileSource):
    """A directory as a stream of Spark frames."""

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
        return nw.from_native(self._through_workers(self._splits(offsets), lean=False))

    def read_lean(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """See `StreamSource.read_lean`. Spark's own reader reads a few large Parquet files, workers all others."""
        frames: list[DataFrame] = []
        others: list[Split] = []
        for split in self._splits(offsets):
            path = Path(split.path)
            is_parquet = self.spec.format == "parquet" and len(frames) < _MOST_PLAIN
            with explain_errors(path):
                columns = plain_columns(path, self.spec) if is_parquet else None
            if columns is not None:
                frames.append(plain_rows(self.spark, path, columns, self.spec, split.first_position))
            else:
                others.append(split)
        if others or not frames:
            frames.append(self._through_workers(others, lean=True))
        return nw.from_native(reduce(DataFrame.unionAll, frames))

    def _through_workers(self, splits: list[Split], *, lean: bool) -> DataFrame:
        reader = SplitReader(splits, self.spec, self._passed_over, lean=lean)
        numbers = self.spark.range(0, len(splits), 1, max(1, len(splits)))
        rows = map_in_arrow(numbers, reader, batch_schema(self.schema))
        # Spark takes the rows for as few as the splits, and would send all of them to every task of a join.
        return rows if lean else rows.hint("merge")

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return spark_dead_letters(letters, self._rereading(letters), self.schema)


@frozen
class SplitReader:
    """Reads splits on a worker, given their numbers; `lean`: rows without an error have null for ``_raw``."""

    splits: list[Split]
    spec: RecordSpec
    passed_over: PassedOver | None = None
    lean: bool = False

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = ShapeDecoder(self.spec)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                split = self.splits[number]
                batches = read(split, decoder, lean=self.lean)
                yield from map(_without_records, batches) if self.lean else batches
                if self.passed_over:
                    self.passed_over.add(f"{split.path}@{split.start}", take_counts(decoder.passed_over))


def _without_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with null for ``_raw``, except those with an error."""
    errors, raw = batch.column(ERROR), batch.column(RAW)
    nothing = pa.nulls(batch.num_rows, raw.type)
    kept = nothing if errors.null_count == batch.num_rows else pc.if_else(pc.is_valid(errors), raw, nothing)
    return batch.set_column(batch.schema.get_field_index(RAW), batch.schema.field(RAW), kept)
