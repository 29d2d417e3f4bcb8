"""Parses JSON documents, keeping all digits of numbers; of changelog messages only the parts that decoding needs."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias, TypedDict

import msgspec
from attrs import define, field

from ...domain.source.changelog.settings import CANAL, DEBEZIUM
from ...domain.source.conversion import Undecodable
from ...domain.source.decode import ONE_OBJECT
from ...domain.source.record_spec import RecordSpec
from .not_utf8 import other_format

Parse: TypeAlias = Callable[[bytes], object]
"""The bytes of a record -> the parsed record, or `Undecodable`."""

_ENVELOPED = b'{"schema":'
_SCHEMAS = 64
_parse_json = msgspec.json.Decoder(float_hook=Decimal).decode


class _CanalMessage(TypedDict, total=False):
    data: Any
    database: Any
    es: Any
    gtid: Any
    isDdl: Any
    mysqlType: Any
    old: Any
    table: Any
    type: Any


class _Table(TypedDict, total=False):
    db: Any
    schema: Any
    table: Any


class _Change(TypedDict, total=False):
    before: Any
    after: Any
    op: Any
    source: _Table | None


class _Envelope(msgspec.Struct):
    """No `TypedDict`: msgspec takes no `Raw` in one."""

    schema: msgspec.Raw
    payload: _Change


class _Source(_Table, total=False):
    name: Any
    server_id: Any
    ts_ms: Any
    txId: Any
    gtid: Any
    file: Any
    pos: Any
    lsn: Any
    scn: Any
    row: Any


class _ToldChange(TypedDict, total=False):
    before: Any
    after: Any
    op: Any
    source: _Source | None
    transaction: Any


class _ToldEnvelope(msgspec.Struct):
    schema: msgspec.Raw
    payload: _ToldChange


def _decoder(shape: object) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(shape, float_hook=Decimal).decode


_parse_canal = _decoder(_CanalMessage)
_PARSE_DEBEZIUM = {
    False: (_decoder(_Change), _decoder(_Envelope)),
    True: (_decoder(_ToldChange), _decoder(_ToldEnvelope)),
}
"""The parsers of a plain message and of one in an envelope, by whether metadata, transactions or positions are read."""


_UNREADABLE = (ValueError, ArithmeticError, RecursionError)
"""What parsers raise on a record that they cannot read; `parse_json` tells which it is."""
_BRACKETS = (b"{", b"}", b"[", b"]", b"},", b"],", b"}]")


def parse_json(raw: bytes) -> object:
    """Parse one JSON document.

    Raises:
        Undecodable: it is not JSON, not UTF-8, or nested too deeply.
    """
    try:
        return _parse_json(raw)
    except ArithmeticError as error:
        raise Undecodable("a number with an exponent out of range") from error
    except RecursionError as error:
        raise Undecodable("nested too deeply") from error
    except ValueError as error:
        part = f"a line of a longer document; {ONE_OBJECT}" if _is_part(raw) else other_format(raw) or error
        raise Undecodable(f"not JSON: {part}") from error


def _is_part(raw: bytes) -> bool:
    """Whether a record looks like one line of a document that spans several lines, an array or a printed object."""
    line = raw.strip()
    return line in _BRACKETS or line.startswith((b'"', b"[")) or line.endswith((b",", b"{", b"["))


def parser(spec: RecordSpec) -> Parse:
    """The parser for the records of a JSON format; it raises as `parse_json` does."""
    if spec.format == DEBEZIUM:
        return _DebeziumParser(
            *_PARSE_DEBEZIUM[bool(spec.changes.metadata) or spec.tells_transactions or spec.tells_log]
        )
    return _canal if spec.format == CANAL else parse_json


def _canal(raw: bytes) -> object:
    try:
        return _parse_canal(raw)
    except _UNREADABLE:
        return parse_json(raw)  # an unknown shape: this parser, or the decoder, reports what is wrong


@define(eq=False)
class _DebeziumParser:
    """Parses messages, and each schema only once: every message contains the schema, which is longer than its row."""

    _parse: Callable[[bytes], Any]
    _parse_envelope: Callable[[bytes], Any]
    _text: bytes = field(init=False, default=b"")
    _schema: object = field(init=False, default=None)
    _known: dict[bytes, object] = field(init=False, factory=dict)

    def __call__(self, raw: bytes) -> object:
        try:
            message: Any = self._enveloped(raw) if raw.startswith(_ENVELOPED) else self._parse(raw)
        except _UNREADABLE:
            return parse_json(raw)
        return message if "op" in message.get("payload", message) else parse_json(raw)

    def _enveloped(self, raw: bytes) -> dict[str, object]:
        message = self._parse_envelope(raw)
        text = bytes(message.schema)
        if text != self._text:
            self._text, self._schema = text, self._parsed(text)
        return {"schema": self._schema, "payload": message.payload}

    def _parsed(self, text: bytes) -> object:
        if text not in self._known:
            if len(self._known) == _SCHEMAS:
                self._known.clear()
            self._known[text] = _parse_json(text)
        return self._known[text]
