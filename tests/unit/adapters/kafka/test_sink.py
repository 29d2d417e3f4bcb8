"""How a transaction of a sink ends after an error."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field
from confluent_kafka import KafkaError, KafkaException

from headwater.adapters.kafka.sink import _transaction

FATAL = KafkaError(KafkaError._FATAL)
FENCED = KafkaError(KafkaError._FENCED, "a newer producer has the transactional id")


@define(eq=False)
class Producer:
    """A producer that only counts; `refused` is the error of an abort."""

    refused: KafkaError | None = None
    calls: list[str] = field(factory=list)

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def commit_transaction(self, seconds: float) -> None:  # noqa: ARG002 - as the client has it
        self.calls.append("commit")

    def abort_transaction(self, seconds: float) -> None:  # noqa: ARG002 - as the client has it
        self.calls.append("abort")
        if self.refused:
            raise KafkaException(self.refused)


def send(producer: Any, error: BaseException) -> None:
    with _transaction(producer):
        raise error


@pytest.mark.parametrize(
    ("error", "refused", "raised"),
    [
        (KafkaException(FATAL), FENCED, "a newer producer"),
        (KafkaException(FATAL), None, "FATAL"),
        (KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT, "timed out")), FENCED, "timed out"),
        (KeyboardInterrupt("Ctrl-C"), FENCED, "Ctrl-C"),
    ],
)
def test_it_is_aborted_once(error: BaseException, refused: KafkaError | None, raised: str) -> None:
    """The abort says what a fatal error means; after any other one, that one is raised."""
    producer = Producer(refused)
    with pytest.raises(type(error), match=raised):
        send(producer, error)
    assert producer.calls == ["begin", "abort"]
