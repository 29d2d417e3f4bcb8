"""Decodes Kafka records into Arrow batches on a worker, which needs no Kafka client for that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from attrs import frozen

from ...domain.source.record_spec import PROTOBUF, RecordSpec
from ..records.dead_letters import records
from ..records.decoder import Record, RecordDecoder
from ..records.shapes.decoder import ShapeDecoder
from .message_parser import message_decoder
from .plan import Partition, Slice, origin
from .registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa

    from ..spark.skipped_counts import PassedOver


def registry_decoder(spec: RecordSpec, registry: Registry) -> RecordDecoder:
    """The decoder of a topic's records that are parsed with the schemas of a registry.

    Raises:
        NotInstalled: a package that parses them is missing.
    """
    if spec.encoding == PROTOBUF:
        from .protobuf import ProtobufParser

        return message_decoder(spec, ProtobufParser, registry)
    from .avro import AvroParser

    return message_decoder(spec, AvroParser, registry)


@frozen
class RegistryDeadLetters:
    """Decodes dead letters again whose records need the schemas of a registry; see `registry_decoder`.

    Args:
        spec: the spec of the records, as declared now.
        registry: has their schemas.
    """

    spec: RecordSpec
    registry: Registry

    def __call__(self, letters: Iterable[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
        return registry_decoder(self.spec, self.registry).batches(records(letters, first))


@frozen
class TopicDecoder:
    """Decodes Kafka records on a worker.

    Args:
        spec: the spec of the records.
        slices: the offsets to read, by partition.
        registry: has their schemas; None if they are text.
        passed_over: counts the skipped messages of tables that are not read.
    """

    spec: RecordSpec
    slices: dict[Partition, Slice]
    registry: Registry | None = None
    passed_over: PassedOver | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = ShapeDecoder(self.spec) if self.registry is None else registry_decoder(self.spec, self.registry)
        part = ""
        for batch in batches:
            if batch.num_rows:
                part = part or "/".join(str(batch.column(at)[0]) for at in range(3))
                yield decoder.batch(list(self._records(batch)))
        if self.passed_over:
            self.passed_over.add(part, decoder.passed_over)

    def _records(self, batch: pa.RecordBatch) -> Iterator[Record]:
        for topic, partition, offset, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            position = self.slices[topic, partition].position(offset)
            yield Record(value, position, origin(topic, partition, offset))
