"""Reads slices with one consumer, which goes on where it ended."""

from __future__ import annotations

import gc
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any

from attrs import define, field
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from .errors import GONE
from .plan import Partition, Slice
from .runs import Run

_POLL_SECONDS = 0.1
_AT_ONCE = 2_000
"""Messages in one call of the client, which holds up Python's other threads while it makes them."""
_MESSAGE_BYTES = 200
"""What a message takes in memory besides its record, about."""
_MOST_KEPT = 2**24
"""Bytes in memory of what is kept for the next slices."""


@define
class _Kept:
    """A partition that is still assigned behind its slice.

    Args:
        start: the end of the slice.
        messages: what was received from there on.
        size: their bytes in memory, about.
    """

    start: int
    messages: list[Message] = field(factory=list)
    size: int = 0

    def add(self, messages: list[Message]) -> None:
        """Add what was received."""
        self.messages += messages
        self.size += sum(map(len, messages)) + _MESSAGE_BYTES * len(messages)


@define(eq=False)
class Reading:
    """Reads slices of partitions, one call after the other.

    The client fetches in advance. A partition stays assigned behind its slice, and what was received from there on is
    kept: the next slice most likely begins there. If each slice were fetched again, fetching would take half as long
    again, and a slice of new records would wait for the request that still waits for records.
    """

    consumer: Consumer
    open: dict[Partition, Slice] = field(init=False, factory=dict)
    """The slices that have not been read to their end."""
    _kept: dict[Partition, _Kept] = field(init=False, factory=dict)
    _resumed: set[Partition] = field(init=False, factory=set)
    """Those of the slices whose partitions are still assigned from an earlier slice."""
    _received: list[Message] = field(init=False, factory=list)

    def begin(self, slices: list[Slice]) -> None:
        """Begin to read slices, of a partition each."""
        self.open, self._received = {(each.topic, each.partition): each for each in slices}, []
        self._resumed = set()
        for partition, slice_ in self.open.items():
            kept = self._kept.pop(partition, None)
            if kept and kept.start == slice_.start:
                self._received += kept.messages
                self._resumed.add(partition)
            else:
                if kept:
                    self._unassign(partition)
                self._assign(partition, slice_.start)

    def take(self) -> list[Run]:
        """Some records of the slices; empty if none came for a moment.

        Raises:
            KafkaException: the cluster does not answer, or records are gone.
        """
        received, self._received = self._received, []
        with _without_collections():
            # A single call for many messages would wait for all of them, or for all of its time.
            if received or (received := self.consumer.consume(1, _POLL_SECONDS)):
                return self._sorted(received + self.consumer.consume(_AT_ONCE, 0))
        return []

    def _sorted(self, messages: list[Message]) -> list[Run]:
        """The records of messages that are in a slice.

        An error without a topic is of the consumer group, which is not used: the client looks for its coordinator
        nevertheless, and a user may have no right to the group.

        Raises:
            KafkaException: a message tells an error that assigning its partition again does not mend.
        """
        end = KafkaError._PARTITION_EOF
        failed = [each for each in messages if (error := each.error()) and error.code() != end]
        for each in failed:
            if each.topic() is not None:
                self._assign_again(each)
        if failed:
            messages = [each for each in messages if each not in failed]
        runs = [self._of_partition(partition, some) for partition, some in _by_partition(messages)]
        return [run for run in runs if run and len(run.values)]

    def _assign_again(self, failed: Message) -> None:
        """Assign the partition of an error again if it is still assigned from an earlier slice.

        Its topic may have been deleted and restored since: the client asked for an offset before the new topic had it.

        Raises:
            KafkaException: the partition was assigned for its slice, or the error is another one.
        """
        error: Any = failed.error()
        partition: Any = (failed.topic(), failed.partition())
        offset: Any = failed.offset()
        if error.code() in GONE and partition in self._kept:
            del self._kept[partition]
            self._unassign(partition)
        elif error.code() in GONE and partition in self._resumed:
            self._resumed.remove(partition)
            self._unassign(partition)
            self._assign(partition, offset)
        else:
            raise KafkaException(error)

    def _of_partition(self, partition: Partition, messages: list[Message]) -> Run | None:
        """The records that are in the slice of a partition, if it has one; what is behind the slice is kept."""
        if (slice_ := self.open.get(partition)) is None:
            self._keep(partition, messages)
            return None
        offsets = _offsets(messages)  # the end of a partition comes as a message too, with the next record's offset
        within = bisect_left(offsets, slice_.end)
        if within < len(messages) or (offsets[-1] == slice_.end - 1 and not messages[-1].error()):
            del self.open[partition]
            self._kept[partition] = _Kept(slice_.end)
            self._keep(partition, messages[within:])
        records = messages[:within]
        if any(map(Message.error, records)):
            records = [message for message in records if not message.error()]
            offsets = _offsets(records)
        return Run.of(slice_, offsets[: len(records)], list(map(Message.value, records)))

    def _keep(self, partition: Partition, messages: list[Message]) -> None:
        """Keep messages behind a slice; if they have become too many, they will be fetched again."""
        if (kept := self._kept.get(partition)) is None:
            return
        kept.add(messages)
        if sum(each.size for each in self._kept.values()) > _MOST_KEPT:
            del self._kept[partition]
            self._unassign(partition)

    def _assign(self, partition: Partition, start: int) -> None:
        self.consumer.incremental_assign([TopicPartition(*partition, start)])

    def _unassign(self, partition: Partition) -> None:
        """Fetch no more of a partition; a paused one would take a second to resume."""
        self.consumer.incremental_unassign([TopicPartition(*partition)])


def _by_partition(messages: list[Message]) -> Iterable[tuple[Partition, list[Message]]]:
    """The messages of each partition that follow one another."""
    topics, numbers = (list[Any](map(of, messages)) for of in (Message.topic, Message.partition))
    if len(set(topics)) == len(set(numbers)) == 1:  # as nearly always: the client fetches many of one partition
        return [((topics[0], numbers[0]), messages)]
    partitions = zip(topics, numbers, strict=True)
    grouped = groupby(zip(partitions, messages, strict=True), itemgetter(0))
    return [(partition, [message for _, message in pairs]) for partition, pairs in grouped]


def _offsets(messages: list[Message]) -> list[int]:
    return [offset for offset in map(Message.offset, messages) if offset is not None]


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
