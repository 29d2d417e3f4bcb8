"""Kafka topics as a stream, on every engine, from a real broker."""

from __future__ import annotations

import gc
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.cimpl import NewPartitions

from headwater import Headwater
from headwater.adapters.kafka import topics as kafka_topics
from headwater.adapters.kafka.clients import Admin
from headwater.adapters.kafka.settings import KafkaSettings, java_options
from headwater.adapters.kafka.topics import list_bounds
from headwater.domain.epoch.batch import lane
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.errors import ConfigError, SourceChanged, SourceUnavailable
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing import kafka_broker as broker_module
from headwater.testing.clock import NOW
from headwater.testing.kafka_broker import kafka_broker
from tests.kafka_reading import delete, remake

from .conftest import Engine, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.domain.ports import StreamSource
    from headwater.testing.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka

SPEC = RecordSpec(Schema.parse("id bigint, name string"))


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    name = f"topic-{uuid4().hex[:8]}"
    kafka.create_topic(name, partitions=2)
    return name


def source_of(engine: Engine, kafka: KafkaBroker, *topics: str, limit: int = 100) -> StreamSource:
    return engine.kafka(KafkaSettings(kafka.servers, topics, limit), SPEC)


def planned(source: StreamSource, after: Any = None) -> OffsetRange:
    found = source.plan(after, NOW)
    assert found is not None
    return OffsetRange(*json.loads(json.dumps([found.after, found.until])))


def await_markers(source: StreamSource, topic: str, until: int, partition: int = 0) -> None:
    """Wait for the broker to let readers pass to an offset: a commit returns before its marker is written."""
    deadline = time.monotonic() + 20
    while (source.end() or {})[topic][str(partition)] < until:
        assert time.monotonic() < deadline, f"{topic}/{partition} is not at {until} after 20 s: {source.end()}"
        time.sleep(0.05)


def messages(*numbers: int) -> list[str]:
    return [json.dumps({"id": number}) for number in numbers]


def ids(source: StreamSource, offsets: OffsetRange) -> list[int]:
    return [row["id"] for row in rows(source.read(offsets))]


def test_reads_records_as_declared(engine: Engine, kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, [b'{"id": 1, "name": "a"}', b"{oops", None, b'"\xff"'], partition=1)
    source = source_of(engine, kafka, topic)
    first, broken, tombstone, bytes_ = rows(source.read(planned(source)))
    assert first == {
        "id": 1,
        "name": "a",
        "_row_kind": "+I",
        "_position": 0,
        "_origin": f"{topic}/1@0",
        "_raw": '{"id": 1, "name": "a"}',
        "_bytes": None,
        "_error": None,
    }
    assert (broken["_raw"], broken["id"], broken["_row_kind"]) == ("{oops", None, None)
    assert broken["_error"].startswith("not JSON: ")
    assert (tombstone["_raw"], tombstone["_error"]) == (None, "no value: a tombstone says nothing in plain json")
    assert (bytes_["_raw"], bytes_["_bytes"]) == ('"\\xff"', b'"\xff"')


def test_a_partition_is_a_lane_in_which_records_keep_their_order(
    engine: Engine, kafka: KafkaBroker, topic: str
) -> None:
    kafka.produce(topic, messages(1, 2, 3), partition=0)
    kafka.produce(topic, messages(4, 5), partition=1)
    source = source_of(engine, kafka, topic)
    found = rows(source.read(planned(source)).with_columns(lane().alias("lane")))
    assert source.lanes
    assert [(row["lane"], row["id"]) for row in found] == [
        *((f"{topic}/0", number) for number in (1, 2, 3)),
        *((f"{topic}/1", number) for number in (4, 5)),
    ]


def test_reads_epoch_by_epoch_within_the_limit(engine: Engine, kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, messages(*range(10)), partition=0)
    kafka.produce(topic, messages(100, 101), partition=1)
    source = source_of(engine, kafka, topic, limit=6)
    first = planned(source)
    second = planned(source, first.until)
    assert ids(source, first) == [0, 1, 2, 3, 100, 101]
    assert ids(source, second) == [4, 5, 6, 7, 8, 9]
    assert source.plan(second.until, NOW) is None
    assert (source.lag(None), source.lag(first.until), source.lag(second.until)) == (
        "12 records",
        "6 records",
        "0 records",
    )


def test_an_epoch_has_about_as_many_bytes_as_allowed(
    engine: Engine, kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of records is learned from a few of them before the first epoch, and from those that were read."""
    monkeypatch.setattr("headwater.adapters.kafka.source._FEW", 4)
    many = [json.dumps({"id": number, "name": "x" * 100}) for number in range(40)]
    kafka.produce(topic, many, partition=0)
    found: list[list[int]] = []
    source, after = engine.kafka(KafkaSettings(kafka.servers, (topic,), max_bytes_per_epoch=1300), SPEC), None
    while source.plan(after, NOW):
        epoch = planned(source, after)
        found.append(ids(source, epoch))
        after = epoch.until
    assert [each for epoch in found for each in epoch] == list(range(40))
    assert {len(epoch) for epoch in found[:-1]} <= {10, 11}


def test_a_replayed_range_gives_the_same_rows(engine: Engine, kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, messages(*range(50)))
    source = source_of(engine, kafka, topic, limit=30)
    found = planned(source)
    before = rows(source.read(found))
    kafka.produce(topic, messages(*range(50)))
    assert len(before) == 30
    assert rows(source.read(found)) == before


@pytest.mark.parametrize("is_on", [True, False])
def test_a_read_leaves_collections_of_garbage_as_they_were(
    engine: Engine, kafka: KafkaBroker, topic: str, *, is_on: bool
) -> None:
    kafka.produce(topic, messages(1))
    source = source_of(engine, kafka, topic)
    (gc.enable if is_on else gc.disable)()
    try:
        assert ids(source, planned(source)) == [1]
        assert gc.isenabled() is is_on
    finally:
        gc.enable()


def test_reads_several_topics(engine: Engine, kafka: KafkaBroker, topic: str) -> None:
    other = f"{topic}-2"
    kafka.create_topic(other)
    kafka.produce(topic, messages(1), partition=0)
    kafka.produce(other, messages(2))
    source = source_of(engine, kafka, topic, other)
    assert ids(source, planned(source)) == [1, 2]


def test_new_partitions_are_read_from_their_beginning(engine: Engine, kafka: KafkaBroker, topic: str) -> None:
    kafka.produce(topic, messages(1), partition=0)
    source = source_of(engine, kafka, topic)
    first = planned(source)
    admin = kafka.admin()
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    kafka.produce(topic, messages(2), partition=2)
    assert ids(source, planned(source, first.until)) == [2]
    assert ids(source, first) == [1]


def test_passes_over_what_transactions_left(engine: Engine, kafka: KafkaBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": topic})
    producer.init_transactions()
    for number, ending in (
        (1, producer.commit_transaction),
        (2, producer.abort_transaction),
        (3, producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, messages(number)[0], partition=0)
        producer.flush()  # without it, an abort discards the message before it is sent
        ending()
    source = source_of(engine, kafka, topic)
    await_markers(source, topic, 6)
    found = planned(source)
    assert ids(source, found) == [1, 3]
    assert not source.has_uncommitted(found.until)
    assert source.held_back(found.until) == ""
    producer.begin_transaction()
    producer.produce(topic, messages(4)[0], partition=0)
    producer.flush()
    assert source.plan(found.until, NOW) is None
    assert source.has_uncommitted(found.until)
    assert (source.lag(found.until), source.held_back(None)) == ("0 records", "1 record behind an open transaction")
    kafka.produce(topic, messages(5, 6), partition=0)
    assert source.held_back(found.until) == "3 records behind an open transaction"
    assert ids(source, found) == [1, 3]
    producer.commit_transaction()
    await_markers(source, topic, 10)
    assert ids(source, planned(source, found.until)) == [4, 5, 6]
    assert source.held_back(found.until) == ""


def test_the_status_tells_of_a_transaction_that_was_left_open(kafka: KafkaBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, messages(1)[0], partition=0)
    producer.flush()
    kafka.produce(topic, messages(2, 3), partition=0)
    text = f"""
    [backend]
    name = "memory"
    [sources.s]
    kind = "kafka"
    servers = "{kafka.servers}"
    topics = ["{topic}"]
    schema = "id bigint"
    [pipelines.p]
    service = "ranking"
    source = "s"
    group = ["id"]
    id = ["id"]
    order_by = "id"
    segment = 1000
    """
    with Headwater.from_text(text) as headwater:
        headwater.run(until_idle=True)
        (status,) = headwater.status()
        assert status.lag == "0 records; 3 records behind an open transaction"
    producer.abort_transaction()


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_epochs_that_end_anywhere_have_all_records(engine: Engine, kafka: KafkaBroker, topic: str, limit: int) -> None:
    """Each transaction leaves a marker, so some epochs begin with one, and some have nothing else."""
    producer = Producer({"bootstrap.servers": kafka.servers, "transactional.id": topic})
    producer.init_transactions()
    source, found, after = source_of(engine, kafka, topic, limit=limit), list[int](), None
    for first in (0, 4):
        for number in range(first, first + 4):
            producer.begin_transaction()
            for each in range(1 + number % 2):
                producer.produce(topic, messages(10 * number + each)[0], partition=0)
                producer.produce(topic, messages(100 + 10 * number + each)[0], partition=1)
            producer.commit_transaction()
        for partition in (0, 1):
            await_markers(source, topic, 10 if first == 0 else 20, partition)
        while source.plan(after, NOW):
            epoch = planned(source, after)
            found += ids(source, epoch)
            after = epoch.until
    right = [base + 10 * number + each for base in (0, 100) for number in range(8) for each in range(1 + number % 2)]
    assert sorted(found) == right
    assert ids(source, OffsetRange(None, after or {})) == right


def test_records_removed_before_they_were_read_are_noticed(kafka: KafkaBroker, topic: str, engine: Engine) -> None:
    kafka.produce(topic, messages(*range(10)), partition=0)
    source = source_of(engine, kafka, topic, limit=3)
    found = planned(source)
    admin = kafka.admin()
    admin.delete_records([TopicPartition(topic, 0, 5)])[TopicPartition(topic, 0)].result()
    with pytest.raises(SourceChanged, match="partition 0: offsets 3 to 4 were removed before they were read"):
        source.plan(found.until, NOW)
    with pytest.raises(Exception, match=r"(gone|out of range|[Dd]ata)"):
        rows(source.read(found))


def test_records_removed_before_the_first_read_are_noticed(kafka: KafkaBroker, topic: str, engine: Engine) -> None:
    source = source_of(engine, kafka, topic)
    beginning = source.beginning()
    assert beginning
    assert source.plan(beginning, NOW) is None
    kafka.produce(topic, messages(*range(10)), partition=0)
    assert ids(source, planned(source, beginning)) == list(range(10))
    admin = kafka.admin()
    admin.delete_records([TopicPartition(topic, 0, 5)])[TopicPartition(topic, 0)].result()
    with pytest.raises(SourceChanged, match="partition 0: offsets 0 to 4 were removed before they were read"):
        source.plan(beginning, NOW)
    assert ids(source, planned(source, source.beginning())) == list(range(5, 10))
    remake(kafka, topic, partitions=2)
    with pytest.raises(SourceChanged, match="it was deleted and created again"):
        patiently(source, beginning)


def test_a_beginning_that_was_removed_is_noticed(kafka: KafkaBroker, topic: str, engine: Engine) -> None:
    kafka.produce(topic, messages(*range(10)), partition=0)
    admin = kafka.admin()
    source = source_of(engine, kafka, topic)
    read = planned(source)
    source.check_complete(read.after, read.until)
    admin.delete_records([TopicPartition(topic, 0, 2)])[TopicPartition(topic, 0)].result()
    late = planned(source)  # began when two records were gone already
    source.check_complete(late.after, late.until)
    for beginning in (read.after, None):
        with pytest.raises(SourceChanged, match="has read from offset 0 on, and the topic begins at 2 now"):
            source.check_complete(beginning, read.until)


def patiently(source: StreamSource, after: Any) -> None:
    """Plan as the runner does: a new topic takes a moment to find its leader."""
    for _ in range(20):
        try:
            source.plan(after, NOW)
        except SourceUnavailable:
            time.sleep(0.2)


def test_a_topic_created_again_is_noticed(kafka: KafkaBroker, topic: str, engine: Engine) -> None:
    kafka.produce(topic, messages(*range(10)), partition=0)
    source = source_of(engine, kafka, topic)
    found = planned(source)
    remake(kafka, topic, partitions=2)
    with pytest.raises(SourceChanged, match="created again"):
        patiently(source, found.until)


def test_a_topic_created_again_after_the_plan_is_noticed(kafka: KafkaBroker, topic: str, engine: Engine) -> None:
    kafka.produce(topic, messages(*range(10)), partition=0)
    source = source_of(engine, kafka, topic)
    found = planned(source)
    remake(kafka, topic, partitions=2)
    kafka.produce(topic, messages(*range(10, 20)), partition=0)
    with pytest.raises(SourceChanged, match="it was deleted and created again"):
        source.read(found)


@pytest.mark.parametrize("count", [10, 25])
def test_a_topic_created_again_with_as_many_records_is_noticed(
    kafka: KafkaBroker, topic: str, engine: Engine, count: int
) -> None:
    kafka.produce(topic, messages(*range(10)), partition=0)
    source = source_of(engine, kafka, topic)
    found = planned(source)
    remake(kafka, topic, partitions=2)
    kafka.produce(topic, messages(*range(100, 100 + count)), partition=0)
    with pytest.raises(SourceChanged, match="it was deleted and created again"):
        patiently(source, found.until)
    restarted = source_of(engine, kafka, topic)
    for call in (lambda: patiently(restarted, found.until), lambda: rows(restarted.read(found))):
        with pytest.raises(SourceChanged, match="it was deleted and created again"):
            call()
    with pytest.raises(SourceChanged, match="it was deleted and created again"):
        restarted.check_complete(found.after, found.until)


def test_a_restored_topic_is_read_on(kafka: KafkaBroker, topic: str, engine: Engine) -> None:
    kafka.produce(topic, messages(*range(10)), partition=0)
    found = planned(source_of(engine, kafka, topic))
    remake(kafka, topic, partitions=2)
    kafka.produce(topic, messages(*range(12)), partition=0)
    trusting = engine.kafka(KafkaSettings(kafka.servers, (topic,), topic_ids="ignore"), SPEC)
    restored = planned(trusting, found.until)
    assert ids(trusting, restored) == [10, 11]
    trusting.check_complete(found.after, restored.until)
    assert source_of(engine, kafka, topic).plan(restored.until, NOW) is None  # knows no id: takes the present one


@pytest.mark.parametrize("waits", [True, False])
def test_a_topic_that_is_restored_while_a_process_reads_it_is_read_on(
    kafka: KafkaBroker, topic: str, engine: Engine, *, waits: bool
) -> None:
    kafka.produce(topic, messages(*range(10)), partition=0)
    trusting = engine.kafka(KafkaSettings(kafka.servers, (topic,), topic_ids="ignore"), SPEC)
    found = planned(trusting)
    assert ids(trusting, found) == list(range(10))
    remake(kafka, topic, partitions=2)
    time.sleep(1 if waits else 0)  # the client, which waits for offset 10, may notice that there is none yet
    kafka.produce(topic, messages(*range(12)), partition=0)
    patiently(trusting, found.until)
    restored = planned(trusting, found.until)
    assert ids(trusting, restored) == [10, 11]
    kafka.produce(topic, messages(12), partition=0)
    assert ids(trusting, planned(trusting, restored.until)) == [12]


def test_offsets_without_ids_are_read_on(kafka: KafkaBroker, topic: str, engine: Engine) -> None:
    kafka.produce(topic, messages(*range(10)), partition=0)
    source = source_of(engine, kafka, topic)
    found = planned(source, {topic: {"0": 4, "1": 0}})
    assert ids(source, found) == list(range(4, 10))
    assert found.until[topic]["id"]


def test_an_empty_topic_has_nothing_to_read(engine: Engine, kafka: KafkaBroker, topic: str) -> None:
    assert source_of(engine, kafka, topic).plan(None, NOW) is None


def test_a_topic_can_be_read_as_soon_as_it_is_made(engine: Engine, kafka: KafkaBroker, topic: str) -> None:
    # Its partitions have no leader for some milliseconds, and more of them on a busy machine.
    names = [f"{topic}_{each}" for each in range(10)]
    for name in names:
        kafka.create_topic(name, partitions=20)
        assert source_of(engine, kafka, name).plan(None, NOW) is None


def test_an_unknown_topic_is_a_configuration_error(engine: Engine, kafka: KafkaBroker) -> None:
    with pytest.raises(ConfigError, match="has no topic 'nowhere'; create it"):
        source_of(engine, kafka, "nowhere").plan(None, NOW)


def test_partitions_of_which_none_has_a_leader_yet_are_waited_for(
    kafka: KafkaBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, added = Admin({"bootstrap.servers": kafka.servers, "log_level": 0}), [(topic, 2), (topic, 3)]
    list_bounds(admin, [(topic, 0)], "read_committed")
    adding = kafka.admin()
    with ThreadPoolExecutor() as beside:
        looked = beside.submit(list_bounds, admin, added, "read_committed")
        with pytest.raises(TimeoutError):  # it waits
            looked.result(timeout=0.5)
        adding.create_partitions([NewPartitions(topic, 4)])[topic].result()
        assert looked.result() == dict.fromkeys(added, (0, 0))
    monkeypatch.setattr(kafka_topics, "ANSWER_SECONDS", 1.0)
    since = time.monotonic()
    with pytest.raises(KafkaException, match="No leaders found"):
        list_bounds(admin, [(topic, 9)], "read_committed")
    assert time.monotonic() - since > 1


@pytest.fixture
def own_broker() -> Iterator[KafkaBroker]:
    with kafka_broker() as broker:
        yield broker


def test_a_look_at_a_deleted_topic_does_not_create_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    creating = broker_module._PROPERTIES.replace("topics.enable=false", "topics.enable=true")
    monkeypatch.setattr(broker_module, "_PROPERTIES", creating)
    monkeypatch.setattr(kafka_topics, "ANSWER_SECONDS", 1.0)
    with kafka_broker() as broker:
        admin = Admin({"bootstrap.servers": broker.servers, "log_level": 0})
        for name in ("deleted", "kept"):
            broker.create_topic(name)
        asked = [("deleted", 0), ("kept", 0)]
        assert list_bounds(admin, asked, "read_committed") == dict.fromkeys(asked, (0, 0))
        delete(broker, "deleted")
        with pytest.raises(KafkaException):
            list_bounds(admin, asked, "read_committed")
        assert "deleted" not in broker.admin().list_topics().topics


def test_a_broker_that_is_down_is_told_quickly_and_reading_goes_on_after_it(
    own_broker: KafkaBroker, engine: Engine
) -> None:
    own_broker.create_topic("orders")
    own_broker.produce("orders", messages(1))
    secret = KafkaSettings(own_broker.servers, ("orders",), 10, {"client.id": "secret"})
    source = engine.kafka(secret, SPEC)
    found = planned(source)
    own_broker.stop()
    since = time.monotonic()
    with pytest.raises(SourceUnavailable, match=own_broker.servers) as error:
        source.plan(found.until, NOW)
    assert time.monotonic() - since < 10
    assert "secret" not in str(error.value) + repr(secret)
    own_broker.start()
    own_broker.produce("orders", messages(2))
    assert ids(source, planned(source, found.until)) == [2]
    assert ids(source, found) == [1]


def test_a_silent_address_is_told_quickly(engine: Engine) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        source = engine.kafka(KafkaSettings(f"127.0.0.1:{silent.getsockname()[1]}", ("a",)), SPEC)
        since = time.monotonic()
        with pytest.raises(SourceUnavailable, match="is the broker up"):
            source.plan(None, NOW)
        assert time.monotonic() - since < 10


def test_the_status_of_pipelines_asks_a_silent_address_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Admin]()

    def describe(admin: Admin, _topics: TopicCollection, **_: Any) -> None:
        asked.append(admin)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(Admin, "describe_topics", describe)
    kinds = ("servers = '127.0.0.1:1'", "schema = 'id bigint, at timestamp'", "kind = 'kafka'")
    sources = [f"[sources.{name}]\ntopics = ['{name}']\n" + "\n".join(kinds) for name in "abc"]
    pipelines = [
        f"[pipelines.of_{name}]\nservice = 'ranking'\nsource = '{name}'\ngroup = ['id']\nid = ['id']\norder_by = 'at'"
        for name in "abc"
    ]
    with Headwater.from_text("\n".join(["[backend]\nname = 'memory'", *sources, *pipelines])) as headwater:
        assert [each.lag for each in headwater.status(lag=False)] == [None] * 3
        assert asked == []
        for _ in range(2):
            assert {(each.lag or "")[:40] for each in headwater.status()} == {
                "unknown: Kafka at 127.0.0.1:1 cannot be "
            }
    assert len(asked) == 2


def test_only_json_is_read(engine: Engine) -> None:
    with pytest.raises(ConfigError, match="cannot be read as csv; use json"):
        engine.kafka(KafkaSettings("x", ("a",)), RecordSpec(Schema.parse("id int"), format="csv"))


def test_security_options_in_the_words_of_java() -> None:
    assert java_options(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": "me",
            "sasl.password": 'a"b',
            "ssl.ca.location": "ca.pem",
        }
    ) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="me" password="a\\"b";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "ca.pem",
    }


def test_security_options_without_a_counterpart_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"options fetch\.wait cannot be used with Spark; known: security\.protocol"):
        java_options({"fetch.wait": "1"})
    with pytest.raises(ConfigError, match="known: PLAIN, SCRAM"):
        java_options({"sasl.username": "me"})
