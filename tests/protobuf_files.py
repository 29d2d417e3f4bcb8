"""Protobuf's files and messages, declared in short: there is no compiler here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pool, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.type import date_pb2, decimal_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

_BUILT_IN = tuple(each.DESCRIPTOR.name for each in (struct_pb2, timestamp_pb2, wrappers_pb2, date_pb2, decimal_pb2))
_LABELS = {
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}


def message(name: str, fields: str = "", *inside: DescriptorProto, **enums: str) -> DescriptorProto:
    """A message: `fields` such as "int64 id; optional string name; repeated .shop.Tag tags; kind: int32 a".

    A type with a dot is a message, or an enum if it begins with "enum.". A word and a colon name a oneof; a type
    `map<k,v>` is not known: declare its entry among the messages `inside`, with `entry`.

    Args:
        enums: the names of values by the name of an enum in it.
    """
    made = DescriptorProto(name=name)
    for number, declared in enumerate(filter(None, map(str.strip, fields.split(";"))), 1):
        _add(made, number, declared)
    for each in inside:
        made.nested_type.add().CopyFrom(each)
    for each, values in enums.items():
        enum = made.enum_type.add(name=each)
        for at, value in enumerate(values.split()):
            enum.value.add(name=value, number=at)
    return made


def entry(name: str, key: str, value: str) -> DescriptorProto:
    """The entry of a map: the field is then `repeated .NAME`."""
    made = message(name, f"{key} key; {value} value")
    made.options.map_entry = True
    return made


def _add(made: DescriptorProto, number: int, declared: str) -> None:
    oneof, _, rest = declared.rpartition(": ")
    *label, type_, name = rest.split()
    field = made.field.add(
        name=name, number=number, label=_LABELS.get("".join(label), FieldDescriptorProto.LABEL_OPTIONAL)
    )
    if type_.startswith("."):
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, type_
    elif type_.startswith("enum."):
        field.type, field.type_name = FieldDescriptorProto.TYPE_ENUM, type_.removeprefix("enum")
    else:
        field.type = FieldDescriptorProto.Type.Value(f"TYPE_{type_.upper()}")
    if label == ["optional"]:
        field.proto3_optional, oneof = True, f"_{name}"
    if oneof:
        known = [each.name for each in made.oneof_decl]
        if oneof not in known:
            made.oneof_decl.add(name=oneof)
        field.oneof_index = [*known, oneof].index(oneof)


def file(
    *messages: DescriptorProto, imports: Iterable[str] = (), syntax: str = "proto3", name: str = "x"
) -> FileDescriptorProto:
    """A file of the package shop."""
    return FileDescriptorProto(name=name, package="shop", syntax=syntax, message_type=messages, dependency=imports)


def message_class(name: str, *files: FileDescriptorProto) -> Any:
    """The class of a message in the last of some files; each may import those before it, and Google's."""
    pool = DescriptorPool()
    for each in _BUILT_IN:
        pool.AddSerializedFile(descriptor_pool.Default().FindFileByName(each).serialized_pb)
    for each in files:
        pool.AddSerializedFile(each.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
