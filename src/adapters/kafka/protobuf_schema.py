"""Protobuf schemas of a registry: the file of a schema, those that it imports, and the messages that it has."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from attrs import define, field, frozen

from ...domain.errors import ConfigError, NotInstalled
from .registry import Registry, SchemaKind

try:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass
except ImportError as missing:
    raise NotInstalled("Protobuf needs protobuf: pip install 'headwater[protobuf]'") from missing
if find_spec("google.type") is None:  # the files that registries do not store
    raise NotInstalled("Protobuf needs googleapis-common-protos: pip install 'headwater[protobuf]'")

_SERIALIZED = "?format=serialized"
_ROOT = "the schema"
_GOOGLE = re.compile(r"google/(?:protobuf|type)/[a-z_]+\.proto")
_OLD_NAME = "confluent/types/"
UNREADABLE = (DecodeError, ValueError, OverflowError, RecursionError)
"""What reading a message raises for bytes that were not written with its schema, and for times out of range."""


@frozen
class ProtobufFile:
    """The file of a schema.

    Args:
        file: it, as the registry returned it.
        pool: has it and all that it imports.
    """

    file: Any
    pool: Any

    def message_class(self, path: tuple[int, ...]) -> Any | None:
        """The class of a message; None if there is none.

        Args:
            path: the place of the message in the file, then that of each message inside it.
        """
        names, inside = [self.file.package] if self.file.package else [], self.file.message_type
        for at in path:
            if not 0 <= at < len(inside):
                return None
            names.append(inside[at].name)
            inside = inside[at].nested_type
        return GetMessageClass(self.pool.FindMessageTypeByName(".".join(names)))


@define(eq=False)
class _Files:
    """The files that a schema refers to, by the name under which they are imported."""

    registry: Registry
    pool: Any = field(init=False, factory=DescriptorPool)
    _known: dict[str, Any] = field(init=False, factory=dict)
    _added: set[str] = field(init=False, factory=set)

    def fetch(self, name: str, answer: Mapping[str, Any]) -> Any:
        """The file of an answer, after those of all its references have been fetched too."""
        file = self._known[name] = self._file(name, answer["schema"])
        for each in answer.get("references") or ():
            if each["name"] not in self._known:
                self.fetch(each["name"], self.registry.referred(each, _SERIALIZED))
        return file

    def add(self, name: str) -> None:
        """Add a file to the pool, after those that it imports.

        Raises:
            ValueError: a file is imported that is not referred to.
        """
        if name in self._added:
            return
        self._added.add(name)
        file = self._known.get(name) or _built_in(name)
        if file is None:
            raise ValueError(f"it imports {name!r}, but has no reference to it")
        for each in file.dependency:
            self.add(each)
        self.pool.AddSerializedFile(file.SerializeToString())

    def _file(self, name: str, text: str) -> Any:
        try:
            file = FileDescriptorProto.FromString(b64decode(text, validate=True))
        except NoBase64 as error:
            raise ConfigError(
                f"{self.registry.title} has Protobuf schemas only as text: set `registry` to one that answers"
                f" `{_SERIALIZED}` (Confluent's, Redpanda's from 25.2, Karapace)"
            ) from error
        file.name = name
        for at, each in enumerate(file.dependency):
            if each.startswith(_OLD_NAME):
                file.dependency[at] = each.replace(_OLD_NAME, "confluent/type/")
        return file


def _built_in(name: str) -> Any | None:
    """A file that registries do not store, because all clients have it; None if it is not one of them."""
    if name == "confluent/meta.proto":  # it has only the types of options, which are not read
        return FileDescriptorProto(name=name)
    if name == "confluent/type/decimal.proto":
        return _decimal(name)
    if not _GOOGLE.fullmatch(name):
        return None
    try:
        module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ModuleNotFoundError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _decimal(name: str) -> Any:
    file = FileDescriptorProto(name=name, package="confluent.type", syntax="proto3")
    message = file.message_type.add(name="Decimal")
    kinds = FieldDescriptorProto
    for number, (each, type_) in enumerate(
        (("value", kinds.TYPE_BYTES), ("precision", kinds.TYPE_UINT32), ("scale", kinds.TYPE_INT32)), 1
    ):
        message.field.add(name=each, number=number, type=type_, label=kinds.LABEL_OPTIONAL)
    return file


def _parse(registry: Registry, answer: Mapping[str, Any]) -> ProtobufFile:
    files = _Files(registry)
    file = files.fetch(_ROOT, answer)
    files.add(_ROOT)
    return ProtobufFile(file, files.pool)


PROTOBUF_SCHEMA = SchemaKind("Protobuf", _parse, (ValueError, TypeError, KeyError, DecodeError), _SERIALIZED)
"""Files in the form that the compiler of Protobuf has; the text of a ``.proto`` file would need that compiler."""
