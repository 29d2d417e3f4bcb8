"""The values of Protobuf messages, as JSON would have them; bytes stay bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import Any, TypeAlias

from attrs import define, field
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from ...domain.duration import FIRST_MICRO, LAST_MICRO, WALL_EPOCH
from ...domain.source.changelog.values import scaled
from ...domain.source.decode import NUMERAL
from .iso_times import iso_wall_time

Read: TypeAlias = Callable[[Any], Any]
"""Makes a value of JSON from a value of Protobuf."""

_AMBIGUOUS = 2**53
"""Below it a whole double stands for one whole number, from it on for several."""
_MICROS, _NANOS = 1_000_000, 1_000_000_000
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


@define(eq=False)
class MessageReaders:
    """Makes the functions that read messages: into a dict of all fields by their names in the schema.

    A field that is not set is None if its schema can tell so, else the default of its type.

    Args:
        wall: whether a Timestamp is on the wall clock of a zone that is not known here, as Kafka Connect's are.
    """

    wall: bool = False
    _known: dict[str, Read] = field(init=False, factory=dict)

    def of(self, message_type: Any) -> Read:
        """The function for messages of a type; it raises ValueError for a value that does not exist.

        Args:
            message_type: the type's descriptor. One instance serves only one pool of descriptors.
        """
        name = message_type.full_name
        if (known := self._known.get(name)) is not None:
            return known
        if name in _WRAPPERS:
            return self._wrapped(message_type.fields_by_name["value"])
        if (read := self._read_as_value(name)) is not None:
            return read
        fields = self._known[name] = _Fields()  # before its fields are known: one may be of the same type
        fields.learn(message_type, self)
        return fields

    def converter(self, each: Any) -> Read | None:
        """The function for one value of a field; None if the value stays as it is."""
        if each.message_type is not None:
            return self.of(each.message_type)
        if each.type == each.TYPE_STRING and not _has_only_utf_8(each.file):
            return _text(each.full_name)
        return None if each.enum_type is None else _named(each.enum_type)

    def _wrapped(self, value: Any) -> Read:
        get, convert = attrgetter("value"), self.converter(value)
        return get if convert is None else lambda message: convert(get(message))

    def _read_as_value(self, name: str) -> Read | None:
        if name == "google.protobuf.Timestamp":
            return _wall_time if self.wall else _instant
        return _AS_VALUES.get(name)


@define(eq=False)
class _Fields:
    """Reads the fields of one type of message."""

    _names: tuple[str, ...] = field(init=False, default=())
    _get: Read = field(init=False, default=lambda _: ())
    _optional: list[str] = field(init=False, factory=list)
    _required: list[str] = field(init=False, factory=list)
    _converted: list[tuple[str, Read]] = field(init=False, factory=list)

    def learn(self, message_type: Any, readers: MessageReaders) -> None:
        self._names = tuple(each.name for each in message_type.fields)
        self._get = _getter(self._names)
        for each in message_type.fields:
            self._learn(each, readers)

    def _learn(self, each: Any, readers: MessageReaders) -> None:
        convert = readers.converter(each)
        if _is_repeated(each):
            convert = _of_map(each.message_type, readers) if _is_map(each) else _of_list(convert)
        elif _is_required(each):
            self._required.append(each.name)
        elif each.has_presence and not each.has_default_value:
            self._optional.append(each.name)
        if convert is not None:
            self._converted.append((each.name, convert))

    def __call__(self, message: Any) -> dict[str, Any]:
        """The fields of a message.

        Raises:
            ValueError: a value does not exist, or a required field is missing.
        """
        values = dict(zip(self._names, self._get(message), strict=True))
        has = type(message).HasField  # the message's own attribute may be a field of this name
        for name in self._optional:
            if not has(message, name):
                values[name] = None
        for name in self._required:
            if not has(message, name):
                raise ValueError(f"the required field {name!r} is missing")
        for name, convert in self._converted:
            if (value := values[name]) is not None:
                values[name] = convert(value)
        return values


def _getter(names: tuple[str, ...]) -> Read:
    """A function that returns the attributes of these names, as many as there are."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda message: tuple(getattr(message, name) for name in names)


def _is_repeated(each: Any) -> bool:
    """Whether a field has many values: before protobuf 6.31 its label says so, since 7 there are no labels."""
    return bool(each.is_repeated if hasattr(each, "is_repeated") else each.label == each.LABEL_REPEATED)


def _is_required(each: Any) -> bool:
    return bool(each.is_required if hasattr(each, "is_required") else each.label == each.LABEL_REQUIRED)


def _is_map(each: Any) -> bool:
    return each.message_type is not None and each.message_type.GetOptions().map_entry


def _of_list(convert: Read | None) -> Read:
    return list if convert is None else lambda values: [convert(value) for value in values]


def _of_map(entry: Any, readers: MessageReaders) -> Read:
    """A reader of maps. Entries are sorted: their order in a message means nothing, and differs between processes."""
    convert = readers.converter(entry.fields_by_name["value"])
    of_key = entry.fields_by_name["key"]
    key: Callable[[Any], str] = _truth if of_key.type == of_key.TYPE_BOOL else str
    text = _text(of_key.full_name) if of_key.type == of_key.TYPE_STRING else None

    def read(values: Mapping[Any, Any]) -> dict[str, Any]:
        keys = values if text is None else map(text, values)
        items = ((each, values[each]) for each in sorted(keys))
        return {key(each): value if convert is None else convert(value) for each, value in items}

    return read


def _truth(value: bool) -> str:  # noqa: FBT001 - a key of a map
    return "true" if value else "false"


def _named(enum_type: Any) -> Read:
    """A reader of an enum: the first name of a number, or the number if it has none."""
    names = {each.number: each.name for each in reversed(enum_type.values)}
    return lambda number: names.get(number, number)


def _has_only_utf_8(file: Any) -> bool:
    """Whether Protobuf itself refuses a message with a string that is not UTF-8."""
    declared = FileDescriptorProto()
    file.CopyToProto(declared)
    return bool(declared.syntax == "proto3")


def _text(name: str) -> Read:
    """A reader of strings, which Protobuf returns as bytes if they are not UTF-8."""

    def read(value: Any) -> str:
        if type(value) is not str:
            raise ValueError(f"the field {name!r} is not UTF-8")
        return value

    return read


def _wall_time(message: Any) -> str:
    seconds, nanos = message.seconds, message.nanos
    if not 0 <= nanos < _NANOS:
        raise ValueError(f"a Timestamp of {seconds} seconds and {nanos} nanoseconds is out of range")
    if not FIRST_MICRO <= seconds * _MICROS <= LAST_MICRO:
        return iso_wall_time(seconds * _MICROS) + (f".{nanos:09}" if nanos else "")
    moment = WALL_EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    # A fraction that is finer than a microsecond stays in the text: what is read as a timestamp refuses it.
    return f"{moment.isoformat(timespec='microseconds')}{nanos % 1000:03}" if nanos % 1000 else moment.isoformat()


def _instant(message: Any) -> str:
    return f"{_wall_time(message)}Z"


def _day(message: Any) -> str:
    return f"{message.year:04}-{message.month:02}-{message.day:02}"


def _number(message: Any) -> Decimal:
    if not NUMERAL.fullmatch(text := message.value or "0"):
        raise ValueError(f"{text!r} is not a Decimal")
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} has an exponent out of range") from error


def _scaled(message: Any) -> Decimal:
    return scaled(int.from_bytes(message.value, signed=True), message.scale)


def _json(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    value = getattr(message, kind)
    if kind == "number_value":
        return int(value) if value.is_integer() and abs(value) < _AMBIGUOUS else value
    convert = _AS_VALUES[value.DESCRIPTOR.full_name] if kind in {"struct_value", "list_value"} else None
    return value if convert is None else convert(value)


_AS_VALUES: Mapping[str, Read] = {
    "google.type.Date": _day,
    "google.type.Decimal": _number,
    "confluent.type.Decimal": _scaled,
    "google.protobuf.Value": _json,
    "google.protobuf.ListValue": lambda message: [_json(each) for each in message.values],
    "google.protobuf.Struct": lambda message: {each: _json(message.fields[each]) for each in sorted(message.fields)},
}
"""Messages that are one value of JSON, by the full names of their types."""
