"""Avro messages in Confluent's wire format: a zero byte, the id of the writer's schema in four bytes, the record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec
from attrs import define, field, frozen
from fastavro import schemaless_reader

from ...domain.source.changelog.settings import DEBEZIUM
from ...domain.source.decode import Undecodable
from ...domain.source.record_spec import RecordSpec
from ..records.dead_letters import records
from ..records.decoder import RecordDecoder, to_json
from .registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa

_HEADER = 5
_UNREADABLE = (EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError, InvalidOperation)
"""What fastavro raises for bytes that were not written with the schema, and for times out of range."""


def avro_decoder(spec: RecordSpec, registry: Registry) -> RecordDecoder:
    """A decoder of Avro messages; their text is JSON.

    Its methods raise `SourceUnavailable` if the registry cannot be reached or lacks a schema, and `ConfigError` if it
    refuses the credentials.
    """
    parser = _Parser(registry, described=spec.format == DEBEZIUM)
    return RecordDecoder(spec, parser.parse, parser.show)


@frozen
class AvroDeadLetters:
    """Decodes dead letters of Avro messages again; see `avro_decoder`.

    Args:
        spec: the spec of the messages, as declared now.
        registry: has their schemas.
    """

    spec: RecordSpec
    registry: Registry

    def __call__(self, letters: Iterable[pa.RecordBatch], first: int) -> Iterator[pa.RecordBatch]:
        return avro_decoder(self.spec, self.registry).batches(records(letters, first))


@define(eq=False)
class _Parser:
    """Parses messages into what JSON would be: times as ISO-8601, bytes as Base64, decimals and all else as they are.

    Args:
        registry: has their schemas.
        described: whether a record comes in an envelope with its schema, as the decoder of Debezium's messages takes
            it.
    """

    registry: Registry
    described: bool
    _raw: bytes | None = field(init=False, default=None)
    _last: tuple[int, dict[str, Any]] = field(init=False, default=(0, {}))

    def parse(self, raw: bytes) -> object:
        """The parsed record of a message.

        Raises:
            Undecodable: it is not in the wire format, or was not written with its schema.
        """
        number, record = self._record(raw)
        return {"schema": _described(self.registry, number), "payload": record} if self.described else record

    def show(self, raw: bytes) -> bytes:
        """The record of a message as JSON; the message if it cannot be decoded."""
        try:
            return to_json(self._record(raw)[1]).encode()
        except Undecodable:  # the reason is known already
            return raw

    def _record(self, raw: bytes) -> tuple[int, dict[str, Any]]:
        if raw is not self._raw:  # each message is parsed, and then shown
            self._last, self._raw = self._read(raw), raw
        return self._last

    def _read(self, raw: bytes) -> tuple[int, dict[str, Any]]:
        if len(raw) < _HEADER or raw[0]:
            raise Undecodable(
                "not Avro in Confluent's wire format, which begins with a zero byte and the id of a schema"
            )
        number = int.from_bytes(raw[1:_HEADER], "big")
        schema, stream = self.registry.schema(number, connect=self.described), BytesIO(raw)
        if schema.problem:
            raise Undecodable(f"schema {number}: {schema.problem}")
        stream.seek(_HEADER)
        try:
            record = msgspec.to_builtins(schemaless_reader(stream, schema.parsed, None), builtin_types=(Decimal,))
        except _UNREADABLE as error:
            raise Undecodable(f"not a record of schema {number}: {str(error) or type(error).__name__}") from error
        if rest := len(raw) - stream.tell():
            raise Undecodable(f"not a record of schema {number}: {rest} bytes are left")
        if not isinstance(record, dict):
            raise Undecodable(f"schema {number} is not that of a record")
        return number, record


@lru_cache(maxsize=4096)
def _described(registry: Registry, number: int) -> dict[str, Any] | None:
    """The columns of Debezium's envelope, as Kafka Connect describes them in JSON; None if it has no ``after``."""
    schema = registry.schema(number, connect=True).parsed
    for each in schema.get("fields", ()) if isinstance(schema, Mapping) else ():
        if each["name"] == "after":
            named = schema.get("__named_schemas", {})
            columns = _of_kind(each["type"], "fields", named).get("fields", ())
            return {"fields": [{"field": "after", "fields": [_column(column, named) for column in columns]}]}
    return None


def _column(column: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    return {"field": column["name"], **_value(column["type"], named)}


def _value(type_: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """A value with the name of its logical type in Kafka Connect, unless Avro's has made a number of it already."""
    if items := _of_kind(type_, "items", named):
        return {"items": _value(items["items"], named)}
    if record := _of_kind(type_, "fields", named):
        outside = {name: each for name, each in named.items() if each is not record}  # a record may contain itself
        return {"fields": [_column(each, outside) for each in record["fields"]]}
    found = next((each for each in _branches(type_) if isinstance(each, Mapping)), {})
    return {"name": None if "logicalType" in found else found.get("connect.name")}


def _of_kind(type_: Any, part: str, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """The type with ``fields``, or ``items``, in a type that may be a union, or the name of a type; empty if none."""
    found = (named.get(each) if isinstance(each, str) else each for each in _branches(type_))
    return next((each for each in found if isinstance(each, Mapping) and part in each), {})


def _branches(type_: Any) -> list[Any]:
    return type_ if isinstance(type_, list) else [type_]
