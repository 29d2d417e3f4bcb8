"""Builds what publishes a view's changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...domain.ports import FrameEngine, Receipt, StreamSink
from ...domain.service.feed import Feed
from ..config import KafkaOutput
from ..registry.packages import require

if TYPE_CHECKING:
    from ...adapters.kafka.settings import SinkSettings


def open_sink(output: KafkaOutput, feed: Feed, engine: FrameEngine) -> StreamSink:
    """Return the sink of a feed; it need not be reachable yet."""
    with require("confluent_kafka", extra="kafka"):
        from ...adapters.kafka.sink import KafkaSink

    return KafkaSink(_settings(output), feed, engine)


def read_receipt(output: KafkaOutput, feed: Feed) -> Receipt | None:
    """Ask a sink what it holds; see `StreamSink.published`."""
    with require("confluent_kafka", extra="kafka"):
        from ...adapters.kafka.receipts import Receipts

    return Receipts(_settings(output), feed).newest()


def check_sink(output: KafkaOutput) -> None:
    """Check the options of a sink, without the network.

    Raises:
        ConfigError: its client refuses one.
    """
    with require("confluent_kafka", extra="kafka"):
        from ...adapters.kafka.sink import check_options

    check_options(_settings(output))


def _settings(output: KafkaOutput) -> SinkSettings:
    from ...adapters.kafka.settings import SinkSettings

    return SinkSettings(output.servers, output.topic, output.options)
