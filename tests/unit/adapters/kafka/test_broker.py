"""Reading from a cluster that stops answering about some partitions; the client is a model, and so is time."""

from __future__ import annotations

import pytest
from attrs import define, field
from confluent_kafka import KafkaError, Message, TopicPartition

from headwater.adapters.kafka import broker
from headwater.adapters.kafka.broker import TopicReader
from headwater.adapters.kafka.plan import Slice
from headwater.adapters.kafka.reading import Reading
from headwater.adapters.kafka.settings import KafkaSettings
from headwater.domain.errors import SourceUnavailable


@define
class Client:
    """A model of a consumer that is assigned several partitions.

    Args:
        every: by partition, after how many seconds it gets a record each time; the others are silent.
        ends: whether the end of partition 0 comes beside each record.
    """

    every: dict[int, int]
    ends: bool = False
    seconds: float = 0
    _next: dict[int, int] = field(factory=dict)

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._next |= {each.partition: each.offset for each in partitions}

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            del self._next[each.partition]

    def close(self) -> None:
        pass

    def consume(self, _most: int, timeout: float) -> list[Message]:
        if timeout == 0:
            return []
        self.seconds += 1
        due = [each for each, after in self.every.items() if self.seconds % after == 0]
        found = [self._record(each) for each in due if each in self._next]
        if found and self.ends:
            found.append(Message("orders", 0, 0, error=KafkaError(KafkaError._PARTITION_EOF)))
        return found

    def _record(self, partition: int) -> Message:
        self._next[partition] += 1
        return Message("orders", partition, self._next[partition] - 1, value=b"{}")


def read(client: Client, monkeypatch: pytest.MonkeyPatch, slices: list[Slice], pause: int = 0) -> int:
    """Read slices after partition 1, which stays assigned; return how many records came.

    Args:
        client: the model of the client.
        monkeypatch: replaces the clock.
        slices: what to read.
        pause: the seconds that whoever reads takes for each run.
    """
    monkeypatch.setattr(broker, "monotonic", lambda: client.seconds)
    reader = TopicReader(KafkaSettings("broker:9092", ("orders",)))
    reader._idle.append(Reading(client))  # type: ignore[arg-type]
    list(reader.runs([Slice(0, "orders", 1, 0, 1)]))
    client.seconds, count = 0, 0
    for run in reader.runs(slices):
        client.seconds += pause
        count += len(run.values)
    return count


@pytest.mark.parametrize("ends", [False, True])
def test_records_of_other_partitions_do_not_hide_a_silent_one(monkeypatch: pytest.MonkeyPatch, *, ends: bool) -> None:
    client = Client({1: 10}, ends)
    with pytest.raises(SourceUnavailable, match="stopped answering about partition 0 of topic 'orders'; is the broker"):
        read(client, monkeypatch, [Slice(0, "orders", 0, 0, 5)])
    assert client.seconds == 31


def test_a_slow_partition_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client({0: 20, 1: 30})
    assert read(client, monkeypatch, [Slice(0, "orders", 0, 0, 5), Slice(1, "orders", 1, 1, 8)]) == 12


def test_the_time_that_a_reader_takes_for_records_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client({0: 7, 1: 20})
    assert read(client, monkeypatch, [Slice(0, "orders", 0, 0, 5)], pause=40) == 5
