"""The transaction columns of messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from attrs import define, field

from ...table.schema import Schema, column
from ..conversion import Convert, ToJson, Undecodable, shown
from ..decode import converters
from ..record_spec import RecordSpec
from ..transactions import TRANSACTION_COLUMNS
from .debezium import opened, shared_name, transaction_of
from .images import ChangeDecoder
from .maxwell import WITHOUT_ROWS, row_number
from .message import NO_ROWS, Message, Rows, as_object
from .settings import CANAL, COUNTED, DEBEZIUM, MAXWELL
from .tables import Tables
from .values import instants, written

TransactionFields: TypeAlias = tuple[Any, Any, Any, Any, Any]
"""Values of `TRANSACTION_COLUMNS`, as JSON values."""


_NOTHING: TransactionFields = (None, None, None, None, None)
_UNITS = {MAXWELL: "s", DEBEZIUM: "ms", CANAL: "ms"}


def _maxwell(message: Message, _spec: RecordSpec) -> TransactionFields:
    if type(kind := message.get("type")) is str and kind in WITHOUT_ROWS:
        return _NOTHING
    if message.get("xid") is None:  # a bootstrap's row, or Maxwell is set not to write it
        return (None, None, message.get("ts"), None, None)
    return (message["xid"], message.get("commit") is True, message.get("ts"), row_number(message), None)


def _canal(message: Message, _spec: RecordSpec) -> TransactionFields:
    return (message.get("gtid") or None, None, message.get("es"), None, None)


def _debezium(record: Message, spec: RecordSpec) -> TransactionFields:
    message, _ = opened(record)
    if message is None:
        return _NOTHING
    if "op" not in message:
        return _ended(message, spec) if message.get("status") == "END" else _NOTHING
    source = message.get("source")
    time = source.get("ts_ms") if type(source) is dict else None
    marked = message.get("transaction")
    number = marked.get("total_order") if type(marked) is dict else None
    # Rows of the initial snapshot have no transaction. With `counted`, the name must be that of the marks.
    alone = message.get("op") == "r" or (spec.changes.transactions == COUNTED and type(marked) is not dict)
    return (None if alone else transaction_of(message), None, time, number, None)


def _ended(mark: Message, spec: RecordSpec) -> TransactionFields:
    """The fields of an END mark: the time of the end, and the number of events of the tables that are read."""
    counts = mark.get("data_collections")
    if type(counts) is not list:
        raise Undecodable(f"data_collections: a list of tables wanted, not {shown(counts)}")
    tables, events = Tables(spec.changes.tables), 0
    for each in counts:
        count = as_object(each, "data_collections")
        space, _, table = str(count.get("data_collection")).rpartition(".")
        if tables.want(space.rpartition(".")[2], table):
            if type(number := count.get("event_count")) is not int:
                raise Undecodable(f"event_count: a number wanted, not {shown(number)}")
            events += number
    return (shared_name(mark.get("id")), None, mark.get("ts_ms"), None, events)


_READERS: Mapping[str, Callable[[Message, RecordSpec], TransactionFields]] = {
    MAXWELL: _maxwell,
    DEBEZIUM: _debezium,
    CANAL: _canal,
}


@define(eq=False)
class TransactionReader:
    """Reads the values of `TRANSACTION_COLUMNS` from a record."""

    spec: RecordSpec
    to_json: ToJson
    _convert: tuple[Convert, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        times = instants(_UNITS[self.spec.format])
        schema = Schema(column(name, ddl) for name, ddl in TRANSACTION_COLUMNS.items())
        compiled = converters(
            schema, zone="UTC", to_json=self.to_json, written=lambda each: _written(each.type.name, times)(each)
        )
        self._convert = tuple(convert for _, convert in compiled)

    def __call__(self, record: object) -> list[Any]:
        """The values of `TRANSACTION_COLUMNS`.

        Raises:
            Undecodable: it is not a message, or a value does not fit its column.
        """
        fields = _READERS[self.spec.format](as_object(record, "message"), self.spec)
        return [None if value is None else convert(value) for value, convert in zip(fields, self._convert, strict=True)]


def _written(name: str, times: Any) -> Callable[[Any], Any]:
    return (lambda _column: times) if name == "timestamp" else written


@define(eq=False)
class TransactionDecoder:
    """Makes rows with `TRANSACTION_COLUMNS`, and marks from messages that have no row but end a transaction.

    A message of a table that is not read still advances its log, and may be the last one of a transaction with rows of
    other tables. Its mark says so; the metadata in the mark has the log's position.

    Args:
        rows: the decoder that makes the rows.
        read: reads the transaction columns.
    """

    rows: ChangeDecoder
    read: TransactionReader

    def __call__(self, record: object) -> Rows:
        """The rows of a message. Raises the same errors as the decoder of its format."""
        rows = self.rows(record)
        fields = self.read(record)
        if rows:
            return [(kind, [*values, *fields], alone) for kind, values, alone in rows]
        if not self._ends(fields):
            return NO_ROWS
        return ((None, [*self.rows.metadata(as_object(record, "message")), *fields], None),)

    def _ends(self, fields: list[Any]) -> bool:
        transaction, commit, _, _, events = fields
        if transaction is None:
            return False
        if self.read.spec.changes.transactions == COUNTED:
            return bool(events)
        # Only Maxwell says which row is the last; elsewhere any row of the next transaction ends the one before.
        return commit is not False
