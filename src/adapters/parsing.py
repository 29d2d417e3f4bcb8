"""JSON documents out of bytes, digits of numbers kept; of a changelog's messages only what decoding has a use for."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias, TypedDict

import msgspec
from attrs import define, field

from ..domain.changelog.settings import CANAL, DEBEZIUM
from ..domain.decode import Undecodable

Parse: TypeAlias = Callable[[bytes], object]
"""The bytes of a record -> the parsed record, or `Undecodable`."""

_ENVELOPED = b'{"schema":'
_SCHEMAS = 64
_parse_json = msgspec.json.Decoder(float_hook=Decimal).decode


class _CanalMessage(TypedDict, total=False):
    """All that Canal writes; what is of no use stays as it came, for rows that are shown alone."""

    data: Any
    database: Any
    es: Any
    gtid: Any
    id: Any
    isDdl: Any
    mysqlType: msgspec.Raw
    old: Any
    pkNames: Any
    sql: Any
    sqlType: msgspec.Raw
    table: Any
    ts: Any
    type: Any


class _DebeziumSource(TypedDict, total=False):
    db: Any
    schema: Any
    table: Any
    ts_ms: Any
    txId: Any
    gtid: Any
    file: Any
    pos: Any
    lsn: Any
    scn: Any
    row: Any


class _DebeziumChange(TypedDict, total=False):
    before: Any
    after: Any
    op: Any
    source: _DebeziumSource | None
    transaction: Any


class _DebeziumEnvelope(TypedDict):
    schema: msgspec.Raw
    payload: _DebeziumChange


_parse_canal = msgspec.json.Decoder(_CanalMessage, float_hook=Decimal).decode
_parse_change = msgspec.json.Decoder(_DebeziumChange, float_hook=Decimal).decode
_parse_envelope = msgspec.json.Decoder(_DebeziumEnvelope, float_hook=Decimal).decode


def parse_json(raw: bytes) -> object:
    """Parse one JSON document.

    Raises:
        Undecodable: it is not JSON, or not UTF-8.
    """
    try:
        return _parse_json(raw)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"no JSON: {error}") from error


def parser(format_: str) -> Parse:
    """What parses the records of a JSON format; it raises as `parse_json` does."""
    if format_ == DEBEZIUM:
        return _DebeziumParser()
    return _canal if format_ == CANAL else parse_json


def _canal(raw: bytes) -> object:
    try:
        return _parse_canal(raw)
    except (ValueError, RecursionError):
        return parse_json(raw)  # of no known shape: it says what is wrong, or else the decoder does


@define(eq=False)
class _DebeziumParser:
    """Parses messages, and each schema only once: it comes with every message, and is longer than that."""

    _text: bytes = field(init=False, default=b"")
    _schema: object = field(init=False, default=None)
    _known: dict[bytes, object] = field(init=False, factory=dict)

    def __call__(self, raw: bytes) -> object:
        try:
            message: Any = self._enveloped(raw) if raw.startswith(_ENVELOPED) else _parse_change(raw)
        except (ValueError, RecursionError):
            return parse_json(raw)
        return message if "op" in message.get("payload", message) else parse_json(raw)

    def _enveloped(self, raw: bytes) -> dict[str, object]:
        message = _parse_envelope(raw)
        text = bytes(message["schema"])
        if text != self._text:
            self._text, self._schema = text, self._parsed(text)
        return {"schema": self._schema, "payload": message["payload"]}

    def _parsed(self, text: bytes) -> object:
        if text not in self._known:
            if len(self._known) == _SCHEMAS:
                self._known.clear()
            self._known[text] = _parse_json(text)
        return self._known[text]
