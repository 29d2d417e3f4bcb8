"""Reads from a Kafka cluster: the offsets that its topics hold, and the records of a range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any

from attrs import define, field
from confluent_kafka import Consumer

from ...domain.epoch.epoch import Offsets
from ...domain.errors import ConfigError, SourceUnavailable
from .clients import Admin, create_client
from .errors import translate_errors
from .plan import OffsetBounds, Partition, Slice, check_same
from .reading import Reading
from .runs import Run
from .settings import KafkaSettings, client_options
from .topics import NO_ID, Topic, describe, find, find_compacted, list_bounds

_STANDSTILL_SECONDS = 30.0


@define(eq=False)
class TopicReader:
    """Reads topics with a consumer that stays open, because opening one costs more than reading a small range.

    Several threads may read at the same time; each uses a consumer of its own.

    Args:
        settings: the cluster and its topics.
        isolation: ``read_uncommitted`` for records of open and aborted transactions, too.
    """

    settings: KafkaSettings
    isolation: str = "read_committed"
    _idle: list[Reading] = field(init=False, factory=list)
    _admin: Admin | None = field(init=False, default=None)
    """It has a connection of its own, so a request does not wait behind one for records to come."""
    _topic_ids: Mapping[str, str] | None = field(init=False, default=None)

    def offset_bounds(self) -> dict[Partition, OffsetBounds]:
        """The offsets that each partition of the topics holds; those of open transactions only if they are read.

        Raises:
            ConfigError: a topic does not exist.
            SourceUnavailable: the cluster does not answer.
        """
        with translate_errors(self.settings):
            topics = self._describe()
        ids = self._topic_ids = self._comparable(topics)
        partitions = [(name, number) for name, topic in topics.items() for number in topic.partitions]
        with translate_errors(self.settings, answered=True):
            bounds = list_bounds(self._open_admin(), partitions, self.isolation)
        return {each: OffsetBounds(*bounds[each], ids.get(each[0])) for each in partitions}

    def topic_ids(self) -> Mapping[str, str]:
        """Kafka's own ids of the topics, as last asked for; without those that are not to be compared.

        Raises: as `offset_bounds`.
        """
        if self._topic_ids is None:
            self.offset_bounds()
        return self._topic_ids or {}

    def check_same(self, read: Offsets) -> None:
        """Check that offsets are those of the topics that the cluster has now; it takes a millisecond or two.

        Raises:
            SourceChanged: a topic has been created again.
            SourceUnavailable: the cluster does not answer.
        """
        with translate_errors(self.settings):
            check_same(read, self._comparable(describe(self._open_admin(), self.settings.topics)))

    def runs(self, slices: list[Slice]) -> Iterator[Run]:
        """The records of these slices, each slice in its order.

        Offsets without a record (compacted ones, transaction markers) are skipped.

        Raises:
            SourceChanged: records of a slice have been deleted.
            SourceUnavailable: the cluster does not answer, or sends no records of the slices for 30 seconds.
        """
        with self._borrow() as reading:
            reading.begin(slices)
            deadline = monotonic() + _STANDSTILL_SECONDS
            while reading.open:
                number = len(reading.open)
                runs = reading.take()
                yield from runs
                # Records of other partitions, which may still be assigned, do not count.
                if runs or len(reading.open) < number:
                    deadline = monotonic() + _STANDSTILL_SECONDS
                elif monotonic() > deadline:
                    topic, partition = min(reading.open)
                    raise SourceUnavailable(
                        f"Kafka at {self.settings.servers} stopped answering about partition {partition} of topic"
                        f" {topic!r}; is the broker up?"
                    )

    def compacted_topics(self) -> list[str]:
        """The topics that are compacted, as far as the broker shows it.

        Raises:
            SourceUnavailable: the cluster does not answer.
        """
        with translate_errors(self.settings):
            return find_compacted(self._open_admin(), self.settings.topics)

    def _open_admin(self) -> Admin:
        if self._admin is None:
            self._admin = create_client(Admin, client_options(self.settings), self.settings)
        return self._admin

    def _describe(self) -> dict[str, Topic]:
        found = find(self._open_admin(), self.settings.topics)
        if missing := set(self.settings.topics) - found.keys():
            raise ConfigError(
                f"Kafka at {self.settings.servers} has no topic {min(missing)!r}; create it, or correct the"
                " source's topics"
            )
        return found

    def _comparable(self, topics: Mapping[str, Topic]) -> dict[str, str]:
        if self.settings.topic_ids == "ignore":
            return {}
        return {name: topic.id for name, topic in topics.items() if topic.id != NO_ID}

    @contextmanager
    def _borrow(self) -> Iterator[Reading]:
        """A consumer that commits nothing; errors are translated into Headwater's, and end a consumer."""
        try:
            reading = self._idle.pop()
        except IndexError:
            options = _consumer_options(self.settings) | {"isolation.level": self.isolation}
            reading = Reading(create_client(Consumer, options, self.settings))
        with ExitStack() as closing:
            closing.callback(reading.consumer.close)
            with translate_errors(self.settings):
                yield reading
            closing.pop_all()
        self._idle.append(reading)


def check_options(settings: KafkaSettings) -> None:
    """Check that the clients of a source take its options; nothing is asked of the cluster.

    Raises:
        ConfigError: they refuse one.
    """
    create_client(Admin, client_options(settings), settings)
    create_client(Consumer, _consumer_options(settings), settings).close()


def _consumer_options(settings: KafkaSettings) -> dict[str, Any]:
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
