"""Topics as their cluster describes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from attrs import frozen
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition, Uuid
from confluent_kafka.admin import ConfigResource, OffsetSpec  # type: ignore[attr-defined]

from .plan import Partition

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .clients import Admin

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.1
_UNKNOWN_SECONDS = 3.0
"""So long a broker may not know a topic: one that was just created, or any after a restart of its own."""
NO_ID = str(Uuid(0, 0))
_NOT_SHOWN = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.UNSUPPORTED_VERSION,
    KafkaError.INVALID_REQUEST,
    KafkaError._UNSUPPORTED_FEATURE,
)
"""The errors of a broker that never shows settings: it takes a right of its own, and not every kind of broker does."""
_NO_LEADER = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,
)
"""The errors of a partition just added, or moving to another broker: it has no leader for a moment.

The last one is the client's own, if it knows a leader of none of the partitions that it is asked for.
"""
_FIRST_AND_NEXT = (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]


@frozen
class Topic:
    """A topic.

    Args:
        partitions: their numbers, in order.
        id: Kafka's own id of the topic, another one after it was deleted and created again; `NO_ID` from brokers before
            2.8.
    """

    partitions: tuple[int, ...]
    id: str


def describe(admin: Admin, names: Collection[str]) -> dict[str, Topic]:
    """Topics by name; those that do not exist are left out.

    Raises:
        KafkaException: the cluster does not answer, or refuses.
    """
    found = {}
    with admin.logged_in():
        asked = admin.describe_topics(TopicCollection(list(names)), request_timeout=ANSWER_SECONDS)
        for name, answer in asked.items():
            try:
                described = answer.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
            else:
                numbers = sorted(each.id for each in described.partitions)
                found[name] = Topic(tuple(numbers), str(described.topic_id))
    return found


def find(admin: Admin, names: Collection[str]) -> dict[str, Topic]:
    """Topics by name, as `describe`; those that the broker does not know are asked for again for a few seconds.

    Raises:
        KafkaException: the cluster does not answer.
    """
    deadline = monotonic() + _UNKNOWN_SECONDS
    while set(names) - (found := describe(admin, names)).keys() and monotonic() < deadline:
        sleep(POLL_SECONDS)
    return found


def list_bounds(admin: Admin, partitions: Collection[Partition], isolation: str) -> dict[Partition, tuple[int, int]]:
    """The first and next offset of each partition. All are asked for at once; one without a leader is asked for again.

    Args:
        admin: the client.
        partitions: they exist.
        isolation: ``read_uncommitted`` or ``read_committed``. If committed, the next offset is at most that of the
            first record of an open transaction.

    Raises:
        KafkaException: the cluster does not answer, or refuses; or a partition has no leader for five seconds.
    """
    deadline, level = monotonic() + ANSWER_SECONDS, IsolationLevel[isolation.upper()]
    found = dict[Partition, tuple[int, int]]()
    while left := [each for each in partitions if each not in found]:
        with admin.logged_in():
            for partition, answers in _ask_bounds(admin, left, level):
                try:
                    low, high = (answer.result().offset for answer in answers)
                except KafkaException as error:
                    if error.args[0].code() not in _NO_LEADER or monotonic() > deadline:
                        raise
                else:
                    found[partition] = low, high
            if len(found) < len(partitions):
                # Else the client knows no partition that was added. To ask for one topic by name might create it.
                admin.list_topics(timeout=ANSWER_SECONDS)
                sleep(POLL_SECONDS)
    return found


def _ask_bounds(
    admin: Admin, partitions: Collection[Partition], level: IsolationLevel
) -> Iterator[tuple[Partition, tuple[Future[Any], Future[Any]]]]:
    """Each partition, with the answers for its first and its next offset."""
    lows, highs = (
        admin.list_offsets(
            {TopicPartition(*each): spec for each in partitions},
            isolation_level=level,
            request_timeout=ANSWER_SECONDS,
        )
        for spec in _FIRST_AND_NEXT
    )
    for each, low in lows.items():
        yield (each.topic, each.partition), (low, highs[each])


def find_compacted(admin: Admin, names: Collection[str]) -> list[str]:
    """The topics whose ``cleanup.policy`` has ``compact``; without those whose settings the broker does not show.

    Raises:
        KafkaException: the cluster does not answer.
    """
    return [name for name, settings in _settings(admin, names) if "compact" in settings["cleanup.policy"]]


def find_expiring(admin: Admin, names: Collection[str]) -> list[str]:
    """The topics whose old records are removed; without those whose settings the broker does not show.

    Raises:
        KafkaException: the cluster does not answer.
    """
    return [
        name
        for name, settings in _settings(admin, names)
        if "delete" in settings["cleanup.policy"] and {settings["retention.ms"], settings["retention.bytes"]} != {"-1"}
    ]


def _settings(admin: Admin, names: Collection[str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The settings of topics; of those that the broker does not show, none."""
    asked = admin.describe_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names], request_timeout=ANSWER_SECONDS
    )
    for topic, answer in asked.items():
        try:
            shown = answer.result()
        except KafkaException as error:
            if error.args[0].code() not in _NOT_SHOWN:
                raise
        else:
            yield topic.name, defaultdict(str, {name: entry.value or "" for name, entry in shown.items()})
