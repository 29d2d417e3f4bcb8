"""The sources that ship with Headwater, under the contract of sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from headwater.adapters.files.listing import FilesSettings
from headwater.adapters.files.polars_source import PolarsFileSource
from headwater.adapters.kafka.settings import KafkaSettings
from headwater.testing.source_contract import SourceContract

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headwater.domain.ports import StreamSource
    from headwater.domain.source.record_spec import RecordSpec


class FilesContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def bring(self, records: Sequence[bytes]) -> None:
        there = len(list(self.folder.iterdir()))
        for number, record in enumerate(records, there):
            (self.folder / f"{number:06d}.json").write_bytes(record)


class TestPolarsFiles(FilesContract):
    def open(self, records: RecordSpec, size: int) -> StreamSource:
        return PolarsFileSource(FilesSettings(str(self.folder), size), records)


@pytest.mark.delta
@pytest.mark.contract
class TestSparkFiles(FilesContract):
    @pytest.fixture(autouse=True)
    def _session(self, spark: Any) -> None:
        self.spark = spark

    def open(self, records: RecordSpec, size: int) -> StreamSource:
        from headwater.adapters.files.spark_source import SparkFileSource

        return SparkFileSource(FilesSettings(str(self.folder), size), records, self.spark)


class KafkaContract(SourceContract):
    @pytest.fixture(autouse=True)
    def _topic(self, kafka: Any) -> None:
        self.kafka, self.topic = kafka, f"topic-{uuid4().hex[:8]}"
        kafka.create_topic(self.topic, partitions=1)

    def settings(self, size: int) -> KafkaSettings:
        return KafkaSettings(self.kafka.servers, (self.topic,), size)

    def bring(self, records: Sequence[bytes]) -> None:
        self.kafka.produce(self.topic, list(records), partition=0)


@pytest.mark.kafka
class TestPolarsKafka(KafkaContract):
    def open(self, records: RecordSpec, size: int) -> StreamSource:
        from headwater.adapters.kafka.polars_source import PolarsKafkaSource

        return PolarsKafkaSource(self.settings(size), records)


@pytest.mark.kafka
@pytest.mark.delta
@pytest.mark.contract
class TestSparkKafka(KafkaContract):
    @pytest.fixture(autouse=True)
    def _session(self, spark: Any) -> None:
        self.spark = spark

    def open(self, records: RecordSpec, size: int) -> StreamSource:
        from headwater.adapters.kafka.spark_source import SparkKafkaSource

        return SparkKafkaSource(self.settings(size), records, self.spark)
