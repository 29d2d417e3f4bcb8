"""A view's changes in a topic of a real broker, as its readers find them."""

from __future__ import annotations

import json
import socket
import time
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from threading import Timer
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import define, evolve
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions

from headwater.adapters.kafka import topics
from headwater.adapters.kafka.polars_source import PolarsKafkaSource
from headwater.adapters.kafka.settings import KafkaSettings, SinkSettings
from headwater.adapters.kafka.sink import KafkaSink
from headwater.adapters.polars.engine import PolarsEngine
from headwater.domain.epoch.epoch import Epoch, Publication, Tally
from headwater.domain.errors import ConfigError, EpochConflict, SinkChanged, SinkUnavailable
from headwater.domain.ports import Receipt
from headwater.domain.service.feed import Feed
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema
from headwater.domain.table.view_spec import ViewSpec
from headwater.testing.clock import NOW
from headwater.testing.frames import polars_frame
from tests.kafka_reading import Found, committed, delete, remake

if TYPE_CHECKING:
    from headwater.testing.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka

PRICES = Schema.parse("id bigint, price decimal(10,2)")
_MOMENT = datetime(2024, 3, 1, 9, 0, 0, 250_000, tzinfo=UTC)


@define
class Topic:
    """A topic, and sinks that publish to it."""

    broker: KafkaBroker
    name: str

    def sink(
        self, *, schema: Schema = PRICES, pipeline: str = "shop", options: dict[str, str] | None = None, **how: Any
    ) -> KafkaSink:
        view = ViewSpec("prices", schema, ["id"], ["id"], "")
        settings = SinkSettings(self.broker.servers, self.name, options or {})
        return KafkaSink(settings, Feed(pipeline, view, **how), PolarsEngine())

    def claimed(self, **how: Any) -> KafkaSink:
        sink = self.sink(**how)
        sink.claim()
        return sink

    def holds(self) -> list[Found]:
        return committed(self.broker, self.name)

    def receipts(self) -> list[Any]:
        return [found.value for found in committed(self.broker, f"{self.name}.epochs", keyed=False)]


@pytest.fixture
def topic(kafka: KafkaBroker) -> Topic:
    name = f"prices-{uuid4().hex[:8]}"
    kafka.create_topic(name)
    return Topic(kafka, name)


def publication(epoch: int) -> Publication:
    at = _MOMENT + timedelta(seconds=epoch)
    return Publication(Epoch("shop", epoch), {}, {"rows": epoch}, None, at, "", tally=Tally(epoch, 0))


def publish(sink: KafkaSink, epoch: int, *rows: tuple[Any, ...], schema: Schema | None = None) -> None:
    sink.publish(polars_frame(rows, sink.feed.columns), publication(epoch))


def change(sink: KafkaSink) -> None:
    """Two epochs: a row that comes and stays, one that changes, one that goes."""
    publish(sink, 0, (1, Decimal("1.10"), "+I"), (2, Decimal("2.20"), "+I"), (3, None, "+I"))
    publish(sink, 1, (2, Decimal("2.50"), "+U"), (3, None, "-D"), (2, Decimal("2.20"), "-U"))


def test_json_tells_the_row_kind_in_a_column(topic: Topic) -> None:
    change(topic.claimed(format="json", row_kind="kind"))
    assert topic.holds() == [
        Found({"id": 1}, {"id": 1, "price": "1.10", "kind": "+I"}),
        Found({"id": 2}, {"id": 2, "price": "2.20", "kind": "+I"}),
        Found({"id": 3}, {"id": 3, "price": None, "kind": "+I"}),
        Found({"id": 2}, {"id": 2, "price": "2.20", "kind": "-U"}),
        Found({"id": 2}, {"id": 2, "price": "2.50", "kind": "+U"}),
        Found({"id": 3}, {"id": 3, "price": None, "kind": "-D"}),
    ]


@pytest.mark.parametrize(
    ("policy", "format_", "warns"),
    [
        ("compact", "json", True),
        ("compact", "upsert-json", False),
        ("compact", "debezium-json", False),
        ("delete", "json", False),
    ],
)
def test_a_compacted_topic_that_would_lose_changes_is_warned_of_once(
    kafka: KafkaBroker, caplog: pytest.LogCaptureFixture, policy: str, format_: str, *, warns: bool
) -> None:
    name = f"prices-{uuid4().hex[:8]}"
    kafka.create_topic(name, cleanup_policy=policy)
    sink = Topic(kafka, name).claimed(format=format_)
    sink.claim()
    found = [f"topic '{name}' is compacted" in text and "publish upsert-json" in text for text in caplog.messages]
    assert found == [True] * warns


def test_upsert_json_tells_the_row_or_a_tombstone(topic: Topic) -> None:
    change(topic.claimed(format="upsert-json", rename={"id": "number"}))
    assert topic.holds() == [
        Found({"number": 1}, {"number": 1, "price": "1.10"}),
        Found({"number": 2}, {"number": 2, "price": "2.20"}),
        Found({"number": 3}, {"number": 3, "price": None}),
        Found({"number": 2}, {"number": 2, "price": "2.50"}),
        Found({"number": 3}, None),
    ]


@pytest.mark.parametrize("tombstones", [True, False])
def test_debezium_json_tells_before_and_after(topic: Topic, *, tombstones: bool) -> None:
    change(topic.claimed(format="debezium-json", tombstones=tombstones))
    source = {"connector": "headwater", "db": "shop", "table": "prices", "epoch": 1, "ts_ms": 1709283601250}
    *_, updated, deleted = [found for found in topic.holds() if found.value]
    at = {"source": source, "ts_ms": 1709283601250}
    before, after = {"id": 2, "price": "2.20"}, {"id": 2, "price": "2.50"}
    assert updated == Found({"id": 2}, {"before": before, "after": after, "op": "u", **at})
    assert deleted == Found({"id": 3}, {"before": {"id": 3, "price": None}, "after": None, "op": "d", **at})
    assert (topic.holds()[-1] == Found({"id": 3}, None)) is tombstones


_TYPES = """id bigint, tiny tinyint, small smallint, whole int, single float, real double, exact decimal(38,10),
    word string, truth boolean, bytes binary, day date, at timestamp, wall timestamp_ntz"""
_VALUES = {
    "id": 2**63 - 1,
    "tiny": -128,
    "small": 32767,
    "whole": -(2**31),
    "single": 0.10000000149011612,
    "real": 5e-324,
    "exact": Decimal("1234567890123456789012345678.0123456789"),
    "word": 'quote " and \u20ac and \U0001f600',
    "truth": False,
    "bytes": b"\x00\xff",
    "day": date(1, 1, 1),
    "at": datetime(2024, 3, 31, 1, 30, 0, 1, tzinfo=UTC),
    "wall": datetime(9999, 12, 31, 23, 59, 59, 999_999),
}


def test_every_type_is_read_back_by_the_json_source(topic: Topic) -> None:
    schema = Schema.parse(_TYPES)
    sink = topic.claimed(schema=schema)
    nulls = dict.fromkeys(_VALUES) | {"id": 1}
    publish(sink, 0, (*nulls.values(), "+I"), (*_VALUES.values(), "-D"))
    spec = RecordSpec(Schema.parse(f"{_TYPES}, row_kind string"), row_kind="row_kind")
    source = PolarsKafkaSource(KafkaSettings(topic.broker.servers, (topic.name,)), spec)
    deadline = time.monotonic() + 10  # the broker shows a transaction a moment after it was committed
    while (planned := source.plan(None, NOW)) is None:
        assert time.monotonic() < deadline
    read = source.read(planned).select(*schema.names, "_row_kind", "_error").collect().rows(named=True)
    assert read == [
        nulls | {"_row_kind": "+I", "_error": None},
        _VALUES | {"_row_kind": "-D", "_error": None},
    ]


def test_a_receipt_stays_when_the_run_is_over(topic: Topic) -> None:
    sink = topic.sink()
    assert (sink.published(), sink.claim()) == (None, None)
    change(sink)
    publish(sink, 2)  # nothing has changed
    again = topic.sink()
    assert again.published() == Receipt.of(publication(2)) == again.claim()
    assert len(topic.holds()) == 6


def test_a_topic_with_the_records_of_another_feed_is_refused(topic: Topic) -> None:
    publish(topic.claimed(), 0, (1, None, "+I"))
    publish(topic.claimed(), 1)
    for ask in (topic.sink(pipeline="other").published, topic.sink(pipeline="other").claim):
        with pytest.raises(SinkChanged, match=r"has the records of shop\.prices up to epoch 1; .* to a new topic, or"):
            ask()
    remake(topic.broker, topic.name)
    assert topic.sink(pipeline="other").published() is None


@pytest.mark.parametrize("lose", ["receipts", "id"])
def test_a_topic_with_records_and_no_receipt_is_refused(topic: Topic, lose: str) -> None:
    """All rows of the view besides them would be there twice."""
    publish(topic.claimed(), 0, (1, None, "+I"))
    await_records(topic)
    if lose == "receipts":
        delete(topic.broker, f"{topic.name}.epochs")
    else:
        remake(topic.broker, topic.name)
        topic.broker.produce(topic.name, [b"{}"])
    with pytest.raises(SinkChanged, match=r"has records, but .*\.epochs' has no receipt .* to a new topic, or delete"):
        topic.sink().claim()


def test_a_topic_whose_records_were_removed_is_empty(topic: Topic) -> None:
    publish(topic.claimed(), 0, (1, None, "+I"))
    await_records(topic)
    admin = topic.broker.admin()  # the name keeps the client alive
    (removed,) = admin.delete_records([TopicPartition(topic.name, 0, -1)]).values()
    removed.result(10)
    delete(topic.broker, f"{topic.name}.epochs")
    publish(topic.claimed(), 0, (1, None, "+I"))
    assert [found.key for found in topic.holds()] == [{"id": 1}]


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ({"cleanup_policy": "delete"}, True),
        ({"cleanup_policy": "compact,delete"}, True),
        ({"cleanup_policy": "delete", "retention_ms": "-1"}, False),
    ],
)
def test_receipts_that_expire_are_refused(topic: Topic, policy: dict[str, str], *, refused: bool) -> None:
    topic.broker.create_topic(f"{topic.name}.epochs", **policy)
    with pytest.raises(ConfigError, match=r"set cleanup\.policy = compact for") if refused else nullcontext():
        topic.sink().claim()


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_second_feed_that_begins_while_the_first_epoch_is_open(topic: Topic, partitions: int) -> None:
    topic.broker.create_topic(f"{topic.name}.epochs", partitions=partitions, cleanup_policy="compact")
    first, other, late = topic.claimed(), topic.claimed(pipeline="other"), topic.claimed(pipeline="late")
    open_ = first._producer
    open_.begin_transaction()
    open_.produce(f"{topic.name}.epochs", first._receipts.line(Receipt.of(publication(0))), b"shop.prices")
    assert open_.flush(10) == 0
    with pytest.raises(
        SinkUnavailable, match=r"shop\.prices begins to publish .*, too, .*: publish other\.prices to a"
    ):
        publish(other, 0, (1, None, "+I"))
    open_.commit_transaction(10)
    await_markers(topic)
    with pytest.raises(SinkChanged, match=r"has the records of shop\.prices up to epoch 0"):
        publish(late, 0, (1, None, "+I"))
    assert topic.holds() == []


def test_a_feed_begins_again_after_its_first_epoch_failed(topic: Topic) -> None:
    """Its own record of the failed try does not count."""
    sink = topic.claimed()
    open_ = sink._producer
    open_.begin_transaction()
    open_.produce(f"{topic.name}.epochs", sink._receipts.line(Receipt.of(publication(0))), b"shop.prices")
    assert open_.flush(10) == 0
    again = topic.claimed()
    publish(again, 0, (1, None, "+I"))
    assert len(topic.holds()) == 1


def test_feeds_that_share_a_topic_since_earlier_versions_have_their_own_receipts(topic: Topic) -> None:
    first, other = topic.claimed(), topic.claimed(pipeline="other")
    other._receipts._begins = False  # not checked by earlier versions
    publish(first, 0, (1, None, "+I"))
    for epoch in range(70):
        publish(other, epoch)
    assert (topic.sink().published(), other.published()) == (
        Receipt.of(publication(0)),
        Receipt.of(publication(69)),
    )


@pytest.mark.parametrize(
    ("first", "then", "difference"),
    [
        ({}, {"format": "upsert-json"}, "format json -> upsert-json"),
        ({}, {"row_kind": "kind"}, "row_kind row_kind -> kind"),
        ({"rename": {"price": "cost"}}, {}, "field of price cost -> price"),
    ],
)
def test_records_with_other_settings_are_refused(
    topic: Topic, first: dict[str, Any], then: dict[str, Any], difference: str
) -> None:
    publish(topic.claimed(**first), 0, (1, None, "+I"))
    for ask in (topic.sink(**then).published, topic.sink(**then).claim):
        with pytest.raises(SinkChanged, match=f"with other settings \\({difference}\\), .* to a new topic"):
            ask()
    assert topic.sink(**first).published() == Receipt.of(publication(0))


def test_settings_that_old_records_do_not_depend_on_may_differ(topic: Topic) -> None:
    publish(topic.claimed(format="debezium-json"), 0, (1, None, "+I"))
    wider = Schema.parse("id bigint, price decimal(10,2), note string")
    how = {"format": "debezium-json", "row_kind": "kind", "tombstones": False, "rename": {"note": "word"}}
    assert topic.sink(schema=wider, **how).published() == Receipt.of(publication(0))


def test_a_receipt_is_found_in_each_partition_of_a_topic_made_beforehand(topic: Topic) -> None:
    """And after partitions were added, when a feed's next receipts may be in another one than its first."""
    receipts, feeds = f"{topic.name}.epochs", ("a", "b", "c", "d")
    topic.broker.create_topic(receipts, partitions=3, cleanup_policy="compact")
    claimed = {feed: topic.claimed(pipeline=feed) for feed in feeds}  # all while the topic is empty
    for feed in feeds:
        claimed[feed]._receipts._begins = False  # not checked by earlier versions, in which feeds could share a topic
        publish(claimed[feed], 0)
        assert topic.sink(pipeline=feed).published() == Receipt.of(publication(0))
    admin = topic.broker.admin()
    admin.create_partitions([NewPartitions(receipts, 8)])[receipts].result()
    for feed in feeds:
        publish(topic.claimed(pipeline=feed), 1)
        assert topic.sink(pipeline=feed).published() == Receipt.of(publication(1))


def test_what_a_killed_run_left_open_is_undone(topic: Topic) -> None:
    sink = topic.claimed()
    publish(sink, 0, (1, None, "+I"))
    killed = sink._producer  # kill -9 in the middle of an epoch: its transaction has an end for nobody
    killed.begin_transaction()
    killed.produce(topic.name, b'{"id": 2}', b'{"id": 2}')
    killed.produce(f"{topic.name}.epochs", b"{}", b"shop.prices")
    assert killed.flush(10) == 0
    after = topic.sink()
    assert after.published() == after.claim() == Receipt.of(publication(0))
    publish(after, 1, (2, None, "+I"))
    assert [found.key for found in topic.holds()] == [{"id": 1}, {"id": 2}]
    with pytest.raises(KafkaException):
        killed.commit_transaction(10)
    assert len(topic.holds()) == 2


@pytest.mark.parametrize("rows", [1, 20_000])
def test_a_second_writer_turns_the_first_away(topic: Topic, rows: int) -> None:
    """At the end of its epoch; in the middle of a large one, if the broker has refused its first records by then."""
    first = topic.claimed(options={"queue.buffering.max.messages": "1000"})
    publish(first, 0, (1, None, "+I"))
    second = topic.claimed()
    with pytest.raises(EpochConflict, match="another run publishes to topic"):
        publish(first, 1, *((2 + number, None, "+I") for number in range(rows)))
    publish(second, 1, (2, None, "+I"))
    assert [found.key for found in topic.holds()] == [{"id": 1}, {"id": 2}]


def test_an_epoch_that_fails_halfway_shows_nothing(topic: Topic) -> None:
    sink = topic.claimed(options={"message.max.bytes": "1000"}, schema=Schema.parse("id bigint, word string"))
    with pytest.raises(ConfigError, match=r"a record is larger than .* takes: raise max\.message\.bytes of the topic"):
        publish(sink, 0, (1, "a", "+I"), (2, "b" * 2000, "+I"))
    assert topic.holds() == []
    assert sink.claim() is None
    publish(sink, 0, (1, "a", "+I"))
    assert len(topic.holds()) == 1


def test_a_record_that_is_larger_than_the_topic_takes(kafka: KafkaBroker) -> None:
    topic = Topic(kafka, f"prices-{uuid4().hex[:8]}")
    kafka.create_topic(topic.name, max_message_bytes="20000")
    sink = topic.claimed(schema=Schema.parse("id bigint, word string"))
    with pytest.raises(ConfigError, match=r"a record is larger than .* takes: raise max\.message\.bytes of the topic"):
        publish(sink, 0, (1, "b" * 30_000, "+I"))
    assert topic.holds() == []


def test_an_epoch_may_be_larger_than_what_waits_to_be_sent(topic: Topic) -> None:
    sink = topic.claimed(options={"queue.buffering.max.messages": "1000"})
    publish(sink, 0, *((number, None, "+I") for number in range(20_000)))
    assert [found.key["id"] for found in topic.holds()] == list(range(20_000))


def test_keys_go_where_java_clients_put_them(kafka: KafkaBroker) -> None:
    name = f"prices-{uuid4().hex[:8]}"
    kafka.create_topic(name, partitions=4)
    topic = Topic(kafka, name)
    publish(topic.claimed(), 0, *((number, None, "+I") for number in range(8)))
    held = [found.key["id"] for found in topic.holds()]
    expected = sorted(range(8), key=lambda number: (_murmur2(json.dumps({"id": number}).replace(" ", "")) % 4, number))
    assert held == expected


def _murmur2(text: str) -> int:
    """Kafka's own hash of a key, as its Java client computes it, made positive."""
    data, mix, whole = text.encode(), 0x5BD1E995, 0xFFFFFFFF
    found = 0x9747B28C ^ len(data)
    for at in range(0, len(data) // 4 * 4, 4):
        part = int.from_bytes(data[at : at + 4], "little") * mix & whole
        found = (found * mix & whole) ^ ((part ^ part >> 24) * mix & whole)
    if rest := data[len(data) // 4 * 4 :]:
        found = (found ^ int.from_bytes(rest, "little")) * mix & whole
    found = (found ^ found >> 13) * mix & whole
    return (found ^ found >> 15) & 0x7FFFFFFF


def test_a_topic_made_anew_holds_nothing(topic: Topic) -> None:
    publish(topic.claimed(), 0, (1, None, "+I"))
    remake(topic.broker, topic.name)
    assert topic.sink().published() is None


def test_changes_do_not_go_to_a_topic_made_anew(topic: Topic) -> None:
    sink = topic.claimed()
    publish(sink, 0, (1, None, "+I"))
    remake(topic.broker, topic.name)
    with pytest.raises(SinkUnavailable, match="was deleted while the run published to it; once it exists again, it"):
        publish(sink, 1, (2, None, "+I"))
    assert topic.holds() == []
    assert sink.published() is sink.claim() is None
    publish(sink, 1, (1, None, "+I"), (2, None, "+I"))
    assert [found.key for found in topic.holds()] == [{"id": 1}, {"id": 2}]


def test_partitions_that_are_added_between_two_runs(topic: Topic) -> None:
    """Keys would move to other partitions, and readers could apply an old record after a new one."""
    publish(topic.claimed(), 0, (1, None, "+I"))
    add_partitions(topic, 3)
    for ask in (topic.sink().published, topic.sink().claim):
        with pytest.raises(SinkChanged, match=r"has 3 partitions, and had 1 .*to a new topic"):
            ask()


def test_partitions_that_are_added_while_a_run_goes_on(topic: Topic) -> None:
    sink = topic.claimed()
    publish(sink, 0, (1, None, "+I"))
    add_partitions(topic, 3)
    with pytest.raises(SinkChanged, match="has 3 partitions, and had 1"):
        publish(sink, 1, (2, None, "+I"))
    assert [found.key for found in topic.holds()] == [{"id": 1}]


def test_a_receipt_of_earlier_versions_has_no_partitions_and_settings(topic: Topic) -> None:
    publish(topic.claimed(), 0, (1, None, "+I"))
    (line,) = topic.receipts()
    producer = Producer({"bootstrap.servers": topic.broker.servers})
    former = {name: line[name] for name in ("feed", "topic_id", "epoch", "state")}
    producer.produce(f"{topic.name}.epochs", json.dumps(former).encode(), b"shop.prices")
    assert producer.flush(10) == 0
    add_partitions(topic, 3)
    sink = topic.claimed(rename={"price": "cost"})
    assert sink.published() == evolve(Receipt.of(publication(0)), tally=None)
    publish(sink, 1, (2, None, "+I"))
    shapes = [
        {"format": "json", "row_kind": "row_kind", "fields": {"id": "id", "price": to}} for to in ("price", "cost")
    ]
    recorded = [(each.get("partitions"), each.get("shape")) for each in topic.receipts()]
    assert recorded == [(1, shapes[0]), (None, None), (3, shapes[1])]


def await_records(topic: Topic) -> None:
    """Wait for readers to see what was published: a commit returns before its markers are written."""
    deadline = time.monotonic() + 10
    while not (topic.holds() and topic.receipts()):
        assert time.monotonic() < deadline


def await_markers(topic: Topic) -> None:
    deadline = time.monotonic() + 10
    while not topic.receipts():
        assert time.monotonic() < deadline


def add_partitions(topic: Topic, number: int) -> None:
    admin = topic.broker.admin()
    admin.create_partitions([NewPartitions(topic.name, number)])[topic.name].result()
    deadline = time.monotonic() + 10
    while len(admin.list_topics(topic.name).topics[topic.name].partitions) < number:
        assert time.monotonic() < deadline


def test_a_topic_that_is_not_there(kafka: KafkaBroker) -> None:
    with pytest.raises(ConfigError, match="has no topic 'nowhere'; create it, or correct the topic under publish"):
        Topic(kafka, "nowhere").sink().published()


def test_a_topic_that_the_broker_knows_only_a_moment_later(kafka: KafkaBroker) -> None:
    """As after a restart of the broker."""
    topic = Topic(kafka, f"prices-{uuid4().hex[:8]}")
    begins = Timer(1.5, kafka.create_topic, [topic.name])
    begins.start()
    assert topic.sink().published() is None
    begins.join()


def test_receipts_that_the_broker_does_not_know_for_a_moment(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them, a claimed topic would get all rows once more."""
    publish(topic.claimed(), 0, (1, None, "+I"))
    sink = topic.sink()
    unknown = {f"{topic.name}.epochs"}

    def describe_others(admin: Any, names: list[str]) -> dict[str, topics.Topic]:
        return topics.describe(admin, {*names} - unknown)

    monkeypatch.setattr("headwater.adapters.kafka.receipts.describe", describe_others)
    assert (sink.published(), sink.claim()) == (None, Receipt.of(publication(0)))


def test_a_broker_that_does_not_answer(kafka: KafkaBroker) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        settings = SinkSettings(f"127.0.0.1:{nobody.getsockname()[1]}", "prices", {"sasl.password": "geheim"})
        sink = KafkaSink(settings, Topic(kafka, "prices").sink().feed, PolarsEngine())
        began = time.monotonic()
        with pytest.raises(SinkUnavailable, match="is the broker up, and the address right") as caught:
            sink.published()
    assert time.monotonic() - began < 15
    assert "geheim" not in f"{caught.value}{sink}"


def test_a_sink_must_be_claimed_first(topic: Topic) -> None:
    with pytest.raises(EpochConflict, match="is not claimed"):
        publish(topic.sink(), 0)


def test_strangers_lines_among_the_receipts_are_passed_over(topic: Topic) -> None:
    publish(topic.claimed(), 0, (1, None, "+I"))
    producer = Producer({"bootstrap.servers": topic.broker.servers})
    producer.produce(f"{topic.name}.epochs", None, b"tombstone")
    assert producer.flush(10) == 0
    assert topic.sink().published() == Receipt.of(publication(0))
