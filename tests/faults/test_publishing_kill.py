"""`kill -9` of a run that publishes: a reader of the topic has the ranks, and gets each change once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.kafka_reading import committed as told
from tests.kafka_reading import replica

from .broken import in_processes
from .contracts import drop, ranks, records
from .deployments import committed, write
from .processes import headwater, running

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.testing.kafka_broker import KafkaBroker

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.faults("kill -9 between the publication and the topic it is published to"),
]


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    name = f"ranks-{uuid4().hex[:8]}"
    kafka.create_topic(name, partitions=2)
    return name


def deployment(folder: Path, kafka: KafkaBroker, topic: str, backend: str) -> Path:
    config = folder / "deploy.toml"
    (folder / "in").mkdir()
    write(config, 'kind = "files"\npath = "in"\n', backend)
    publish = f'[pipelines.ranked.publish]\nservers = "{kafka.servers}"\ntopic = "{topic}"\n'
    config.write_text(config.read_text() + publish)
    return config


def epochs_told(kafka: KafkaBroker, topic: str) -> int:
    lines = [found.value for found in told(kafka, f"{topic}.epochs", keyed=False)]
    return max(line["epoch"] for line in lines)


@in_processes
def test_killed_between_publication_and_topic(backend: str, tmp_path: Path, kafka: KafkaBroker, topic: str) -> None:
    config = deployment(tmp_path, kafka, topic, backend)
    drop(tmp_path / "in", 0, 1, 2)
    with running(config) as run:  # between any two instructions, a moment after an epoch
        run.wait_until(lambda: run.epochs == 2)
        run.kill()
    drop(tmp_path / "in", 3, 4)
    before = committed(config, "cells")
    with running(config) as run:  # the ledger has the epoch, the topic does not
        run.kill_when(lambda: committed(config, "cells") > before)
    assert epochs_told(kafka, topic) < committed(config, "cells")

    drop(tmp_path / "in", 5)
    done = headwater("run", str(config), "--until-idle", "--show", "ranked", "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    expected = ranks(row for file in range(6) for row in records(file))
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    followed = replica(told(kafka, topic))
    assert sorted(shown, key=lambda row: row["contract"]) == expected
    assert sorted(followed, key=lambda row: row["contract"]) == expected
    assert epochs_told(kafka, topic) == 5
    assert "publish" in done.stderr
