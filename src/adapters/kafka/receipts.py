"""The receipts of a sink: a compacted topic next to its own, written in the same transactions (docs/adr/0010)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import asdict, define, field
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from ...domain.epoch.epoch import Tally
from ...domain.errors import ConfigError, SinkChanged, SinkUnavailable
from ...domain.ports import Receipt
from ...domain.service.feed import Feed
from .broker import TopicReader
from .clients import Admin, create_client
from .errors import translate_errors
from .plan import OffsetBounds, Partition, Slice
from .settings import KafkaSettings, SinkSettings, client_options
from .topics import ANSWER_SECONDS, Topic, describe, find, find_compacted, find_expiring

_WINDOW = 100


@define(eq=False)
class Receipts:
    """The receipts of one feed.

    A receipt has Kafka's own id of the topic, so receipts for a topic that was deleted and created again do not count.
    It also has the number of the topic's partitions: with another one, keys would go to other partitions, and readers
    could apply an old record after a newer one. And it has the feed's `shape`: a reader of the old records could not
    read those of another one.

    Args:
        settings: the sink.
        feed: the feed. A topic that has only receipts of another feed is refused; with earlier versions, several feeds
            could begin in one topic, and they are continued.
    """

    settings: SinkSettings
    feed: Feed
    _topic: Topic | None = field(init=False, default=None)
    _begins: bool = field(init=False, default=False)
    """Whether `begin` has found no receipt."""
    _kept_admin: Admin | None = field(init=False, default=None)

    @property
    def topic(self) -> str:
        return f"{self.settings.topic}.epochs"

    def newest(self) -> Receipt | None:
        """The newest receipt in a completed transaction; None if there is none.

        Raises:
            ConfigError: the sink's topic does not exist.
            SinkChanged: it had another number of partitions then, or other settings of the messages; or it has the
                records of another feed.
            SinkUnavailable: the cluster does not answer.
        """
        with translate_errors(self.settings):
            topic = self._find()
            return self._last(topic) if self._describe(self.topic) else None

    def begin(self) -> Receipt | None:
        """The newest receipt, of a sink that is written from now on; call `ensure` before.

        Raises: as `newest`, and
            SinkChanged: the topic has records, but no receipt.
        """
        with translate_errors(self.settings):
            self._topic = self._find()
            found = self._last(self._topic)
            self._begins = found is None
            if self._begins:
                self._check_empty()
            return found

    def ensure(self) -> None:
        """Create the topic of the receipts, if it does not exist.

        Raises:
            ConfigError: it exists, and Kafka removes its old records.
            SinkUnavailable: the cluster does not answer.
        """
        with translate_errors(self.settings):
            if not self._describe(self.topic):
                self._create()
            elif find_expiring(self._admin, [self.topic]):
                raise ConfigError(
                    f"Kafka removes old records of topic {self.topic!r} (cleanup.policy). Without its receipts a run"
                    f" cannot know which epoch {self.settings.topic!r} has reached: set cleanup.policy = compact for"
                    f" {self.topic!r}"
                )

    def compacted(self) -> list[str]:
        """The sink's topic, if it is compacted, as far as the broker shows it.

        Raises:
            SinkUnavailable: the cluster does not answer.
        """
        with translate_errors(self.settings):
            return find_compacted(self._admin, [self.settings.topic])

    def line(self, receipt: Receipt) -> bytes:
        """The record of a receipt; call `begin` before."""
        assert self._topic
        of = {"feed": self.feed.name, "topic_id": self._topic.id, "partitions": len(self._topic.partitions)}
        return json.dumps(of | asdict(receipt) | {"shape": self.feed.shape}).encode()

    def check_same(self) -> None:
        """Check that the sink's topic is as `begin` found it; it takes a millisecond or two.

        Raises:
            SinkChanged: partitions were added to it.
            SinkUnavailable: it was deleted, and perhaps created again; or the cluster does not answer.
        """
        with translate_errors(self.settings):
            found = self._describe(self.settings.topic)
            if not (found and self._topic and found.id == self._topic.id):
                raise SinkUnavailable(
                    f"Kafka topic {self.settings.topic!r} was deleted while the run published to it; once it exists"
                    " again, it first gets all rows of the view"
                )
            self._check_partitions(found, len(self._topic.partitions))

    def check_first(self) -> None:
        """Check that no other feed begins in the sink's topic; call it when the first receipt is with the broker.

        Of two feeds that begin at the same time, at least the one whose receipt is later in the log sees the other's.

        Raises:
            SinkChanged: another feed has begun in it.
            SinkUnavailable: another feed's transaction is open, or was just aborted; or the cluster does not answer.
        """
        if not self._begins:
            return
        with translate_errors(self.settings):
            assert self._topic
            ends = {each: held.high for each, held in self._reader(self.topic).offset_bounds().items()}
            self._last(self._topic)  # after that: what is completed meanwhile is after these ends
            for line in self._open_lines(ends):
                if line.get("topic_id") == self._topic.id and line["feed"] != self.feed.name:
                    raise SinkUnavailable(
                        f"{line['feed']} begins to publish to Kafka topic {self.settings.topic!r}, too, which takes the"
                        f" changes of one view: publish {self.feed.name} to a new topic"
                    )
        self._begins = False

    def _open_lines(self, ends: Mapping[Partition, int]) -> list[dict[str, Any]]:
        """What is after the completed transactions, up to the last line of this feed in each partition."""
        reader = self._reader(self.topic, "read_uncommitted")
        found: list[dict[str, Any]] = []
        for partition, held in reader.offset_bounds().items():
            start = ends.get(partition, 0)
            lines = self._lines(reader, partition, start, held.high) if start < held.high else []
            own = [at for at, line in enumerate(lines) if line.get("feed") == self.feed.name]
            found += lines[: own[-1]] if own else lines
        return found

    @property
    def _admin(self) -> Admin:
        """A client that stays connected."""
        if self._kept_admin is None:
            self._kept_admin = create_client(Admin, client_options(self.settings), self.settings)
        return self._kept_admin

    def _find(self) -> Topic:
        """The sink's topic."""
        if found := find(self._admin, [self.settings.topic]).get(self.settings.topic):
            return found
        raise ConfigError(
            f"Kafka at {self.settings.servers} has no topic {self.settings.topic!r}; create it, or correct the topic"
            " under publish"
        )

    def _describe(self, topic: str) -> Topic | None:
        return describe(self._admin, [topic]).get(topic)

    def _create(self) -> None:
        # Only closed segments are compacted, and by default they close at 1 GB.
        new = NewTopic(self.topic, 1, config={"cleanup.policy": "compact", "segment.bytes": str(2**24)})
        try:
            self._admin.create_topics([new], operation_timeout=ANSWER_SECONDS)[self.topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _reader(self, topic: str, isolation: str = "read_committed") -> TopicReader:
        return TopicReader(KafkaSettings(self.settings.servers, (topic,), options=self.settings.options), isolation)

    def _lines(self, reader: TopicReader, partition: Partition, start: int, end: int) -> list[dict[str, Any]]:
        records = (record for run in reader.runs([Slice(0, *partition, start, end)]) for record in run.records())
        return [json.loads(record.raw or b"{}") for record in records]

    def _last(self, topic: Topic) -> Receipt | None:
        """The newest receipt of this feed for the topic, from all partitions: there may be several."""
        reader = self._reader(self.topic)
        found = [self._last_line(reader, topic, *each) for each in reader.offset_bounds().items()]
        mine = (line for line in found if line.get("feed") == self.feed.name)
        if not (newest := max(mine, key=lambda line: line["epoch"], default=None)):
            self._check_unused(found)
            return None
        if partitions := newest.get("partitions"):  # earlier versions did not record it
            self._check_partitions(topic, partitions)
        if shape := newest.get("shape"):  # nor this
            self._check_shape(shape)
        tally = newest.get("tally")  # nor this
        return Receipt(newest["epoch"], newest["state"], newest.get("settings"), tally and Tally(**tally))

    def _check_unused(self, found: Iterable[dict[str, Any]]) -> None:
        if other := next(filter(None, found), None):
            raise SinkChanged(
                f"Kafka topic {self.settings.topic!r} has the records of {other['feed']} up to epoch {other['epoch']};"
                f" with all rows of {self.feed.name} besides, its readers would have rows twice: publish to a new"
                " topic, or delete this one and create it again"
            )

    def _check_empty(self) -> None:
        """Check that no record is in the sink's topic. Transactions that were aborted leave offsets without records."""
        reader = self._reader(self.settings.topic)
        held = reader.offset_bounds().items()
        slices = [Slice(0, *partition, each.low, each.high) for partition, each in held if each.low < each.high]
        if next(reader.runs(slices), None):
            raise SinkChanged(
                f"Kafka topic {self.settings.topic!r} has records, but {self.topic!r} has no receipt for them: receipts"
                " were removed, the topic was restored, or others write to it. With all rows of"
                f" {self.feed.name} besides, its readers would have rows twice: publish to a new topic, or delete this"
                " one and create it again"
            )

    def _check_shape(self, former: dict[str, Any]) -> None:
        if differences := self.feed.differences(former):
            raise SinkChanged(
                f"Kafka topic {self.settings.topic!r} has the records of {self.feed.name} with other settings"
                f" ({', '.join(differences)}), and its readers could not read both: set them back, or publish to a new"
                " topic"
            )

    def _check_partitions(self, topic: Topic, former: int) -> None:
        if (now := len(topic.partitions)) != former:
            raise SinkChanged(
                f"Kafka topic {self.settings.topic!r} has {now} partitions, and had {former} when the view was"
                " published to it: keys would go to other partitions than before, and readers could apply an old record"
                " after a newer one; publish to a new topic"
            )

    def _last_line(self, reader: TopicReader, topic: Topic, partition: Partition, held: OffsetBounds) -> dict[str, Any]:
        """The last line of this feed in a partition; if there is none, that of another feed of the topic, or empty.

        It is searched from the end in growing steps.
        """
        start, window, other = held.high, _WINDOW, dict[str, Any]()
        while start > held.low:
            start, end, window = max(held.low, start - window), start, window * 10
            lines = self._lines(reader, partition, start, end)
            lines = [line for line in lines if line.get("topic_id") == topic.id]
            if mine := [line for line in lines if line.get("feed") == self.feed.name]:
                return mine[-1]
            other = other or next(reversed(lines), {})
        return other
