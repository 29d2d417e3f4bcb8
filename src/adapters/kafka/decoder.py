"""Decodes Kafka records into Arrow batches on a worker, which needs no Kafka client for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from ..records.decoder import Record
from ..records.shapes.decoder import ShapeDecoder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from ...domain.source.record_spec import RecordSpec
    from ..records.decoder import RecordDecoder
    from ..spark.skipped_counts import PassedOver
    from .plan import Partition, Slice
    from .registry import Registry


def topic_decoder(spec: RecordSpec, registry: Registry | None, *, views: bool = False) -> ShapeDecoder | RecordDecoder:
    """The decoder of a topic's records.

    Args:
        spec: the spec of the records.
        registry: has their schemas, if they are Avro.
        views: see `ShapeDecoder`.

    Raises:
        NotInstalled: the records are Avro, and fastavro is missing.
    """
    if registry is None:
        return ShapeDecoder(spec, views=views)
    from .avro import avro_decoder

    return avro_decoder(spec, registry)


@frozen
class TopicDecoder:
    """Decodes Kafka records on a worker.

    Args:
        spec: the spec of the records.
        slices: the offsets to read, by partition.
        registry: has their schemas, if they are Avro.
        passed_over: counts the skipped messages of tables that are not read.
    """

    spec: RecordSpec
    slices: dict[Partition, Slice]
    registry: Registry | None = None
    passed_over: PassedOver | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder, part = topic_decoder(self.spec, self.registry), ""
        for batch in batches:
            if batch.num_rows:
                part = part or "/".join(str(batch.column(at)[0]) for at in range(3))
                yield decoder.batch(list(self._records(batch)))
        if self.passed_over:
            self.passed_over.add(part, decoder.passed_over)

    def _records(self, batch: pa.RecordBatch) -> Iterator[Record]:
        for topic, partition, offset, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            position = self.slices[topic, partition].position(offset)
            yield Record(value, position, f"{topic}/{partition}@{offset}")
