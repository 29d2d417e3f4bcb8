"""Avro messages in Confluent's wire format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from io import BytesIO
from typing import Any, ClassVar
from uuid import UUID

import msgspec
from attrs import define, frozen

from ...domain.duration import DAY_MICROS
from ...domain.errors import NotInstalled
from ...domain.source.changelog.values import scaled
from ...domain.source.conversion import Undecodable
from .iso_times import iso_wall_time
from .message_parser import HEADER, MessageParser
from .registry import Registry, SchemaKind

try:
    from fastavro import parse_schema, schemaless_reader
    from fastavro._read_py import schemaless_reader as python_reader
    from fastavro.read import LOGICAL_READERS
    from fastavro.schema import SchemaParseException, UnknownType
except ImportError as missing:
    raise NotInstalled("Avro needs fastavro: pip install 'headwater[avro]'") from missing

_UNREADABLE = (EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError, InvalidOperation)
"""What fastavro raises for bytes that were not written with the schema, and what readers of values raise."""
_CONNECT_NAMES = {
    "date": "org.apache.kafka.connect.data.Date",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
}
"""What Kafka Connect calls times of Avro, in case that it does not say (``connect.meta.data=false``)."""
_OWN = "headwater-"
"""Begins the names of logical types that are read otherwise than by fastavro."""
_TIMES = frozenset(each.partition("-")[2] for each in LOGICAL_READERS if "time" in each or each.endswith("-date"))
_DECIMAL = f"{_OWN}decimal"
"""In place of Avro's own logical type: fastavro rounds decimals to the precision of the schema, which need not hold."""
_UUID = f"{_OWN}uuid"
"""In place of Avro's own logical type, which fastavro reads only if they are strings: UUIDs of 16 bytes."""
_UUID_BYTES = {"type": "fixed", "logicalType": "uuid", "size": 16}
_WHOLE = "value"
"""A message is read as the only field of a record: fastavro takes a name, or a union of names, only inside a schema."""


def _read_decimal(data: bytes, schema: dict[Any, Any] | None = None, _: Any = None) -> Decimal:
    return scaled(int.from_bytes(data, signed=True), (schema or {}).get("scale", 0))


def _read_uuid(data: bytes, _schema: dict[Any, Any] | None = None, _: Any = None) -> UUID:
    return UUID(bytes=data)


def _of_any_year(kind: str, micros: int, end: str = "", length: int | None = None) -> Callable[..., Any]:
    """A reader of times that gives a text for those that Python cannot hold; see `iso_wall_time`.

    Args:
        kind: fastavro's name for it.
        micros: the microseconds in a unit.
        end: what comes behind the text.
        length: how many characters of the text are cut off at its end.
    """
    read = LOGICAL_READERS[kind]

    def read_time(number: int, schema: dict[Any, Any] | None = None, more: Any = None) -> Any:
        try:
            return read(number, schema, more)
        except (OverflowError, ValueError):
            return iso_wall_time(number * micros)[:length] + end

    return read_time


def _of_any_length(kind: str, a_second: int) -> Callable[..., Any]:
    """A reader of times that gives a text for those that no day has: fastavro takes some below 0 for other times."""
    read = LOGICAL_READERS[kind]

    def read_time(number: int, schema: dict[Any, Any] | None = None, more: Any = None) -> Any:
        if 0 <= number < 86_400 * a_second:
            return read(number, schema, more)
        seconds, rest = divmod(abs(number), a_second)
        text = f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        micros = f".{rest * 1_000_000 // a_second:06}" if rest else ""
        return f"{'-' if number < 0 else ''}{text}{micros}"

    return read_time


LOGICAL_READERS.update({f"{type_}-{_DECIMAL}": _read_decimal for type_ in ("bytes", "fixed")})
LOGICAL_READERS[f"fixed-{_UUID}"] = _read_uuid
LOGICAL_READERS[f"int-{_OWN}date"] = _of_any_year("int-date", DAY_MICROS, length=-len("T00:00:00"))
for _unit, _micros in (("millis", 1_000), ("micros", 1)):
    for _kind, _end in (("timestamp", "Z"), ("local-timestamp", "")):
        _name = f"{_kind}-{_unit}"
        LOGICAL_READERS[f"long-{_OWN}{_name}"] = _of_any_year(f"long-{_name}", _micros, _end)
LOGICAL_READERS[f"int-{_OWN}time-millis"] = _of_any_length("int-time-millis", 1_000)
LOGICAL_READERS[f"long-{_OWN}time-micros"] = _of_any_length("long-time-micros", 1_000_000)


@define(eq=False)
class AvroParser(MessageParser):
    """Parses Avro messages. A change of Debezium's comes in an envelope with its schema, as its decoder takes it."""

    encoding: ClassVar[str] = "Avro"

    def parse(self, raw: bytes) -> object:
        number, record = self._record(raw)
        return {"schema": _described(self.registry, number), "payload": record} if self.changelog else record

    def _read_record(self, number: int, raw: bytes) -> dict[str, Any]:
        schema, stream = self._schema(number, _CONNECT if self.changelog else _PLAIN), BytesIO(raw)
        stream.seek(HEADER)
        try:
            read: Any = schema.parsed.read(stream, schema.parsed.schema, None)
            record = msgspec.to_builtins(read[_WHOLE], builtin_types=(Decimal, bytes))
        except _UNREADABLE as error:
            raise Undecodable(f"not a record of schema {number}: {str(error) or type(error).__name__}") from error
        if rest := len(raw) - stream.tell():
            raise Undecodable(f"not a record of schema {number}: {rest} bytes are left")
        if not isinstance(record, dict):
            raise Undecodable(f"schema {number} is not that of a record")
        return record


@lru_cache(maxsize=4096)
def _described(registry: Registry, number: int) -> dict[str, Any] | None:
    """The columns of Debezium's envelope, as Kafka Connect describes them in JSON; None if it has no ``after``."""
    parsed = registry.schema(number, _CONNECT).parsed.schema
    named, whole = parsed["__named_schemas"], parsed["fields"][0]["type"]
    for each in () if isinstance(whole, list) else _of_kind(whole, "fields", named).get("fields", ()):
        if each["name"] == "after":
            columns = _of_kind(each["type"], "fields", named).get("fields", ())
            return {"fields": [{"field": "after", "fields": [_column(column, named) for column in columns]}]}
    return None


def _column(column: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    return {"field": column["name"], **_value(column["type"], named)}


def _value(type_: Any, named: Mapping[str, Any]) -> dict[str, Any]:
    """A value with the name of its logical type in Kafka Connect, unless Avro's has made a number of it already."""
    for part in ("items", "values"):
        if several := _of_kind(type_, part, named):
            return {part: _value(several[part], named)}
    if record := _of_kind(type_, "fields", named):
        outside = {name: each for name, each in named.items() if each is not record}  # a record may contain itself
        return {"fields": [_column(each, outside) for each in record["fields"]]}
    found = next((each for each in _branches(type_) if isinstance(each, Mapping)), {})
    return {"name": None if "logicalType" in found else found.get("connect.name")}


def _of_kind(type_: Any, part: str, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """The type with ``fields``, ``items`` or ``values`` in a type that may be a union, or a name; empty if none."""
    found = (named.get(each) if isinstance(each, str) else each for each in _branches(type_))
    return next((each for each in found if isinstance(each, Mapping) and part in each), {})


def _branches(type_: Any) -> list[Any]:
    return type_ if isinstance(type_, list) else [type_]


@frozen(eq=False)
class _Parsed:
    """A parsed schema.

    Args:
        schema: as fastavro parses it.
        read: reads the messages that were written with it.
    """

    schema: Any
    read: Callable[..., Any]


def _parse(registry: Registry, answer: Mapping[str, Any], *, connect: bool) -> _Parsed:
    """Parse a schema as that of the only field of a record."""
    named: dict[str, Any] = {}
    only = {"name": _WHOLE, "type": _known(registry, answer, connect=connect, named=named)}
    parsed = parse_schema({"type": "record", "name": "HeadwaterMessage", "fields": [only]}, named_schemas=named)
    # A message may be nested as deeply as it is long then, and the compiled reader would end the process: it takes a
    # part of the stack for each level. Python's own raises RecursionError.
    return _Parsed(parsed, python_reader if any(map(_contains_itself, named.values())) else schemaless_reader)


def _contains_itself(type_: Any, around: frozenset[str] = frozenset()) -> bool:
    """Whether a parsed type has, anywhere inside, the name of a record around it."""
    if isinstance(type_, str):
        return type_ in around
    if isinstance(type_, list):
        return any(_contains_itself(each, around) for each in type_)
    fields = type_.get("fields", ())
    inside = [each["type"] for each in fields] + [type_[part] for part in ("items", "values") if part in type_]
    around |= {type_["name"]} if fields else frozenset()
    return any(_contains_itself(each, around) for each in inside)


def _known(registry: Registry, answer: Mapping[str, Any], *, connect: bool, named: dict[str, Any]) -> Any:
    """A schema, after those that it refers to have become known.

    Args:
        registry: where it was found.
        answer: the schema as the registry returned it.
        connect: whether times of Kafka Connect stay numbers, as the decoder of Debezium's messages reads them.
        named: the named types that are known; those that it refers to are added.
    """
    for each in answer.get("references") or ():
        parse_schema(_known(registry, registry.referred(each), connect=connect, named=named), named_schemas=named)
    return _adapted(json.loads(answer["schema"]), connect=connect)


def _adapted(schema: Any, *, connect: bool) -> Any:
    """A schema with logical types of `_OWN`; for `connect`, its times of Kafka Connect have no logical type.

    UUIDs that are texts have none either: fastavro would rewrite some, and refuse others.
    """
    if isinstance(schema, list):
        return [_adapted(each, connect=connect) for each in schema]
    if not isinstance(schema, dict):
        return schema
    adapted = {name: _adapted(each, connect=connect) for name, each in schema.items()}
    kind = schema.get("logicalType")
    if kind == "uuid" and schema.get("type") == "string":
        del adapted["logicalType"]
    elif connect and kind in _CONNECT_NAMES:
        del adapted["logicalType"]
        adapted.setdefault("connect.name", _CONNECT_NAMES[kind])
    elif kind == "decimal" and "precision" in schema:
        adapted["logicalType"] = _DECIMAL
    elif schema.items() >= _UUID_BYTES.items():
        adapted["logicalType"] = _UUID
    elif kind in _TIMES:
        adapted["logicalType"] = _OWN + kind
    return adapted


_INVALID = (ValueError, TypeError, KeyError, SchemaParseException, UnknownType)
_PLAIN = SchemaKind("Avro", partial(_parse, connect=False), _INVALID)
_CONNECT = SchemaKind("Avro", partial(_parse, connect=True), _INVALID)
