"""Debezium's JSON, with and without a schema: complete images before and after a change."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from ...table.row_kind import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from ..conversion import Choose, Undecodable, shown
from ..presence import Presence, is_unavailable
from ..record_spec import RecordSpec
from .images import ChangeDecoder, Images
from .message import EMPTIED, NO_ROWS, Message, Read, Rows, as_object
from .values import debezium_described, debezium_written, fields_of

_REPLICA = "in PostgreSQL set REPLICA IDENTITY FULL"
_EXACT = frozenset({str, bytes, int})
"""Types whose equal values have the same text; decimals do not: 1.0 and 1.00."""
_SCHEMAS = 64
OWN_PLACE = r"^([0-9]+):[0-9]+$"
"""The names of PostgreSQL's transactions have the place of the event in the log behind the number: ``738:22250064``."""
_HEARTBEAT = frozenset({"ts_ms", "ts_us", "ts_ns"})
_MARKS = (frozenset({"status", "id", "event_count"}), frozenset({"databaseName", "ddl"}))


def source_of(message: Message) -> Message:
    """The ``source`` block of a message; empty if there is none."""
    source = message.get("source")
    return source if type(source) is dict else {}


def transaction_of(message: Message) -> object:
    """The name of a change's transaction."""
    marked, source = message.get("transaction"), source_of(message)
    return shared_name(marked.get("id")) if type(marked) is dict else source.get("txId") or source.get("gtid")


def shared_name(name: object) -> object:
    """The name of a transaction as all of its events have it, and its END."""
    found = re.fullmatch(OWN_PLACE, name) if type(name) is str else None
    return found[1] if found else name


POSITIONS = ("pos", "lsn", "scn")
"""The log position: MySQL's position in the file, PostgreSQL's LSN or Oracle's SCN."""


def _positioned(source: Message) -> str | None:
    """The name of the log position that a message has."""
    return next((name for name in POSITIONS if source.get(name) is not None), None)


def _position(message: Message) -> object:
    source = source_of(message)
    return None if (name := _positioned(source)) is None else source[name]


def check_commit_order(name: str | None) -> None:
    """Check, by its name, that the log position of a message increases in the order of the commits.

    LSN and SCN are those of the change. A transaction that commits later may have changed its rows earlier.

    Raises:
        Undecodable: it does not.
    """
    if name in ("lsn", "scn"):
        raise Undecodable(
            f"source.{name}: the position of a change, which does not increase in the order of the commits, so it does"
            " not tell whether the bulk has the change; make a new pipeline, and load the database's table with"
            " position_query, or leave `position` out and set `delay`"
        )


def row_number_of(message: Message) -> object:
    """The row's number in its event; None for rows of a snapshot, which Debezium all numbers 0."""
    return None if message.get("op") == "r" else source_of(message).get("row")


_SAYS: Mapping[str, Read] = {
    "database": lambda message, _row: source_of(message).get("db"),
    "schema": lambda message, _row: source_of(message).get("schema"),
    "table": lambda message, _row: source_of(message).get("table"),
    "commit_time": lambda message, _row: source_of(message).get("ts_ms"),
    "transaction": lambda message, _row: transaction_of(message),
    "log_file": lambda message, _row: source_of(message).get("file"),
    "log_position": lambda message, _row: _position(message),
    "row": lambda message, _row: row_number_of(message),
}


@frozen
class DeletedRows:
    """Refuses deletes whose old image may lack values of the row.

    PostgreSQL sends only the columns of the table's replica identity: the primary key, or another index. If the key is
    declared, other columns may be missing: the table may not have had them yet.

    Args:
        columns: the declared columns of the row.
        key: those of the key; empty if it is not declared.
        whole: whether more than the key is needed.
        subtracted: whether all values are needed.
    """

    columns: frozenset[str]
    key: frozenset[str]
    whole: bool
    subtracted: bool

    @classmethod
    def of(cls, spec: RecordSpec) -> DeletedRows:
        """The check for a source."""
        changes = spec.changes
        columns = frozenset(spec.columns.names) - changes.metadata.keys()
        whole = changes.before == "required"
        return cls(columns, columns & frozenset(changes.key), whole, whole and spec.needs_whole_rows)

    def check(self, sent: Iterable[str]) -> None:
        """Check an old image, by the columns that were sent.

        Raises:
            Undecodable: it may lack values that are needed.
        """
        if not self.whole:
            return
        sent = frozenset(sent)
        if sent <= self.key < self.columns:
            raise Undecodable(f"before: a delete that has only the key; {_REPLICA}")
        if self.subtracted and (missing := (self.key or self.columns) - sent):
            remedy = "" if self.key else ". If the table did not have that column yet, declare the source's key"
            raise Undecodable(
                f"before: a delete without its whole old image: {min(missing)} is missing; {_REPLICA}{remedy}"
            )


@define(eq=False)
class DebeziumDecoder(ChangeDecoder):
    """Makes rows from Debezium's messages."""

    _whole: bool = field(init=False)
    _deletes: DeletedRows = field(init=False)
    _rows: Mapping[str, Callable[[Message, Images], Rows]] = field(init=False)
    _undescribed: Images = field(init=False)
    _described: dict[int, tuple[object, Images]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        changes = self.spec.changes
        self._whole = changes.before == "required"
        self._deletes = DeletedRows.of(self.spec)
        self._undescribed = self._images_of(debezium_written(changes.time_unit))
        self._rows = {
            "c": self._inserted,
            "r": self._inserted,
            "u": self._updated,
            "d": self._deleted,
            "t": self._emptied,
        }

    def __call__(self, record: object) -> Rows:
        """The rows of a message; no rows for tombstones, heartbeats, transaction marks, DDL, logical-decoding messages.

        Raises:
            Undecodable: it is not a message of Debezium's, it truncates a table, an image is missing, or a value does
                not fit its column.
        """
        message, schema = opened(as_object(record, "message"))
        if message is None or ("op" not in message and _is_mark(message)):
            return NO_ROWS
        op = message.get("op")
        if op == "m":  # written by a user into PostgreSQL's log; it belongs to no table
            return NO_ROWS
        if type(op) is not str or (rows := self._rows.get(op)) is None:
            raise Undecodable(f"op: one of Debezium's wanted (rows without an envelope are json), not {shown(op)}")
        source = source_of(message)
        if not self._tables.want(source.get("schema") or source.get("db"), source.get("table")):
            return NO_ROWS
        if self.spec.needs_commit_order:
            check_commit_order(_positioned(source))
        return rows(message, self._images(schema))

    def metadata(self, message: Message) -> list[Any]:
        change, _ = opened(message)
        return self._undescribed.metadata(change or {})

    def _images(self, schema: object) -> Images:
        """The `Images` for a message schema; cached as long as the schema is the same object."""
        if schema is None:
            return self._undescribed
        known = self._described.get(id(schema))
        if known is None or known[0] is not schema:
            if len(self._described) == _SCHEMAS:
                self._described.clear()
            known = self._described[id(schema)] = (schema, self._images_of(debezium_described(fields_of(schema))))
        return known[1]

    def _images_of(self, written: Choose) -> Images:
        return Images(self.spec, self.to_json, written, _SAYS, unit="ms")

    def _inserted(self, message: Message, images: Images) -> Rows:
        after = as_object(message.get("after"), "after")
        return ((INSERT, images.image(_available(after, {}, images), message), None),)

    def _updated(self, message: Message, images: Images) -> Rows:
        after, before = as_object(message.get("after"), "after"), message.get("before")
        if type(before) is dict and (changed := _changed(before, after)) is not None:
            new = images.image(_available(after, before, images), message)
            old = images.overlaid(new, _available(changed, {}, images))
            return ((UPDATE_BEFORE, old, None), (UPDATE_AFTER, new, None))
        if self._whole:
            raise Undecodable(f"before: an update without its whole old image; {_REPLICA}")
        return ((UPDATE_AFTER, images.image(_available(after, {}, images), message), None),)

    def _deleted(self, message: Message, images: Images) -> Rows:
        before = as_object(message.get("before"), "before")
        self._deletes.check(before.keys())
        return ((DELETE, images.image(_available(before, {}, images), message), None),)

    def _emptied(self, _message: Message, _images: Images) -> Rows:
        raise Undecodable(EMPTIED)


def opened(message: Message) -> tuple[Message | None, object]:
    """The message inside an envelope, and its schema; the message is None for a tombstone."""
    if "payload" not in message or "op" in message:
        return message, None
    payload = message["payload"]
    return (None if payload is None else as_object(payload, "payload")), message.get("schema")


def _is_mark(message: Message) -> bool:
    """Whether it is a heartbeat, a transaction mark or a schema change."""
    return any(message.keys() >= mark for mark in _MARKS) or _HEARTBEAT >= message.keys() >= {"ts_ms"}


def _changed(before: Message, after: Message) -> dict[str, Any] | None:
    """The old values of the columns that may have changed, so that others are converted only once.

    None if `before` lacks a column.
    """
    changed = {}
    try:
        for name, new in after.items():
            old = before[name]
            if old is not new and (new != old or type(old) is not type(new) or type(old) not in _EXACT):
                changed[name] = old
    except KeyError:
        return None
    if len(before) > len(after):
        changed.update((name, old) for name, old in before.items() if name not in after)
    return changed


def _available(fields: Message, before: Message, images: Images) -> Message:
    """The fields of an image, with the old values of unchanged fields that were not sent.

    If rows record absent columns, a field without a known value is left out.

    Raises:
        Undecodable: a value is unknown, and rows do not record absent columns.
    """
    sent = Presence.available(fields)
    if sent is fields:
        return fields
    unsent = [name for name in fields if name not in sent]
    known = {name: before[name] for name in unsent if name in before and not is_unavailable(before[name])}
    lost = [name for name in unsent if name in images.names and name not in known]
    if lost and not images.presence:
        raise Undecodable(f"column {lost[0]!r}: its unchanged value was not sent; {_REPLICA}")
    return {**sent, **known}
