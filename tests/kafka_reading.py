"""Reads the completed transactions of a topic, and applies their records."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from confluent_kafka import Consumer

    from headwater.testing.kafka_broker import KafkaBroker

Row = dict[str, Any]


@frozen
class Found:
    """A record as the topic has it; a value of None is a tombstone."""

    key: Any
    value: Row | None


def committed(broker: KafkaBroker, topic: str, *, keyed: bool = True) -> list[Found]:
    """All records of a topic, partition by partition, each in its order; without their keys where these are no JSON."""
    from confluent_kafka import Consumer  # the base environment, in which features run too, lacks it

    consumer = Consumer(
        {
            "bootstrap.servers": broker.servers,
            "group.id": "a-reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        numbers = consumer.list_topics(topic).topics[topic].partitions
        return [found for number in sorted(numbers) for found in _read(consumer, topic, number, keyed=keyed)]
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str, number: int, *, keyed: bool) -> Iterator[Found]:
    from confluent_kafka import KafkaError, TopicPartition

    consumer.assign([TopicPartition(topic, number, 0)])
    while (message := consumer.poll(20)) is not None:  # one of a tombstone is as good as false
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            return
        value = message.value()
        yield Found(json.loads(message.key()) if keyed else None, None if value is None else json.loads(value))
    raise AssertionError(f"no end of {topic}/{number} within 20 s")


def delete(broker: KafkaBroker, topic: str) -> None:
    """Delete a topic."""
    admin = broker.admin()
    admin.delete_topics([topic])[topic].result()
    while topic in admin.list_topics().topics:
        time.sleep(0.1)


def remake(broker: KafkaBroker, topic: str, partitions: int = 1) -> None:
    """Delete a topic, and create it again."""
    delete(broker, topic)
    broker.create_topic(topic, partitions)
    admin = broker.admin()
    while topic not in admin.list_topics().topics:
        time.sleep(0.1)


def replica(records: Iterable[Found], row_kind: str = "row_kind") -> list[Row]:
    """The rows that a reader of format json keeps, by key; each change must fit what was there before."""
    rows: dict[str, Row] = {}
    before: Row | None = None
    for record in records:
        key, row = json.dumps(record.key), dict(record.value or {})
        match row.pop(row_kind):
            case "+I":
                assert key not in rows, f"{row} came twice"
                rows[key] = row
            case "-U":
                assert rows[key] == row
                before = row
            case "+U":
                assert before is not None
                assert rows[key] == before != row
                rows[key], before = row, None
            case "-D":
                assert rows.pop(key) == row
    return [rows[key] for key in sorted(rows)]
