"""The settings of a changelog's messages: which tables are read, the key, the metadata columns."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import field, frozen

from ...errors import ConfigError
from ...table.schema import Schema

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
"""The metadata of messages, and the type of the column for it."""

METADATA = {
    MAXWELL: ("database", "table", "commit_time", "transaction", "commit", "log_file", "log_position", "row"),
    DEBEZIUM: ("database", "schema", "table", "commit_time", "transaction", "log_file", "log_position", "row"),
    CANAL: ("database", "table", "commit_time", "transaction", "row"),
}
"""The metadata of each format."""

TIME_UNITS = ("s", "ms", "us", "ns")
BEFORE = ("required", "optional")
ORDERED, COUNTED, NONE = "ordered", "counted", "none"
TRANSACTIONS = (ORDERED, COUNTED, NONE)
"""How the end of a transaction is recognised; see `ChangeSpec`."""


def _known_patterns(_instance: object, _attribute: object, tables: tuple[str, ...]) -> None:
    for each in tables:
        try:
            re.compile(each)
        except re.error as error:
            raise ConfigError(
                f"{each!r} is not a regular expression for tables: {error}; write a name such as 'shop.orders'"
            ) from error


@frozen
class ChangeSpec:
    r"""How the messages of a changelog are read.

    Args:
        tables: regular expressions, one of which must match a table's full name ``database.table`` (Debezium with a
            database that has schemas: ``schema.table``); messages of other tables are skipped. Empty: all are read.
            Flink's ``database.include = 'a'`` and ``table.include = 'b'`` are ``a\.b``.
        key: the columns that identify a row of the table.
        metadata: the columns that are filled from the message instead of the row, each with the metadata's name
            (`METADATA`).
        before: whether an update without its old image is an error (``required``), or gives only its new image
            (``optional``, for services that identify rows by their key).
        time_unit: the unit of numeric times: ``s ms us ns``. Of Debezium's in messages without a schema; None: inferred
            from their size. Of plain JSON and CSV, too; None: numbers are not times.
        transactions: how the end of a transaction is recognised. ``ordered``: each partition is a log in the order of
            the commits; a transaction ends with the row that says so (Maxwell), or at the first row of the next one.
            ``counted``: Debezium's END messages, from its transaction topic, have the number of events per table; the
            events may arrive in any order. ``none``: each row stands alone. None: the format's default, ``ordered`` for
            Maxwell and ``none`` for the others.
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
        """Check the settings against a format and the declared columns.

        Raises:
            ConfigError: a column does not exist or has another type than its metadata, or the format does not have the
                metadata.
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
