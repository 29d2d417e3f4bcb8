"""What messages say of transactions, beside the rows that they bring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field

from ..decode import Undecodable, converters, shown
from ..schema import Schema, column
from ..transactions import TRANSACTION_COLUMNS
from .debezium import opened, transaction_of
from .images import NO_ROWS, as_object
from .maxwell import WITHOUT_ROWS, row_number
from .settings import CANAL, COUNTED, DEBEZIUM, MAXWELL
from .tables import Tables
from .values import instants, written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..decode import Convert, ToJson
    from ..source import RecordSpec
    from .images import Message, Rows

    Told: TypeAlias = tuple[Any, Any, Any, Any, Any]
    """Values of `TRANSACTION_COLUMNS`, as JSON has them."""

    MessageDecoder: TypeAlias = Callable[[object], Rows]

_NOTHING: Told = (None, None, None, None, None)
_UNITS = {MAXWELL: "s", DEBEZIUM: "ms", CANAL: "ms"}


def _maxwell(message: Message, _spec: RecordSpec) -> Told:
    if message.get("type") in WITHOUT_ROWS:
        return _NOTHING
    if message.get("xid") is None:  # a bootstrap's row, or Maxwell is set not to tell
        return (None, None, message.get("ts"), None, None)
    return (message["xid"], message.get("commit") is True, message.get("ts"), row_number(message), None)


def _canal(message: Message, _spec: RecordSpec) -> Told:
    return (message.get("gtid") or None, None, message.get("es"), None, None)


def _debezium(record: Message, spec: RecordSpec) -> Told:
    message, _ = opened(record)
    if message is None:
        return _NOTHING
    if "op" not in message:
        return _ended(message, spec) if message.get("status") == "END" else _NOTHING
    source = message.get("source")
    time = source.get("ts_ms") if type(source) is dict else None
    marked = message.get("transaction")
    number = marked.get("total_order") if type(marked) is dict else None
    # Rows of a first snapshot are of no transaction; those counted must be named as the marks name them.
    alone = message.get("op") == "r" or (spec.changes.transactions == COUNTED and type(marked) is not dict)
    return (None if alone else transaction_of(message), None, time, number, None)


def _ended(mark: Message, spec: RecordSpec) -> Told:
    """What the mark of a transaction's end says: when that was, and how many events the tables read have in it."""
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
    return (mark.get("id"), None, mark.get("ts_ms"), None, events)


_TOLD: Mapping[str, Callable[[Message, RecordSpec], Told]] = {MAXWELL: _maxwell, DEBEZIUM: _debezium, CANAL: _canal}


@define(eq=False)
class TransactionTeller:
    """Tells the values of `TRANSACTION_COLUMNS` of a record.

    Args:
        spec: what the messages hold.
        to_json: writes a JSON value as text.
    """

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
        """The values.

        Raises:
            Undecodable: it is no message, or a value is not what it should be.
        """
        told = _TOLD[self.spec.format](as_object(record, "message"), self.spec)
        return [None if value is None else convert(value) for value, convert in zip(told, self._convert, strict=True)]


def _written(name: str, times: Any) -> Callable[[Any], Any]:
    return (lambda _column: times) if name == "timestamp" else written


@define(eq=False)
class TransactionDecoder:
    """Makes rows that tell their transaction, and marks of messages that bring no row but end one.

    A message of a table that is not read moves its log on all the same, and may be the last one of a transaction that
    has rows of those read: its mark tells that, and with the metadata how far the log has come.

    Args:
        rows: makes the rows.
        metadata: makes a row of what a message says of itself alone.
        tell: see `TransactionTeller`.
    """

    rows: MessageDecoder
    metadata: Callable[[Message], list[Any]]
    tell: TransactionTeller

    def __call__(self, record: object) -> Rows:
        """The rows of a message. Raises as the decoder of its format does."""
        rows = self.rows(record)
        if record is None:  # a tombstone in a file, which tells nothing
            return rows
        told = self.tell(record)
        if rows:
            return [(kind, [*values, *told], alone) for kind, values, alone in rows]
        if not self._ends(told):
            return NO_ROWS
        return ((None, [*self.metadata(as_object(record, "message")), *told], None),)

    def _ends(self, told: list[Any]) -> bool:
        transaction, commit, _, _, events = told
        if transaction is None:
            return False
        if self.tell.spec.changes.transactions == COUNTED:
            return bool(events)
        # Only Maxwell says which row is the last; elsewhere any row of the next transaction ends the one before.
        return commit is not False
