"""Protobuf messages in Confluent's wire format: before the record comes the place of its message in the schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from attrs import define, field

from ...domain.source.conversion import Undecodable
from .message_parser import HEADER, MessageParser
from .protobuf_schema import PROTOBUF_SCHEMA, UNREADABLE
from .protobuf_values import MessageReaders

_FIRST = (0,)


@define(eq=False)
class ProtobufParser(MessageParser):
    """Parses Protobuf messages."""

    encoding: ClassVar[str] = "Protobuf"
    _known: dict[tuple[int, tuple[int, ...]], Callable[[bytes], dict[str, Any]]] = field(init=False, factory=dict)

    def _read_record(self, number: int, raw: bytes) -> dict[str, Any]:
        path, begin = _message_path(raw)
        read = self._known.get((number, path))
        if read is None:
            read = self._known[number, path] = self._reader(number, path)
        try:
            return read(raw[begin:])
        except UNREADABLE as error:
            raise Undecodable(f"not a message of schema {number}: {error}") from error

    def _reader(self, number: int, path: tuple[int, ...]) -> Callable[[bytes], dict[str, Any]]:
        message = self._schema(number, PROTOBUF_SCHEMA).parsed.message_class(path)
        if message is None:
            raise Undecodable(f"schema {number} has no message at {'/'.join(map(str, path))}")
        if self.changelog and not _tells_nulls(message.DESCRIPTOR):
            raise Undecodable(
                f"schema {number}: null and 0 are the same in it, as its `ts_ms` is not optional; set"
                " optional.for.nullables=true for the connector's value.converter"
            )
        parse, read = message.FromString, MessageReaders(wall=self.changelog).of(message.DESCRIPTOR)
        return lambda raw: read(parse(raw))


def _tells_nulls(message_type: Any) -> bool:
    """Whether null is not written as 0: then ``ts_ms`` can be unset, which is optional in each envelope of Debezium."""
    fields = message_type.fields_by_name
    return "op" not in fields or ("ts_ms" in fields and fields["ts_ms"].has_presence)


def _message_path(raw: bytes) -> tuple[tuple[int, ...], int]:
    """The place of a message in its schema, and where its bytes begin."""
    if raw[HEADER : HEADER + 1] == b"\0":  # most are the first message
        return _FIRST, HEADER + 1
    try:
        count, at = _varint(raw, HEADER)
        if not 0 < count <= len(raw):
            raise Undecodable(f"the place of the message in its schema has {count} numbers")
        path = []
        for _ in range(count):
            number, at = _varint(raw, at)
            path.append(number)
    except IndexError as error:
        raise Undecodable("the message ends before its place in the schema is known") from error
    return tuple(path), at


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, with its sign in the lowest bit; and where it ends."""
    number = shift = 0
    while (byte := raw[at]) & 0x80:
        number |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
    number |= byte << shift
    return number >> 1 ^ -(number & 1), at + 1
