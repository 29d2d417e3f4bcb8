"""Kafka topics as Polars frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field

from ...domain.epoch.epoch import OffsetRange, Offsets
from ...domain.ports import Now
from ..records.absent_fields import warn_of_absent
from ..records.decoder import RecordDecoder, take_counts
from ..records.polars_rows import polars_dead_letters, polars_rows
from ..records.shapes.decoders import ShapeDecoders
from . import plan as planning
from .decoder import registry_decoder
from .runs import Run, chunks
from .source import KafkaSource

if TYPE_CHECKING:
    import pyarrow as pa


@define(eq=False)
class PolarsKafkaSource(KafkaSource):
    """Topics as a stream of Polars frames."""

    eager: bool = field(init=False, default=True)
    _decoder: ShapeDecoders | RecordDecoder = field(init=False)
    """The same for all reads: it keeps the shapes that it has learned."""
    _begins: bool = field(init=False, default=False)
    """Whether what was planned last is the first epoch."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        registry = self._registry
        self._decoder = ShapeDecoders(self.spec) if registry is None else registry_decoder(self.spec, registry)

    def plan(self, after: Offsets | None, now: Now) -> OffsetRange | None:
        self._begins = after is None
        return super().plan(after, now)

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The records of a range, with the columns of `Batch.rows`.

        Raises:
            SourceUnavailable: the cluster does not answer.
            SourceChanged: records of the range have been deleted, or a topic has been created again.
        """
        planning.check_same(offsets.until, self._reader.topic_ids())
        runs = self._learn_size(self._reader.runs(planning.slices(offsets)))
        rows = polars_rows(self._decode(runs), self.schema)
        self._reader.check_same(offsets.until)  # a topic may have been created again since the range was planned
        if self._begins:
            warn_of_absent(rows, self.spec, f"topics {', '.join(self.settings.topics)}")
        return rows

    def _decode(self, runs: Iterator[Run]) -> Iterator[pa.RecordBatch]:
        if isinstance(self._decoder, ShapeDecoders):
            return self._decoder.decode(chunks(runs))
        return self._decoder.batches(record for run in runs for record in run.records())

    def passed_over(self) -> Mapping[str, int]:
        return take_counts(self._decoder.passed_over)

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return polars_dead_letters(letters, self._rereading(), self.schema)
