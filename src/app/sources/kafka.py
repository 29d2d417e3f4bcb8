"""Topics of a Kafka broker."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from ...domain.ports import StreamSource
from ...domain.source.record_spec import JSON_FORMATS, REGISTRY_FORMATS, RecordSpec
from ..deployment.deployment import KafkaInput
from ..document.section import Section
from ..document.value_types import ADDRESS, OPTIONS, SERVERS, TEXT, TOPICS, Key, choice, whole
from ..registry.packages import require
from ..registry.sources import SourceKind
from .secrets import read_secret

if TYPE_CHECKING:
    from ...adapters.kafka.settings import KafkaSettings

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_REGISTRY = ("registry", "registry_auth", "registry_auth_file")


class KafkaKind(SourceKind[KafkaInput]):
    """``kind = "kafka"``."""

    formats = (*JSON_FORMATS, *REGISTRY_FORMATS)
    packages = MappingProxyType({"confluent_kafka": "kafka"})
    keys: ClassVar[Mapping[str, Key]] = {
        "servers": Key(SERVERS, required=True),
        "topics": Key(TOPICS, required=True),
        "max_rows_per_epoch": Key(whole(1)),
        "max_bytes_per_epoch": Key(whole(1)),
        "options": Key(OPTIONS, {}),
        "registry": Key(ADDRESS),
        "registry_auth": Key(TEXT),
        "registry_auth_file": Key(TEXT),
        "topic_ids": Key(choice("check", "ignore"), "check"),
        "compaction": Key(choice("check", "ignore"), "check"),
    }

    def spark_packages(self) -> tuple[str, ...]:
        from ...adapters.spark.session import KAFKA_PACKAGE

        return (KAFKA_PACKAGE,)

    def parse(self, table: Section) -> KafkaInput:
        has_schemas = table["format"] in REGISTRY_FORMATS
        if has_schemas and table["registry"] is None:
            raise table.error(f"is missing; {table['format']} needs the address of a schema registry", "registry")
        for name in _REGISTRY:
            if not has_schemas and table[name] is not None:
                raise table.error(f"has no effect unless format is one of {', '.join(REGISTRY_FORMATS)}", name)
        if "@" in urlsplit(table["registry"] or "").netloc:
            raise table.error("must not contain a password: set registry_auth or registry_auth_file", "registry")
        return KafkaInput(**{**table.fields(KafkaInput), "registry_auth": _read_auth(table)})

    def check(self, settings: KafkaInput) -> None:
        with require("confluent_kafka", extra="kafka"):
            from ...adapters.kafka.broker import check_options

        check_options(_settings(settings))

    def open_polars(self, settings: KafkaInput, records: RecordSpec, backend: str) -> StreamSource:
        with require("confluent_kafka", extra="kafka"):
            from ...adapters.kafka.polars_source import PolarsKafkaSource

        return PolarsKafkaSource(_settings(settings), records)

    def open_spark(self, settings: KafkaInput, records: RecordSpec, session: Any, backend: str) -> StreamSource:
        with require("confluent_kafka", extra="kafka"):
            from ...adapters.kafka.spark_source import SparkKafkaSource

        return SparkKafkaSource(_settings(settings), records, session)


def _read_auth(table: Section) -> str | None:
    """What the schema registry asks for.

    Raises:
        ConfigError: an HTTP header cannot have it; the message does not show it.
    """
    auth = read_secret(table, "registry_auth")
    key = "registry_auth" if table["registry_auth_file"] is None else "registry_auth_file"
    if _CONTROLS.search(auth or ""):
        raise table.error("the secret has a line break or another control character inside; write it without", key)
    if auth and ":" not in auth and max(auth) > "\xff":
        raise table.error("the token has a character that no HTTP header can have; write it again", key)
    return auth


def _settings(given: KafkaInput) -> KafkaSettings:
    from ...adapters.kafka.settings import KafkaSettings

    limits = (given.max_rows_per_epoch, given.options, given.max_bytes_per_epoch)
    checks = (given.topic_ids, given.compaction)
    return KafkaSettings(given.servers, given.topics, *limits, given.registry, given.registry_auth, *checks)
