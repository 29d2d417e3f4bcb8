"""Reads from a Kafka cluster: the offsets that its topics hold, and the records of a range."""

from __future__ import annotations

import gc
from bisect import bisect_left
from contextlib import ExitStack, contextmanager
from itertools import groupby
from operator import itemgetter
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from attrs import define, field

from ...domain.errors import ConfigError, NotInstalled, SourceChanged, SourceUnavailable
from .plan import OffsetBounds, Partition, Slice
from .runs import Run

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
except ImportError as missing:
    raise NotInstalled("Kafka sources need confluent-kafka: pip install 'headwater[kafka]'") from missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .settings import KafkaSettings

ANSWER_SECONDS = 5.0
_STANDSTILL_SECONDS = 30.0
_POLL_SECONDS = 0.1
_AT_ONCE = 2_000
"""Messages in one call of the client, which holds up Python's other threads while it makes them."""
_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_NO_LEADER = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
)


@define(eq=False)
class TopicReader:
    """Reads topics with a consumer that stays open, because opening one costs more than reading a small range.

    Several threads may read at the same time; each uses a consumer of its own.

    Args:
        settings: the topics, and their cluster.
    """

    settings: KafkaSettings
    _idle: list[Consumer] = field(init=False, factory=list)

    def offset_bounds(self) -> dict[Partition, OffsetBounds]:
        """The offsets that each partition of the topics holds; of transactions, only those that are completed.

        Raises:
            ConfigError: a topic does not exist.
            SourceUnavailable: the cluster does not answer.
        """
        with self._consumer() as consumer:
            topics = self.settings.topics
            partitions = [(topic, each) for topic in topics for each in _numbers(consumer, topic, self.settings)]
            return {each: OffsetBounds(*_watermarks(consumer, each)) for each in partitions}

    def runs(self, slices: list[Slice]) -> Iterator[Run]:
        """The records of these slices, each slice in its order.

        Offsets without a record (compacted ones, transaction markers) are skipped.

        Raises:
            SourceChanged: records of a slice have been deleted.
            SourceUnavailable: the cluster does not answer.
        """
        open_ = {(each.topic, each.partition): each for each in slices}
        with self._consumer() as consumer:
            consumer.incremental_assign([TopicPartition(each.topic, each.partition, each.start) for each in slices])
            deadline = monotonic() + _STANDSTILL_SECONDS
            while open_:
                # A single call for many messages would wait for all of them, or for all of its time.
                if first := consumer.consume(1, _POLL_SECONDS):
                    deadline = monotonic() + _STANDSTILL_SECONDS
                    with _without_collections():
                        runs = _taken([*first, *consumer.consume(_AT_ONCE, 0)], open_, consumer)
                    yield from runs
                elif monotonic() > deadline:
                    raise SourceUnavailable(f"Kafka at {self.settings.servers} stopped answering; is the broker up?")

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        """A consumer that commits nothing; errors are translated into Headwater's, and end a consumer."""
        try:
            consumer = self._idle.pop()
        except IndexError:
            consumer = Consumer(_client_options(self.settings))
        with ExitStack() as closing:
            closing.callback(consumer.close)
            try:
                yield consumer
            except KafkaException as error:
                raise _translate(error, self.settings) from error
            closing.pop_all()
        self._idle.append(consumer)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Put off Python's search for unused objects, which looks at all objects of the process.

    Thousands of messages, which are soon gone, would start it again and again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _taken(messages: list[Message], open_: dict[Partition, Slice], consumer: Consumer) -> list[Run]:
    """The records of messages that are in a slice; the end of a slice closes it and its partition."""
    runs, partitions = list[Run](), zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
    for partition, pairs in groupby(zip(partitions, messages, strict=True), itemgetter(0)):
        some = [message for _, message in pairs]
        ends = [at for at, error in enumerate(map(Message.error, some)) if error and _is_end(error)]
        if (slice_ := open_.get(partition)) is None:
            continue
        within = map(Message.offset, some[: ends[0] if ends else None])
        offsets = [offset for offset in within if offset is not None]
        count = bisect_left(offsets, slice_.end)
        runs.append(Run(slice_, offsets[:count], list(map(Message.value, some[:count]))))
        if ends or offsets[-1] >= slice_.end - 1:
            del open_[partition]
            consumer.incremental_unassign([TopicPartition(*partition)])  # a paused one would take a second to resume
    return [run for run in runs if run.values]


def _is_end(error: KafkaError) -> bool:
    """Whether it tells the end of a partition.

    Raises:
        KafkaException: it is another error.
    """
    if error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return True


def _client_options(settings: KafkaSettings) -> dict[str, Any]:
    return {
        # A range may end at the end of a partition, after a transaction marker; this time-out finds that out soon.
        "fetch.wait.max.ms": 50,
        # Once 100,000 records are waiting in the client, it fetches no more for this long; by default for a second.
        "fetch.queue.backoff.ms": 10,
        **settings.options,
        "bootstrap.servers": settings.servers,
        # The client requires it. Nothing is subscribed to or committed, so the group is never created.
        "group.id": "headwater",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        # Deleted records must be an error, not a gap.
        "auto.offset.reset": "error",
        "allow.auto.create.topics": False,
        # Errors come as exceptions; the client's own lines on standard error would only repeat them.
        "log_level": 0,
    }


def _translate(error: KafkaException, settings: KafkaSettings) -> Exception:
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
    """Its first and next offsets; a partition just created, or moving to another broker, has no leader for a moment."""
    deadline = monotonic() + ANSWER_SECONDS
    while True:
        try:
            # The client answers None only when asked for cached values.
            low, high = consumer.get_watermark_offsets(TopicPartition(*partition), timeout=ANSWER_SECONDS)
        except KafkaException as error:
            if error.args[0].code() not in _NO_LEADER or monotonic() > deadline:
                raise
            sleep(_POLL_SECONDS)
        else:
            return low, high
