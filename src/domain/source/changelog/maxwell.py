"""Maxwell's JSON: one row per message; an update has the new image and the old values of the changed columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from attrs import define, field

from ...table.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from ..conversion import Undecodable, shown
from .images import ChangeDecoder, Images
from .message import NO_ROWS, Message, Read, Rows, as_object
from .values import written

WITHOUT_ROWS = frozenset(
    {
        *("bootstrap-start", "bootstrap-complete"),
        *("database-create", "database-alter", "database-drop", "table-create", "table-alter", "table-drop"),
    }
)
"""The types of messages without rows. `ts` is in milliseconds for DDL, and in seconds for all other messages."""


def log_of(message: Message) -> tuple[str | None, str | None]:
    """File and position in the binlog (``binlog.000003:4711``), if Maxwell is set to write them."""
    position = message.get("position")
    file, colon, at = position.rpartition(":") if type(position) is str else ("", "", "")
    return (file, at) if colon else (None, None)


_NULLS_LEFT_OUT = (
    "old: columns are missing here or in data, as null values are left out; set output_nulls=true in Maxwell"
)
LAST_ROW = 2**63 - 1
"""The number of a transaction's last row: Maxwell does not number that row, which has ``commit`` instead."""


def row_number(message: Message) -> object:
    """The number of a row in its transaction."""
    number = message.get("xoffset")
    return LAST_ROW if number is None and message.get("commit") is True else number


_SAYS: Mapping[str, Read] = {
    "database": lambda message, _row: message.get("database"),
    "table": lambda message, _row: message.get("table"),
    "commit_time": lambda message, _row: message.get("ts"),
    "transaction": lambda message, _row: message.get("xid"),
    # Only the last row of a transaction has it.
    "commit": lambda message, _row: message.get("commit", False),
    "log_file": lambda message, _row: log_of(message)[0],
    "log_position": lambda message, _row: log_of(message)[1],
    "row": lambda message, _row: row_number(message),
}


def has_all_nulls(data: AbstractSet[Any], old: AbstractSet[Any]) -> bool:
    """Whether an update may have all of its nulls, by the columns in ``data`` and ``old``.

    With ``output_nulls=false`` Maxwell leaves them out, in ``old`` even all columns that have changed.
    """
    return bool(old) and old <= data


@define(eq=False)
class MaxwellDecoder(ChangeDecoder):
    """Makes rows from Maxwell's messages."""

    _images: Images = field(init=False)
    _rows: Mapping[str, Callable[[Message], Rows]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._images = Images(self.spec, self.to_json, written, _SAYS, unit="s")
        self._rows = {
            "insert": self._inserted,
            "bootstrap-insert": self._inserted,
            "update": self._updated,
            "delete": self._deleted,
        }

    def __call__(self, record: object) -> Rows:
        """The rows of a message; no rows for DDL, and for the start and end of a bootstrap.

        Raises:
            Undecodable: it is not a message of Maxwell's, or a value does not fit its column.
        """
        message = as_object(record, "message")
        if type(kind := message.get("type")) is not str:
            raise Undecodable(f"type: one of Maxwell's wanted, not {shown(kind)}")
        if kind in WITHOUT_ROWS:
            return NO_ROWS
        if (rows := self._rows.get(kind)) is None:
            raise Undecodable(f"type: one of Maxwell's wanted, not {shown(kind)}")
        return rows(message) if self._tables.want(message.get("database"), message.get("table")) else NO_ROWS

    def metadata(self, message: Message) -> list[Any]:
        return self._images.metadata(message)

    def _inserted(self, message: Message) -> Rows:
        return ((INSERT, self._image(message), None),)

    def _updated(self, message: Message) -> Rows:
        after = self._image(message)
        if "old" not in message:  # no column has changed
            return ((UPDATE_BEFORE, after, None), (UPDATE_AFTER, after, None))
        old = as_object(message["old"], "old")
        if not has_all_nulls(message["data"].keys(), old.keys()):
            raise Undecodable(_NULLS_LEFT_OUT)
        return ((UPDATE_BEFORE, self._images.overlaid(after, old), None), (UPDATE_AFTER, after, None))

    def _deleted(self, message: Message) -> Rows:
        return ((DELETE, self._image(message), None),)

    def _image(self, message: Message) -> list[Any]:
        return self._images.image(as_object(message.get("data"), "data"), message)
