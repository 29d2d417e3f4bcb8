"""Offset bounds of partitions, some of which have no leader for a moment; the client is a model."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, field
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from headwater.adapters.kafka import topics
from headwater.adapters.kafka.topics import list_bounds

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

PARTITIONS = [("orders", 0), ("orders", 1), ("lines", 0)]


@define
class Client:
    """A model of a client for administration.

    Args:
        errors: by partition, the codes of the errors of its next requests.
    """

    errors: dict[tuple[str, int], list[int]] = field(factory=dict)
    asked: list[list[tuple[str, int]]] = field(init=False, factory=list)
    refreshed: int = field(init=False, default=0)

    def logged_in(self) -> AbstractContextManager[None]:
        return nullcontext()

    def list_topics(self, *, timeout: float) -> None:
        assert timeout == 5
        self.refreshed += 1

    def list_offsets(
        self, specs: dict[TopicPartition, OffsetSpec], isolation_level: IsolationLevel, request_timeout: float
    ) -> dict[TopicPartition, Future[Any]]:
        assert (isolation_level, request_timeout) == (IsolationLevel.READ_COMMITTED, 5)
        self.asked.append([(each.topic, each.partition) for each in specs])
        return {each: self._answer((each.topic, each.partition), spec) for each, spec in specs.items()}

    def _answer(self, partition: tuple[str, int], spec: OffsetSpec) -> Future[Any]:
        answer, is_high = Future[Any](), spec._value == OffsetSpec.latest()._value
        if is_high and (left := self.errors.get(partition)):
            answer.set_exception(KafkaException(KafkaError(left.pop(0))))
        else:
            answer.set_result(SimpleNamespace(offset=10 * is_high + partition[1]))
        return answer


def bounds(client: Client, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], tuple[int, int]]:
    seconds = iter(range(100))
    monkeypatch.setattr(topics, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(topics, "sleep", lambda _seconds: None)
    return list_bounds(client, PARTITIONS, "read_committed")  # type: ignore[arg-type]


def test_all_partitions_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    assert bounds(client, monkeypatch) == {("orders", 0): (0, 10), ("orders", 1): (1, 11), ("lines", 0): (0, 10)}
    assert (client.asked, client.refreshed) == ([PARTITIONS] * 2, 0)


def test_partitions_without_a_leader_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    moving = [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError._UNKNOWN_PARTITION]
    client = Client({("orders", 1): moving, ("lines", 0): [KafkaError.LEADER_NOT_AVAILABLE]})
    assert bounds(client, monkeypatch) == {("orders", 0): (0, 10), ("orders", 1): (1, 11), ("lines", 0): (0, 10)}
    assert client.asked == [PARTITIONS] * 2 + [PARTITIONS[1:]] * 2 + [[("orders", 1)]] * 2
    assert client.refreshed == 2


@pytest.mark.parametrize(
    ("code", "requests"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, 1), (KafkaError.UNKNOWN_TOPIC_OR_PART, 6), (KafkaError._NOENT, 6)],
)
def test_other_errors_and_long_ones_are_raised(monkeypatch: pytest.MonkeyPatch, code: int, requests: int) -> None:
    client = Client({("orders", 1): [code] * 100})
    with pytest.raises(KafkaException) as caught:
        bounds(client, monkeypatch)
    assert (caught.value.args[0].code(), len(client.asked)) == (code, 2 * requests)
