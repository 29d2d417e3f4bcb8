"""Topics of a Kafka broker."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from ...domain.source.record_spec import JSON_FORMATS
from ..deployment.deployment import KafkaInput
from ..document.value_types import OPTIONS, SOME_TEXTS, TEXT, Key, whole
from ..registry.sources import SourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...adapters.kafka.settings import KafkaSettings
    from ...domain.ports import StreamSource
    from ...domain.source.record_spec import RecordSpec
    from ..document.section import Section


class KafkaKind(SourceKind[KafkaInput]):
    """``kind = "kafka"``."""

    formats = JSON_FORMATS
    packages = MappingProxyType({"confluent_kafka": "kafka"})
    keys: ClassVar[Mapping[str, Key]] = {
        "servers": Key(TEXT, required=True),
        "topics": Key(SOME_TEXTS, required=True),
        "max_rows_per_epoch": Key(whole(1)),
        "max_bytes_per_epoch": Key(whole(1)),
        "options": Key(OPTIONS, {}),
    }

    def spark_packages(self) -> tuple[str, ...]:
        from ...adapters.spark.session import KAFKA_PACKAGE

        return (KAFKA_PACKAGE,)

    def parse(self, table: Section) -> KafkaInput:
        return KafkaInput(**{name: table[name] for name in self.keys})

    def open_polars(self, settings: KafkaInput, records: RecordSpec, backend: str) -> StreamSource:
        from ...adapters.kafka.polars_source import PolarsKafkaSource

        return PolarsKafkaSource(_settings(settings), records)

    def open_spark(self, settings: KafkaInput, records: RecordSpec, session: Any, backend: str) -> StreamSource:
        from ...adapters.kafka.spark_source import SparkKafkaSource

        return SparkKafkaSource(_settings(settings), records, session)


def _settings(given: KafkaInput) -> KafkaSettings:
    from ...adapters.kafka.settings import KafkaSettings

    limits = (given.max_rows_per_epoch, given.options, given.max_bytes_per_epoch)
    return KafkaSettings(given.servers, given.topics, *limits)
