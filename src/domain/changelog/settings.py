"""How a changelog's messages are read, beside the columns: which tables count, what identifies a row, what is added."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import field, frozen

from ..errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..schema import Schema

MAXWELL, DEBEZIUM, CANAL = "maxwell-json", "debezium-json", "canal-json"
CHANGE_FORMATS = (MAXWELL, DEBEZIUM, CANAL)

METADATA_TYPES = {
    "database": "string",
    "schema": "string",
    "table": "string",
    "commit_time": "timestamp",
    "transaction": "string",
    "commit": "boolean",
    "log_file": "string",
    "log_position": "bigint",
    "row": "bigint",
}
"""What a message says of itself, and the column type that takes it."""

METADATA = {
    MAXWELL: ("database", "table", "commit_time", "transaction", "commit", "log_file", "log_position", "row"),
    DEBEZIUM: ("database", "schema", "table", "commit_time", "transaction", "log_file", "log_position", "row"),
    CANAL: ("database", "table", "commit_time", "transaction", "row"),
}
"""What each format says."""

TIME_UNITS = ("ms", "us", "ns")
BEFORE = ("required", "optional")
ORDERED, COUNTED, NONE = "ordered", "counted", "none"
TRANSACTIONS = (ORDERED, COUNTED, NONE)
"""How a changelog tells that a transaction is whole; see `ChangeSpec`."""


def _known_patterns(_instance: object, _attribute: object, tables: tuple[str, ...]) -> None:
    for each in tables:
        try:
            re.compile(each)
        except re.error as error:
            raise ConfigError(
                f"{each!r} is no regular expression for tables: {error}; write a name such as 'shop.orders'"
            ) from error


@frozen
class ChangeSpec:
    r"""How the messages of a changelog are read.

    Args:
        tables: regular expressions of which one must match a table's whole name, ``database.table`` (in Debezium, where
            the database has schemas, ``schema.table``); messages of other tables are passed over. None: all are read.
            What Flink has as ``database.include = 'a'`` and ``table.include = 'b'`` is ``a\.b``.
        key: columns that identify a row of the table.
        metadata: columns that come from the message, not from the row, each with the name of what it takes
            (`METADATA`).
        before: whether an update without its old image is an error (``required``), or gives its new image alone
            (``optional``, for services that know rows by their key).
        time_unit: of Debezium's times that come as numbers where no schema comes with them: ``ms us ns``; None to tell
            it by their size.
        transactions: how it is told that a transaction has been seen whole. ``ordered``: each partition is a log in the
            order of the commits, so that it is by its last row where that says so (Maxwell), and by the first row of
            the next one. ``counted``: Debezium's marks of its end, from the topic of its transaction metadata, say how
            many events it has of each table; these may come in any order. ``none``: each row stands alone. None: the
            format's own way, which is ``ordered`` of Maxwell and ``none`` of the others.
    """

    tables: tuple[str, ...] = field(default=(), converter=tuple[str, ...], validator=_known_patterns)
    key: tuple[str, ...] = field(default=(), converter=tuple[str, ...])
    metadata: Mapping[str, str] = field(factory=dict)
    before: str = "required"
    time_unit: str | None = None
    transactions: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.before not in BEFORE:
            raise ConfigError(f"before: {self.before!r} is unknown; allowed: {', '.join(BEFORE)}")
        if self.time_unit is not None and self.time_unit not in TIME_UNITS:
            raise ConfigError(f"time_unit: {self.time_unit!r} is unknown; allowed: {', '.join(TIME_UNITS)}")
        if self.transactions is not None and self.transactions not in TRANSACTIONS:
            raise ConfigError(f"transactions: {self.transactions!r} is unknown; allowed: {', '.join(TRANSACTIONS)}")

    def check(self, format_: str, schema: Schema) -> None:
        """Hold the settings to a format and the declared columns.

        Raises:
            ConfigError: a column does not exist or has another type than its metadata, or the format says no such.
        """
        for name in self.key:
            schema[name]
        if self.transactions == COUNTED and (format_ != DEBEZIUM or not self.tables):
            raise ConfigError(
                "transactions = 'counted' is Debezium's, which counts the events of each table: name those that are"
                " read with `tables`"
            )
        for name, what in self.metadata.items():
            if what not in METADATA[format_]:
                raise ConfigError(
                    f"{format_} says no {what!r} for metadata column {name!r}; it says: {', '.join(METADATA[format_])}"
                )
            if schema[name].name != (wanted := METADATA_TYPES[what]):
                raise ConfigError(f"metadata column {name!r} takes {what}, a {wanted}, and is {schema[name].ddl}")
