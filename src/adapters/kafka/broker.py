"""Talking to a Kafka cluster: what its topics hold, and the records of a range."""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

from ...domain.errors import ConfigError, NotInstalled, SourceChanged, SourceUnavailable
from ..records import ROWS_A_BATCH, Record
from .planning import Held, Partition, Slice

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
except ImportError as missing:
    raise NotInstalled("Kafka sources need confluent-kafka: pip install 'headwater[kafka]'") from missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Message

    from .settings import KafkaSettings

ANSWER_SECONDS = 5.0
_STANDSTILL_SECONDS = 30.0
_POLL_SECONDS = 0.1
_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def held(settings: KafkaSettings) -> dict[Partition, Held]:
    """What every partition of the topics holds; of transactions, those that are complete.

    Raises:
        ConfigError: a topic does not exist.
        SourceUnavailable: the cluster does not answer.
    """
    with _consumer(settings) as consumer:
        partitions = [(topic, number) for topic in settings.topics for number in _numbers(consumer, topic, settings)]
        return {each: Held(*_watermarks(consumer, each)) for each in partitions}


def records(settings: KafkaSettings, slices: list[Slice]) -> Iterator[Record]:
    """The records of some slices, each slice in its order.

    Offsets that hold no record (compacted ones, marks of transactions) are passed over.

    Raises:
        SourceChanged: records of a slice are gone.
        SourceUnavailable: the cluster does not answer.
    """
    open_ = {(each.topic, each.partition): each for each in slices}
    with _consumer(settings) as consumer:
        consumer.assign([TopicPartition(each.topic, each.partition, each.start) for each in slices])
        deadline = monotonic() + _STANDSTILL_SECONDS
        while open_:
            messages = consumer.consume(ROWS_A_BATCH, _POLL_SECONDS)
            if messages:
                deadline = monotonic() + _STANDSTILL_SECONDS
            elif monotonic() > deadline:
                raise SourceUnavailable(f"Kafka at {settings.servers} stopped answering; is the broker up?")
            for message in messages:
                yield from _taken(message, open_, consumer)


def _taken(message: Message, open_: dict[Partition, Slice], consumer: Consumer) -> Iterator[Record]:
    """The record of a message, if it is wanted; what ends a slice closes it."""
    partition = _partition(message)
    slice_, error, offset = open_.get(partition), message.error(), message.offset()
    if error and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    if slice_ is None or offset is None:
        return
    if not error and offset < slice_.end:
        yield Record(message.value(), slice_.position(offset), origin(*partition, offset))
    if error or offset >= slice_.end - 1:
        del open_[partition]
        consumer.pause([TopicPartition(*partition)])


def origin(topic: str, partition: int, offset: int) -> str:
    """Where a record is from, as `_origin` says it."""
    return f"{topic}/{partition}@{offset}"


def _partition(message: Message) -> Partition:
    return message.topic() or "", message.partition() or 0


@contextmanager
def _consumer(settings: KafkaSettings) -> Iterator[Consumer]:
    """A consumer that commits nothing; what goes wrong with it is told in Headwater's errors."""
    consumer = Consumer(_client_options(settings))
    try:
        yield consumer
    except KafkaException as error:
        raise _translated(error, settings) from error
    finally:
        consumer.close()


def _client_options(settings: KafkaSettings) -> dict[str, Any]:
    return {
        # A range ends where the broker has no more, behind the mark of a transaction: that is to be heard soon.
        "fetch.wait.max.ms": 50,
        **settings.options,
        "bootstrap.servers": settings.servers,
        # Wanted by the client; as nothing is subscribed to or committed, the group never comes to be.
        "group.id": "headwater",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        # Records that are gone must be an error, not a jump.
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        # Failures come as exceptions; the client's own lines on standard error would only repeat them.
        "log_level": 0,
    }


def _translated(error: KafkaException, settings: KafkaSettings) -> Exception:
    cause: KafkaError = error.args[0]
    if cause.code() in _GONE:
        return SourceChanged(
            f"Kafka topics {', '.join(settings.topics)}: records to be read again are gone: {cause.str()}"
        )
    return SourceUnavailable(
        f"Kafka at {settings.servers} cannot be read just now ({cause.str()}); is the broker up, and the address right?"
    )


def _numbers(consumer: Consumer, topic: str, settings: KafkaSettings) -> list[int]:
    found = consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
    if found.error and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise ConfigError(
            f"Kafka at {settings.servers} has no topic {topic!r}; create it, or correct the source's topics"
        )
    if found.error:
        raise KafkaException(found.error)
    return sorted(found.partitions)


def _watermarks(consumer: Consumer, partition: Partition) -> tuple[int, int]:
    # The client answers None only when asked for cached values.
    low, high = consumer.get_watermark_offsets(TopicPartition(*partition), timeout=ANSWER_SECONDS)
    return low, high
