"""Confluent's wire format: a zero byte, the id of the writer's schema in four bytes, the record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from attrs import define, field

from ...domain.source.changelog.settings import DEBEZIUM
from ...domain.source.conversion import Undecodable
from ...domain.source.record_spec import RecordSpec
from ..records.decoder import RecordDecoder, to_json
from .registry import Registry, SchemaKind, WriterSchema

HEADER = 5


@define(eq=False)
class MessageParser(ABC):
    """Parses messages into what JSON would be: times as ISO-8601; bytes, decimals and all else as they are.

    Args:
        registry: has their schemas.
        changelog: whether they are Debezium's.
    """

    encoding: ClassVar[str]
    """Its name, for messages."""

    registry: Registry
    changelog: bool
    _last: tuple[bytes | None, int, dict[str, Any]] = field(init=False, default=(None, 0, {}))
    """The message that was read last, the number of its schema, and its record."""

    def parse(self, raw: bytes) -> object:
        """The parsed record of a message.

        Raises:
            Undecodable: it is not in the wire format, or was not written with its schema.
            RecursionError: it is nested too deeply.
            SourceUnavailable: the registry cannot be reached, or lacks the schema.
            ConfigError: the registry refuses the credentials, or does not support the encoding.
        """
        return self._record(raw)[1]

    def show(self, raw: bytes) -> bytes:
        """The record of a message as JSON; the message if it cannot be decoded."""
        try:
            return to_json(self._record(raw)[1]).encode()
        except (Undecodable, RecursionError):  # the reason is known already
            return raw

    def _record(self, raw: bytes) -> tuple[int, dict[str, Any]]:
        last = self._last  # several threads may parse
        if raw is not last[0]:  # each message is parsed, and then shown
            last = self._last = (raw, *self._read(raw))
        return last[1:]

    def _read(self, raw: bytes) -> tuple[int, dict[str, Any]]:
        if len(raw) < HEADER or raw[0]:
            raise Undecodable(
                f"not {self.encoding} in Confluent's wire format, which begins with a zero byte and the id of a schema"
            )
        number = int.from_bytes(raw[1:HEADER], "big")
        return number, self._read_record(number, raw)

    def _schema(self, number: int, kind: SchemaKind) -> WriterSchema:
        """The schema of an id, if it can be used."""
        schema = self.registry.schema(number, kind)
        if schema.problem:
            raise Undecodable(f"schema {number}: {schema.problem}")
        return schema

    @abstractmethod
    def _read_record(self, number: int, raw: bytes) -> dict[str, Any]:
        """The record of a message, whose first `HEADER` bytes name the schema of this number; see `parse`."""


def message_decoder(spec: RecordSpec, parser: type[MessageParser], registry: Registry) -> RecordDecoder:
    """A decoder of messages with schemas; their text is JSON. Its methods raise as `MessageParser.parse` does."""
    made = parser(registry, spec.format == DEBEZIUM)
    return RecordDecoder(spec, made.parse, made.show)
