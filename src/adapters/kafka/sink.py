"""A Kafka topic as a feed of a view's changes: each epoch is one transaction, together with its receipt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import msgspec
import narwhals as nw
from attrs import define, field
from confluent_kafka import KafkaError, KafkaException, Producer

from ...domain.epoch.epoch import Publication
from ...domain.errors import EpochConflict
from ...domain.ports import FrameEngine, Receipt, StreamSink
from ...domain.service.feed import Feed
from ...domain.table.row_kind import ROW_KIND
from ..records.json_rows import json_rows
from .clients import create_client
from .compaction import warn_of_row_kinds
from .errors import translate_errors
from .receipts import Receipts
from .settings import SinkSettings, client_options

_CLAIM_SECONDS = 30.0
_COMMIT_SECONDS = 60.0
_ABORT_SECONDS = 5.0
_ROOM_SECONDS = 1.0
_TUNED: Mapping[str, Any] = {
    "linger.ms": 5,
    # A broker that accepts nothing for this long is down.
    "message.timeout.ms": 30_000,
    # An epoch is one transaction, and the first epoch may be the whole view; brokers allow 15 minutes at most.
    "transaction.timeout.ms": 600_000,
    # Only this queue of an epoch is in memory.
    "queue.buffering.max.kbytes": 65_536,
    # Choose a key's partition as Java clients do, so that topics of both can be joined partition by partition.
    "partitioner": "murmur2_random",
}
_json = msgspec.json.Encoder().encode


@define(eq=False)
class KafkaSink(StreamSink):
    """A topic of a view's changes.

    Rows pass through this process, a few at a time: a Kafka transaction belongs to one producer, so Spark's workers
    cannot share one.
    """

    settings: SinkSettings
    feed: Feed
    engine: FrameEngine
    _receipts: Receipts = field(init=False)
    _producer: Producer | None = field(init=False, default=None)
    _checks_compaction: bool = field(init=False)
    """Whether it is still to be asked whether the topic is compacted, which loses changes of this format."""

    def __attrs_post_init__(self) -> None:
        self._receipts = Receipts(self.settings, self.feed)
        self._checks_compaction = self.feed.format == "json"

    def published(self) -> Receipt | None:
        return self._receipts.newest()

    def claim(self) -> Receipt | None:
        self._receipts.ensure()
        with translate_errors(self.settings):
            self._producer = create_client(Producer, _options(self.settings, self.feed.name), self.settings)
            # Waits until the transaction that the producer before left open is committed or aborted.
            self._producer.init_transactions(_CLAIM_SECONDS)
        held = self._receipts.begin()
        if self._checks_compaction:
            warn_of_row_kinds(self._receipts.compacted())
            self._checks_compaction = False
        return held

    def publish(self, changes: nw.LazyFrame[Any], publication: Publication) -> None:
        if self._producer is None:
            raise EpochConflict(f"topic {self.settings.topic!r} is not claimed")
        in_order = changes.sort(*self.feed.view.key, ROW_KIND, descending=[False] * len(self.feed.view.key) + [True])
        rows = json_rows(in_order, self.feed.columns, self.engine)
        with translate_errors(self.settings), _transaction(self._producer) as producer:
            for message in self.feed.messages(rows, publication):
                value = None if message.value is None else _json(message.value)
                _send(producer, self.settings.topic, _json(message.key), value)
            _send(producer, self._receipts.topic, self.feed.name.encode(), self._receipts.line(Receipt.of(publication)))
            # Changes that fit the old topic must not go to a new one of its name. Asked as late as possible: when
            # all records are with the broker.
            producer.flush(_COMMIT_SECONDS)
            self._receipts.check_same()
            self._receipts.check_first()


def check_options(settings: SinkSettings) -> None:
    """Check that the client of a sink takes its options; nothing is asked of the cluster.

    Raises:
        ConfigError: it refuses one.
    """
    create_client(Producer, _options(settings, "check"), settings)


def _options(settings: SinkSettings, name: str) -> dict[str, Any]:
    return {**_TUNED, **client_options(settings), "transactional.id": f"headwater.{name}.{settings.topic}"}


@contextmanager
def _transaction(producer: Producer) -> Iterator[Producer]:
    """A transaction: either all records that are sent within it become visible at its end, or none."""
    producer.begin_transaction()
    try:
        yield producer
        producer.commit_transaction(_COMMIT_SECONDS)
    except BaseException as error:
        is_fatal = isinstance(error, KafkaException) and error.args[0].code() == KafkaError._FATAL
        # Readers wait for the end of the transaction; if the broker cannot be reached now, the next `claim` ends it.
        # After a fatal error, the error of the abort says why.
        with nullcontext() if is_fatal else suppress(KafkaException):
            producer.abort_transaction(_ABORT_SECONDS)
        raise


def _send(producer: Producer, topic: str, key: bytes, value: bytes | None) -> None:
    """Queue a record, once there is room."""
    while True:
        try:
            return producer.produce(topic, value, key)
        except BufferError:
            producer.poll(_ROOM_SECONDS)
