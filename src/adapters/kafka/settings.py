"""How a Kafka cluster is reached: librdkafka's settings, and the same for the Java client."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from attrs.validators import ge, min_len, optional

from ...domain.errors import ConfigError
from ...domain.source.epoch_size import EpochSize

_SILENT = logging.getLogger(f"{__name__}.client")
_SILENT.disabled = True
_SAME_IN_JAVA = ("security.protocol", "sasl.mechanism", "client.id")
_SASL_NAMES = ("sasl.mechanisms", "sasl.username", "sasl.password")
_AUTHORITY = "ssl.ca.location"
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


_USUAL = EpochSize(rows=200_000, bytes=64 * 1024 * 1024)


@frozen
class KafkaSettings:
    """The topics to read, and their cluster.

    Args:
        servers: ``host:port``, several separated by commas.
        topics: the topics that make one stream.
        max_rows_per_epoch: the largest number of records in an epoch, shared fairly among the partitions. One of each
            partition is read in any case.
        options: further client settings as librdkafka names them, for security above all; they are never shown.
        max_bytes_per_epoch: about the largest number of bytes of records in an epoch. If neither limit is set, an epoch
            has at most 200,000 records and 64 MiB.
        registry: the address of the schema registry, for Avro and Protobuf.
        registry_auth: ``user:password`` or a token for it; never shown.
        topic_ids: ``check`` to stop if a topic was deleted and created again; ``ignore`` to read on at its offsets.
        compaction: ``check`` to do about compacted topics what `RecordSpec.compacted` says; ``ignore`` to read them.
    """

    servers: str
    topics: tuple[str, ...] = field(validator=min_len(1))
    max_rows_per_epoch: int | None = field(default=None, validator=optional(ge(1)))
    options: Mapping[str, str] = field(factory=dict, repr=False)
    max_bytes_per_epoch: int | None = field(default=None, validator=optional(ge(1)))
    registry: str | None = None
    registry_auth: str | None = field(default=None, repr=False)
    topic_ids: str = "check"
    compaction: str = "check"

    @property
    def title(self) -> str:
        """What messages call the source."""
        return f"the source of Kafka topics {', '.join(self.topics)}"

    @property
    def limit(self) -> EpochSize:
        if self.max_rows_per_epoch is None and self.max_bytes_per_epoch is None:
            return _USUAL
        return EpochSize(self.max_rows_per_epoch, self.max_bytes_per_epoch)


@frozen
class SinkSettings:
    """The topic to write, and its cluster.

    Args:
        servers: ``host:port``, several separated by commas.
        topic: the topic, which must exist. ``<topic>.epochs`` is created next to it if it is missing.
        options: further client settings as librdkafka names them, for security above all; they are never shown.
    """

    servers: str
    topic: str
    options: Mapping[str, str] = field(factory=dict, repr=False)

    @property
    def title(self) -> str:
        """What messages call the sink."""
        return f"publish to Kafka topic {self.topic!r}"


def client_options(settings: KafkaSettings | SinkSettings) -> dict[str, Any]:
    """The settings of a client of the cluster."""
    # Errors come as exceptions; the client's own lines would only repeat them.
    return {**settings.options, "bootstrap.servers": settings.servers, "log_level": 0, "logger": _SILENT}


def java_options(options: Mapping[str, str]) -> dict[str, str]:
    """Client settings under the names of the Java client, and so of Spark.

    Raises:
        ConfigError: a setting has no known counterpart.
    """
    known = (*_SAME_IN_JAVA, *_SASL_NAMES, _AUTHORITY)
    if unknown := sorted(set(options) - set(known)):
        raise ConfigError(f"Kafka options {', '.join(unknown)} cannot be used with Spark; known: {', '.join(known)}")
    java = {name: options[name] for name in _SAME_IN_JAVA if name in options}
    if mechanism := options.get("sasl.mechanisms"):
        java["sasl.mechanism"] = mechanism
    if "sasl.username" in options:
        java["sasl.jaas.config"] = _login(java.get("sasl.mechanism", ""), options)
    if _AUTHORITY in options:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": options[_AUTHORITY]}
    return java


def _login(mechanism: str, options: Mapping[str, str]) -> str:
    if mechanism not in _LOGIN_MODULES:
        raise ConfigError(f"Kafka option sasl.mechanism is {mechanism!r}; known: {', '.join(_LOGIN_MODULES)}")
    user, password = (_quoted(options.get(name, "")) for name in ("sasl.username", "sasl.password"))
    return f"{_LOGIN_MODULES[mechanism]} required username={user} password={password};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
