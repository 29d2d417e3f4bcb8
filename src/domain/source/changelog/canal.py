"""Canal's flat JSON: several rows per message, all values as text; an update has the old values of changed columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from ...table.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from ..conversion import Refusal, Undecodable, shown
from .images import ChangeDecoder, Images
from .labels import is_numbered, label
from .message import EMPTIED, NO_ROWS, Message, Read, Row, Rows, as_object
from .values import canal_written

KINDS = {"INSERT": INSERT, "UPDATE": UPDATE_AFTER, "DELETE": DELETE}
"""The row kinds of Canal's types of messages, of an update that of its new image."""
_SILENT = frozenset(
    {
        *("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY"),
        *("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT", "INIT_DDL"),
    }
)
_SAYS: Mapping[str, Read] = {
    "database": lambda message, _row: message.get("database"),
    "table": lambda message, _row: message.get("table"),
    "commit_time": lambda message, _row: message.get("es"),
    "transaction": lambda message, _row: message.get("gtid") or None,
    "row": lambda _message, row: row,
}


@define(eq=False)
class CanalDecoder(ChangeDecoder):
    """Makes rows from Canal's flat messages."""

    _images: Images = field(init=False)
    _texts: Mapping[str, Refusal] = field(init=False)
    """The columns that take texts or bytes, for which Canal may write numbers."""
    _types: Mapping[str, Any] = field(init=False, factory=dict)
    _labels: Sequence[str] = field(init=False, default=())
    """Those of them whose values are numbers, by these types."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._images = Images(self.spec, self.to_json, canal_written, _SAYS, unit="ms")
        columns = ((name, self.spec.columns[name]) for name in self._images.names)
        self._texts = {name: Refusal(name, type_) for name, type_ in columns if type_.name in ("string", "binary")}

    def __call__(self, record: object) -> Rows:
        """The rows of a message, in its order; no rows for messages about tables or transactions.

        Raises:
            Undecodable: it is not a message of Canal's, it truncates a table, or a value does not fit its column.
        """
        message = as_object(record, "message")
        if type(word := message.get("type")) is not str:
            raise Undecodable(f"type: one of Canal's wanted, not {shown(word)}")
        if word == "TRUNCATE":
            return self._emptied(message)
        if word in _SILENT or message.get("isDdl") is True:
            return NO_ROWS
        if (kind := KINDS.get(word)) is None:
            raise Undecodable(f"type: one of Canal's wanted, not {shown(word)}")
        return self._rows(message, kind) if self._wanted(message) else NO_ROWS

    def metadata(self, message: Message) -> list[Any]:
        return self._images.metadata(message)

    def _wanted(self, message: Message) -> bool:
        return self._tables.want(message.get("database"), message.get("table"))

    def _emptied(self, message: Message) -> Rows:
        if self._wanted(message):
            raise Undecodable(EMPTIED)
        return NO_ROWS

    def _rows(self, message: Message, kind: str) -> Rows:
        data = _rows_of(message, "data")
        if kind == UPDATE_AFTER:
            return self._updated(message, data, _rows_of(message, "old"))
        several = len(data) > 1
        return [
            (kind, self._image(fields, message, at), {"data": [fields]} if several else None)
            for at, fields in enumerate(data)
        ]

    def _updated(self, message: Message, data: list[Any], olds: list[Any]) -> Rows:
        if len(olds) != len(data):
            raise Undecodable(f"old: as many rows as in data wanted, {len(data)}, not {len(olds)}")
        rows: list[Row] = []
        for at, (fields, old) in enumerate(zip(data, olds, strict=True)):
            alone = {"data": [fields], "old": [old]} if len(data) > 1 else None
            image = self._image(fields, message, at)
            rows.append((UPDATE_BEFORE, self._images.overlaid(image, self._labelled(old, message, "old")), alone))
            rows.append((UPDATE_AFTER, image, alone))
        return rows

    def _image(self, fields: object, message: Message, at: int) -> list[Any]:
        return self._images.image(self._labelled(fields, message, "data"), message, at)

    def _labelled(self, row: object, message: Message, what: str) -> Message:
        """A row with labels in place of their numbers, in columns that are texts."""
        fields, types = as_object(row, what), message.get("mysqlType")
        if type(types) is not dict:
            return fields
        if types != self._types:  # those of the message before are mostly the same
            numbered = [name for name, to in self._texts.items() if is_numbered(types.get(name), to.type.name)]
            self._types, self._labels = types, numbered
        if not self._labels:
            return fields
        found = [name for name in self._labels if name in fields]
        return fields | {name: label(types[name], fields[name], self._texts[name]) for name in found}


def _rows_of(message: Message, name: str) -> list[Any]:
    rows = message.get(name)
    if type(rows) is not list:
        raise Undecodable(f"{name}: a list of rows wanted, not {shown(rows)}")
    return rows
