"""Compacted topics: each service says what it needs of them, and the source asks the broker once."""

from __future__ import annotations

import json
import logging
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException

from headwater import Headwater
from headwater.adapters.kafka.clients import Admin
from headwater.domain.errors import ConfigError

if TYPE_CHECKING:
    from headwater.testing.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka

DEPLOYMENT = """
[run]
retry_wait = "10ms"
[backend]
name = "memory"
[sources.cars]
kind = "kafka"
servers = "{servers}"
topics = ["{topic}"]
schema = "id bigint, colour string, at timestamp"
event_time = "at"
{setting}
[pipelines.p]
{pipeline}
"""
RETRACTION = (
    'service = "retraction"\nsource = "cars"\ngroup = ["colour"]\nmeasures = { n = "count(*)" }\nupdated_at = "at"'
)
CUMULATE = (
    'service = "cumulate"\nsource = "cars"\nstep = "1m"\nsize = "1d"\ndimensions = [["colour"]]\n'
    'measures = { n = "count(*)" }'
)
RANKING = 'service = "ranking"\nsource = "cars"\ngroup = ["colour"]\nid = ["id"]\norder_by = "at"'
SEGMENT = f'{RANKING}\nsegment = "1d"\nrepeats = "same-segment"'
WIDE = 'service = "wide_table"\nkey = ["id"]\n[pipelines.p.topics.cars]\nsource = "cars"\ncolumns = ["colour"]\nsequence = ["at"]'


def topic_with(kafka: KafkaBroker, policy: str) -> str:
    name = f"cars-{uuid4().hex[:8]}"
    kafka.create_topic(name, cleanup_policy=policy)
    kafka.produce(name, [json.dumps({"id": 1, "colour": "red", "at": "2024-03-01T09:00:00Z"})], key="1")
    return name


def run(kafka: KafkaBroker, topic: str, pipeline: str, setting: str = "", *, times: int = 1) -> None:
    text = DEPLOYMENT.format(servers=kafka.servers, topic=topic, pipeline=pipeline, setting=setting)
    with Headwater.from_text(text) as headwater:
        for _ in range(times):
            headwater.run(until_idle=True)


@pytest.mark.parametrize("pipeline", [RETRACTION, CUMULATE, SEGMENT], ids=["retraction", "cumulate", "ranking"])
def test_a_service_that_needs_each_record_refuses_a_compacted_topic(kafka: KafkaBroker, pipeline: str) -> None:
    topic = topic_with(kafka, "compact,delete")
    with pytest.raises(
        ConfigError, match=rf"topic '{topic}' is compacted .*needs each record.*compaction = \"ignore\""
    ):
        run(kafka, topic, pipeline)
    run(kafka, topic, pipeline, 'compaction = "ignore"')
    run(kafka, topic_with(kafka, "delete"), pipeline)


def test_a_ranking_warns_once(kafka: KafkaBroker, caplog: pytest.LogCaptureFixture) -> None:
    topic = topic_with(kafka, "compact")
    with caplog.at_level(logging.WARNING):
        run(kafka, topic, RANKING, times=2)
        (warning,) = caplog.messages
        assert warning.startswith(f"topic '{topic}' is compacted")
        caplog.clear()
        run(kafka, topic, RANKING, 'compaction = "ignore"')
        run(kafka, topic_with(kafka, "delete"), RANKING)
        run(kafka, topic, WIDE)
    assert caplog.messages == []


class Failing(Admin):
    """A client whose first question about settings fails."""

    error: ClassVar[int]
    asked: ClassVar[int] = 0

    def describe_configs(self, topics: list[Any], **more: Any) -> dict[Any, Future[Any]]:
        type(self).asked += 1
        if self.asked > 1:
            return dict(super().describe_configs(topics, **more))
        failed: Future[Any] = Future()
        failed.set_exception(KafkaException(KafkaError(self.error)))
        return dict.fromkeys(topics, failed)


def failing(monkeypatch: pytest.MonkeyPatch, error: int) -> type[Failing]:
    made = type("Failing", (Failing,), {"error": error})
    monkeypatch.setattr("headwater.adapters.kafka.broker.Admin", made)
    return made


@pytest.mark.parametrize("error", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNSUPPORTED_VERSION])
def test_a_broker_that_shows_no_settings_is_taken_for_one_without_compaction(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    client = failing(monkeypatch, error)
    run(kafka, topic_with(kafka, "compact"), RETRACTION, times=2)
    assert client.asked == 1


@pytest.mark.parametrize("error", [KafkaError._TIMED_OUT, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_a_broker_that_does_not_answer_is_asked_again(
    kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    client = failing(monkeypatch, error)
    with pytest.raises(ConfigError, match="is compacted"):
        run(kafka, topic_with(kafka, "compact"), RETRACTION)
    assert client.asked == 2
