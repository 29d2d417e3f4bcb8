"""A consumer that goes on where it ended; the client is a model that cuts its batches anywhere."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from attrs import define, field
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.kafka import reading as module
from headwater.adapters.kafka.plan import Partition, Slice
from headwater.adapters.kafka.reading import Reading

TOPIC = "orders"
PARTITIONS = [(TOPIC, 0), (TOPIC, 1)]


@define
class Client:
    """A model of a consumer of two partitions, whose logs grow and have gaps, as markers and compaction leave them."""

    random: Random
    gaps: float = 0.2
    high: dict[Partition, int] = field(factory=lambda: dict.fromkeys(PARTITIONS, 0))
    logs: dict[Partition, list[int]] = field(factory=lambda: {each: [] for each in PARTITIONS})
    fetched: list[tuple[Partition, int]] = field(factory=list)
    _at: dict[Partition, int] = field(factory=dict)
    _told_end: dict[Partition, int] = field(factory=dict)
    _out_of_range: set[Partition] = field(factory=set)
    _failed: set[Partition] = field(factory=set)

    def grow(self, count: int) -> None:
        for partition, log in self.logs.items():
            first = self.high[partition]
            self.high[partition] += self.random.randint(0, count)
            log += [at for at in range(first, self.high[partition]) if self.random.random() >= self.gaps]

    def remake(self) -> None:
        """Delete the topic and restore it: requests that were under way found none of their offsets."""
        self._out_of_range |= self._at.keys()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            assert (each.topic, each.partition) not in self._at
            self._at[each.topic, each.partition] = each.offset
            self._told_end.pop((each.topic, each.partition), None)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            del self._at[each.topic, each.partition]
            self._out_of_range.discard((each.topic, each.partition))
            self._failed.discard((each.topic, each.partition))

    def consume(self, most: int, _timeout: float) -> list[Message]:
        found = list[Message]()
        while len(found) < most and self.random.random() < 0.9:
            fetching = self._at.keys() - self._failed
            waiting = [each for each in sorted(fetching) if self._told_end.get(each) != self.high[each]]
            if not waiting:
                break
            found += self._fetched(self.random.choice(waiting), most - len(found))
        return found

    def _fetched(self, partition: Partition, most: int) -> list[Message]:
        topic, number = partition
        if partition in self._out_of_range and self.random.random() < 0.5:
            self._failed.add(partition)
            return [Message(topic, number, self._at[partition], error=KafkaError(KafkaError._AUTO_OFFSET_RESET))]
        behind = [at for at in self.logs[partition] if at >= self._at[partition]]
        some = behind[: self.random.randint(0, most)]
        self.fetched += [(partition, at) for at in some]
        if some:
            self._at[partition] = some[-1] + 1
            return [Message(topic, number, at, value=b"%d" % at) for at in some]
        if behind:
            return []
        self._at[partition] = self._told_end[partition] = self.high[partition]
        end = KafkaError(KafkaError._PARTITION_EOF)
        return [Message(topic, number, self.high[partition], error=end)]


def read(reading: Reading, slices: list[Slice]) -> dict[Partition, list[int]]:
    """The offsets of the records of slices, checked against their values."""
    found: dict[Partition, list[int]] = {(each.topic, each.partition): [] for each in slices}
    reading.begin(slices)
    for _ in range(10_000):
        if not reading.open:
            return found
        for run in reading.take():
            offsets = run.offsets.to_list()
            assert run.values.to_pylist() == [b"%d" % each for each in offsets]
            found[run.slice.topic, run.slice.partition] += offsets
    raise AssertionError(f"these slices do not end: {reading.open}")


@given(
    st.randoms(use_true_random=False),
    st.sampled_from([0, 6, 10_000]),
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=8),
)
def test_each_slice_has_its_records_whatever_was_read_before(
    random: Any, most_kept: int, turns: list[tuple[bool, bool]]
) -> None:
    client = Client(random)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_KEPT", most_kept)
        reading, ends = Reading(client), dict.fromkeys(PARTITIONS, 0)  # type: ignore[arg-type]
        for goes_on, remade in [(True, False), *turns]:
            client.grow(30)
            if remade:
                client.remake()
            starts = ends if goes_on else {each: random.randint(0, high) for each, high in client.high.items()}
            ends = {each: random.randint(start, client.high[each]) for each, start in starts.items()}
            slices = [Slice(0, *each, start, ends[each]) for each, start in starts.items() if start < ends[each]]
            right = {
                (each.topic, each.partition): [
                    at for at in client.logs[each.topic, each.partition] if each.start <= at < each.end
                ]
                for each in slices
            }
            assert read(reading, slices) == right


@given(st.randoms(use_true_random=False))
def test_no_record_is_fetched_twice_while_slices_follow_one_another(random: Any) -> None:
    client = Client(random)
    client.grow(200)
    reading, at = Reading(client), dict.fromkeys(PARTITIONS, 0)  # type: ignore[arg-type]
    while at != client.high:
        ends = {each: min(start + 10, client.high[each]) for each, start in at.items()}
        read(reading, [Slice(0, *each, start, ends[each]) for each, start in at.items() if start < ends[each]])
        at = ends
    assert sorted(client.fetched) == [(each, offset) for each in PARTITIONS for offset in client.logs[each]]


def test_the_end_of_a_partition_that_has_grown_since_ends_no_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Message(TOPIC, 0, at, value=b"%d" % at) for at in range(6)]
    end = Message(TOPIC, 0, 5, error=KafkaError(KafkaError._PARTITION_EOF))
    calls = iter([records[:1], [*records[1:5], end], [], records[5:], []])
    monkeypatch.setattr(Client, "consume", lambda *_: next(calls))
    reading = Reading(Client(Random(1)))  # type: ignore[arg-type]
    assert read(reading, [Slice(0, TOPIC, 0, 0, 3)]) == {(TOPIC, 0): [0, 1, 2]}
    assert read(reading, [Slice(0, TOPIC, 0, 3, 6)]) == {(TOPIC, 0): [3, 4, 5]}


def test_an_offset_that_is_gone_is_an_error_once_its_partition_was_assigned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone = Message(TOPIC, 0, 3, error=KafkaError(KafkaError._AUTO_OFFSET_RESET))
    calls = iter([[Message(TOPIC, 0, at, value=b"%d" % at) for at in range(3)], [], [gone], [], [gone], []])
    monkeypatch.setattr(Client, "consume", lambda *_: next(calls))
    reading = Reading(Client(Random(1)))  # type: ignore[arg-type]
    read(reading, [Slice(0, TOPIC, 0, 0, 3)])
    reading.begin([Slice(0, TOPIC, 0, 3, 6)])
    assert reading.take() == []
    with pytest.raises(KafkaException):
        reading.take()


def test_an_error_of_the_client_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Message(TOPIC, 0, error=KafkaError(KafkaError.OFFSET_OUT_OF_RANGE))
    monkeypatch.setattr(Client, "consume", lambda *_: [gone])
    reading = Reading(Client(Random(1)))  # type: ignore[arg-type]
    reading.begin([Slice(0, TOPIC, 0, 0, 10)])
    with pytest.raises(KafkaException):
        reading.take()


def test_an_error_of_the_group_is_not_one_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Message(error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    records = [Message(TOPIC, 0, at, value=b"%d" % at) for at in range(3)]
    calls = iter([[refused], [], [records[0]], [records[1], refused, records[2]]])
    monkeypatch.setattr(Client, "consume", lambda *_: next(calls))
    reading = Reading(Client(Random(1)))  # type: ignore[arg-type]
    assert read(reading, [Slice(0, TOPIC, 0, 0, 3)]) == {(TOPIC, 0): [0, 1, 2]}
