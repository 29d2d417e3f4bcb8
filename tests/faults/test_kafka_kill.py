"""Ranks from a real broker: runs that are killed, a broker that goes down, and the same ranks in the end."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from attrs import frozen
from confluent_kafka import Producer

from tests.kafka_reading import committed as records_of

from .broken import in_processes
from .contracts import lines, ranks, records
from .deployments import committed, write
from .processes import headwater, running

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from subprocess import CompletedProcess

    from headwater.testing.kafka_broker import KafkaBroker

    from .contracts import Row

pytestmark = pytest.mark.kafka

_PARTITIONS = 2


@frozen
class Topic:
    """A topic of contracts, each contract's records in one partition, and so in order."""

    broker: KafkaBroker
    name: str

    def produce(self, *days: int) -> None:
        for day in days:
            for partition in range(_PARTITIONS):
                rows = [row for row in records(day) if row["contract"] % _PARTITIONS == partition]
                self.broker.produce(self.name, lines(rows), partition)


@pytest.fixture
def topic(kafka: KafkaBroker) -> Topic:
    topic = Topic(kafka, f"contracts-{uuid4().hex[:8]}")
    kafka.create_topic(topic.name, _PARTITIONS)
    return topic


def deployment(folder: Path, topic: Topic, backend: str) -> Path:
    """A configuration whose epochs bring 400 records: they end where no day ends."""
    source = (
        f'kind = "kafka"\nservers = "{topic.broker.servers}"\ntopics = ["{topic.name}"]\nmax_rows_per_epoch = 400\n'
    )
    write(folder / "deploy.toml", source, backend)
    return folder / "deploy.toml"


def run_until_idle(config: Path) -> CompletedProcess[str]:
    return headwater("run", str(config), "--until-idle", "--show", "ranked", "--format", "jsonl")


def check_ranks(done: CompletedProcess[str], *, days: int) -> None:
    check_shown(done, (row for day in range(days) for row in records(day)))


def check_shown(done: CompletedProcess[str], rows: Iterable[Row]) -> None:
    assert done.returncode == 0, done.stderr
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(shown, key=lambda row: row["contract"]) == ranks(rows)


@pytest.mark.faults("epochs that end in the middle of a topic's partitions", backend="memory")
def test_memory_ranks_what_a_topic_brings(tmp_path: Path, topic: Topic) -> None:
    topic.produce(*range(6))
    done = run_until_idle(deployment(tmp_path, topic, "memory"))
    check_ranks(done, days=6)
    assert done.stderr.count(" epoch ") == 5


@in_processes
@pytest.mark.faults("kill -9 of a run that reads a topic, then a broker that is down")
def test_killed_runs_and_a_broker_that_was_down(backend: str, tmp_path: Path, topic: Topic) -> None:
    config = deployment(tmp_path, topic, backend)
    topic.produce(0, 1, 2)
    with running(config) as run:  # after the first epoch, in the middle of another
        run.kill_when(lambda: committed(config, "ranked") > max(committed(config, "cells"), 0))
    topic.produce(3)
    topic.broker.stop()
    try:
        down = run_until_idle(config)
    finally:
        topic.broker.start()
    assert (down.returncode, down.stdout) == (1, "")
    told = down.stderr.splitlines()[-1]
    assert told.startswith(f"headwater: {config}:")
    assert f"sources.contracts (pipeline ranked): Kafka at {topic.broker.servers} cannot be read just now" in told
    assert told.endswith("is the broker up, and the address right?")
    assert "Traceback" not in down.stderr

    topic.produce(4, 5)
    done = run_until_idle(config)
    check_ranks(done, days=6)
    assert "KafkaDataConsumer" not in done.stderr  # Spark's warning at every record would bury the progress


@in_processes
@pytest.mark.faults("kill -9 in the middle of an epoch, whose topic is compacted before the next run")
def test_a_topic_that_is_compacted_before_an_epoch_is_repeated(
    backend: str, tmp_path: Path, kafka: KafkaBroker
) -> None:
    topic = Topic(kafka, f"contracts-{uuid4().hex[:8]}")
    at_once = {"segment_ms": "100", "min_cleanable_dirty_ratio": "0.001", "max_compaction_lag_ms": "1"}
    kafka.create_topic(topic.name, cleanup_policy="compact", **at_once)
    config = deployment(tmp_path, topic, backend)
    first, second, third = (contracts_of(day) for day in range(3))
    produce_by_key(topic, first)
    assert run_until_idle(config).returncode == 0
    produce_by_key(topic, second)
    with running(config) as run:
        run.kill_when(lambda: committed(config, "ranked") > committed(config, "cells"))

    deleted = list(second)[:50]
    produce_by_key(topic, dict.fromkeys(deleted))
    time.sleep(0.2)
    produce_by_key(topic, third)  # into a new segment: the others are compacted
    await_records(topic, len(first | second) + len(third))
    done = run_until_idle(config)
    kept = {contract: row for contract, row in (first | second).items() if contract not in deleted} | third
    check_shown(done, kept.values())


def contracts_of(day: int) -> dict[int, Row]:
    """The newest record of each contract of a day, none of which is one of another day."""
    return {row["contract"]: row for row in records(day) if row["contract"] // 300 == day}


def produce_by_key(topic: Topic, rows: Mapping[int, Row | None]) -> None:
    """Write a record for each contract; None is a tombstone."""
    producer = Producer({"bootstrap.servers": topic.broker.servers})
    for contract, row in rows.items():
        producer.produce(topic.name, json.dumps(row) if row else None, str(contract))
    assert not producer.flush(20)


def await_records(topic: Topic, most: int) -> None:
    """Wait until a topic is compacted to so many records."""
    deadline = time.monotonic() + 60
    while len(records_of(topic.broker, topic.name)) > most:
        assert time.monotonic() < deadline
        time.sleep(0.2)
