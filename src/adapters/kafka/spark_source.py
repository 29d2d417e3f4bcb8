"""Kafka topics as Spark frames: Spark's own Kafka reader fetches the bytes, the shared decoder makes the rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field
from pyspark.errors import AnalysisException

from ...domain.epoch.epoch import OffsetRange
from ...domain.errors import NotInstalled
from ..records.decoder import batch_schema
from ..spark.arrow_map import map_in_arrow
from ..spark.dead_letters import spark_dead_letters
from ..spark.jvm import java_class
from ..spark.session import KAFKA_PACKAGE
from ..spark.skipped_counts import PassedOver
from . import plan as planning
from .decoder import TopicDecoder
from .plan import Slice
from .settings import java_options
from .source import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_CONSUMER_LOGGER = "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer"


@define(eq=False)
class SparkKafkaSource(KafkaSource):
    """Topics as a stream of Spark frames.

    Args:
        spark: the session that reads; it needs Spark's Kafka package.
    """

    spark: SparkSession
    _passed_over: PassedOver | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.spec.changes.tables:
            self._passed_over = PassedOver.of(self.spark)
        _silence_a_warning_per_record(self.spark)

    def read(self, offsets: OffsetRange) -> nw.LazyFrame[Any]:
        """The records of a range, with the columns of `Batch.rows`; they are fetched when the frame is computed.

        Raises:
            NotInstalled: the session has no Kafka package.
            SourceUnavailable: the cluster does not answer.
            SourceChanged: a topic has been created again.
        """
        # A range that is read again was not planned now, and Spark's own client takes a minute to find a broker down.
        self._reader.offset_bounds()
        planning.check_same(offsets.until, self._reader.topic_ids())
        slices = planning.slices(offsets)
        by_partition = {(each.topic, each.partition): each for each in slices}
        decoder = TopicDecoder(self.spec, by_partition, self._registry, self._passed_over)
        frame = self._fetched(slices).select("topic", "partition", "offset", "value")
        return nw.from_native(map_in_arrow(frame, decoder, batch_schema(self.schema)))

    def passed_over(self) -> Mapping[str, int]:
        return self._passed_over.take() if self._passed_over else {}

    def reread(self, letters: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return spark_dead_letters(letters, self._rereading(), self.schema)

    def _fetched(self, slices: list[Slice]) -> DataFrame:
        options = {
            **{f"kafka.{name}": value for name, value in java_options(self.settings.options).items()},
            "kafka.bootstrap.servers": self.settings.servers,
            "kafka.isolation.level": "read_committed",
            # Not subscribe: it fails when partitions have been added since the range was planned.
            "assign": _by_topic(slices, lambda partitions: [each.partition for each in partitions]),
            "startingOffsets": _by_topic(
                slices, lambda partitions: {str(each.partition): each.start for each in partitions}
            ),
            "endingOffsets": _by_topic(
                slices, lambda partitions: {str(each.partition): each.end for each in partitions}
            ),
            # Deleted records must be an error, not a gap.
            "failOnDataLoss": "true",
        }
        try:
            return self.spark.read.format("kafka").options(**options).load()
        except AnalysisException as error:
            raise NotInstalled(
                f"this Spark session cannot read Kafka: start it with spark.jars.packages={KAFKA_PACKAGE}"
            ) from error


def _silence_a_warning_per_record(spark: SparkSession) -> None:
    """Silence Spark's Kafka consumer, which logs a warning for each record that a Python function reads."""
    log4j = "org.apache.logging.log4j"
    error = java_class(spark, f"{log4j}.Level").ERROR
    java_class(spark, f"{log4j}.core.config.Configurator").setLevel(_CONSUMER_LOGGER, error)


def _by_topic(slices: list[Slice], value_of: Callable[[list[Slice]], object]) -> str:
    topics = {each.topic for each in slices}
    return json.dumps({topic: value_of([each for each in slices if each.topic == topic]) for topic in topics})
