"""The shapes of Debezium's messages, with and without the envelope of a schema."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import polars as pl

from ....domain.source.changelog.debezium import OWN_PLACE, POSITIONS, DeletedRows, check_commit_order, row_number_of
from ....domain.source.changelog.settings import COUNTED
from ....domain.source.changelog.values import (
    CONNECT_DATES,
    CONNECT_DECIMAL,
    CONNECT_TEXTS,
    CONNECT_UNITS,
    fields_of,
)
from ....domain.source.conversion import Undecodable
from ....domain.source.transactions import COMMIT_TIME, EVENT, TRANSACTION
from ....domain.table.row_kind import DELETE, INSERT, UPDATE_AFTER
from ....domain.table.schema import TIMES
from .cell import SOME_TEXT, Writing, safe_numeral
from .draft import BIGINT, TIMESTAMP, Draft, Image
from .places import LogFile, committed, gtid_server, log_place, server, whole
from .sample import Node, Unlearnable

_KINDS = {"c": INSERT, "r": INSERT, "u": UPDATE_AFTER, "d": DELETE}


def debezium(draft: Draft) -> None:
    """Read a message."""
    choose = _open(draft)
    kind = _KINDS.get(draft.word("op") or "")
    source = draft.root.at("source")
    if kind is None or source is None or source.kind != "object":
        raise Unlearnable("op")
    draft.kind = kind
    if not draft.wants(draft.word("source", "schema") or draft.word("source", "db"), draft.word("source", "table")):
        if TRANSACTION in _transaction(draft) and draft.spec.changes.transactions != COUNTED:
            raise Unlearnable("a mark")
        return
    before, after = draft.root.at("before"), draft.root.at("after")
    _check(draft, before, after)
    image = before if kind == DELETE else after
    new = draft.image(image, choose)
    added = _metadata(draft) | draft.absent(image) | _log_columns(draft) | _transaction(draft)
    draft.new = new | added
    if kind == UPDATE_AFTER and before is not None and before.kind == "object":
        draft.old = draft.image(before, choose) | added


def _check(draft: Draft, before: Node | None, after: Node | None) -> None:
    """Check that the images are those that the decoder wants."""
    whole_images = draft.spec.changes.before == "required"
    if draft.kind == DELETE:
        _check_delete(draft, before)
    elif draft.kind == UPDATE_AFTER:
        has_old = before is not None and before.kind == "object"
        if has_old and (after is None or before is None or before.items.keys() != after.items.keys()):
            raise Unlearnable("images of different columns")
        if not has_old and (whole_images or (before is not None and before.kind != "null")):
            raise Unlearnable("before")
        if not has_old:
            draft.keep(before)


def _check_delete(draft: Draft, before: Node | None) -> None:
    if before is None:
        raise Unlearnable("before")
    try:
        DeletedRows.of(draft.spec).check(map(str, before.items))
    except Undecodable as refusal:
        raise Unlearnable(str(refusal)) from refusal


def _open(draft: Draft) -> Callable[[str], Writing]:
    """Let the draft's root be the message in an envelope; how its columns are written."""
    zone, root = draft.spec.time_zone, draft.root
    if "payload" not in root.items or "op" in root.items:
        return _undescribed(draft)
    if list(root.items) != ["schema", "payload"]:
        raise Unlearnable("an envelope of another form")
    schema = root.items["schema"]
    draft.open(root.items["payload"])
    if schema.kind == "null":
        return _undescribed(draft)
    try:
        fields = fields_of(msgspec.json.decode(schema.text))
    except msgspec.DecodeError as error:  # a number beyond what it reads
        raise Unlearnable("schema") from error
    return lambda name: _described(fields.get(name, {}).get("name"), draft.spec.columns[name].name, zone)


def _undescribed(draft: Draft) -> Callable[[str], Writing]:
    writing = Writing(draft.spec.time_zone, unit=draft.spec.changes.time_unit or "size", days=True)
    return lambda _name: writing


def _described(logical: object, type_: str, zone: str) -> Writing:
    """How the values of a column of a type are written, by the name of their type in the schema."""
    if not isinstance(logical, str):
        return Writing(zone)
    if logical == CONNECT_DECIMAL:
        raise Unlearnable("a decimal of bytes")
    if logical in CONNECT_TEXTS and type_ in TIMES and (type_, zone) != ("timestamp", "UTC"):
        raise Unlearnable("a time with a Z that is not its offset")
    return Writing(zone, unit=CONNECT_UNITS.get(logical), days=logical in CONNECT_DATES)


def _metadata(draft: Draft) -> Image:
    wanted = draft.spec.changes.metadata.values()
    name = _name(draft) if "transaction" in wanted else None
    return draft.metadata(
        {
            "database": lambda: pl.lit(draft.word("source", "db")),
            "schema": lambda: pl.lit(draft.word("source", "schema")),
            "table": lambda: pl.lit(draft.word("source", "table")),
            "commit_time": lambda: draft.field(TIMESTAMP, "source", "ts_ms", unit="ms"),
            "transaction": lambda: pl.lit(None) if name is None else name,
            "log_file": lambda: _file(draft).name,
            "log_position": lambda: _position(draft),
            "row": lambda: pl.lit(None) if _of_snapshot(draft) else draft.field(BIGINT, "source", "row"),
        }
    )


def _of_snapshot(draft: Draft) -> bool:
    """Whether it is a row of a snapshot, which has no number."""
    return row_number_of({"op": draft.word("op"), "source": {"row": 0}}) is None


def _file(draft: Draft) -> LogFile:
    return LogFile.take(draft, draft.root.at("source", "file"), draft.word("source", "file"))


def _position(draft: Draft) -> pl.Expr:
    for name in POSITIONS:
        if draft.given(draft.root.at("source", name)):
            _check_order(draft, name)
            return draft.field(BIGINT, "source", name)
    return pl.lit(None)


def _check_order(draft: Draft, name: str) -> None:
    if not draft.spec.needs_commit_order:
        return
    try:
        check_commit_order(name)
    except Undecodable as refusal:
        raise Unlearnable(str(refusal)) from refusal


def _name(draft: Draft) -> pl.Expr | None:
    """Take the name of the transaction; None if there is none."""
    if (marked := _marked(draft)) is not None:
        name = _text(draft, marked.at("id"))
        return None if name is None else name.str.replace(OWN_PLACE, "${1}")
    if (number := draft.given(draft.root.at("source", "txId"))) is None:
        return _text(draft, draft.root.at("source", "gtid"))
    if number.kind != "number" or number.text.startswith("0"):
        raise Unlearnable("txId")
    return draft.capture(number, "([1-9][0-9]*)", safe_numeral)


def _marked(draft: Draft) -> Node | None:
    """The transaction block of the message; None if it is null."""
    marked = draft.given(draft.root.at("transaction"))
    if marked and marked.kind != "object":
        raise Unlearnable("transaction")
    return marked


def _text(draft: Draft, node: Node | None) -> pl.Expr | None:
    if (node := draft.given(node)) is None:
        return None
    if node.kind != "string" or node.text == '""':
        raise Unlearnable("transaction")
    return draft.capture(node, SOME_TEXT, lambda texts: texts)


def _log_columns(draft: Draft) -> Image:
    if not draft.spec.tells_log:
        return {}
    row = None if _of_snapshot(draft) else whole(draft, draft.root.at("source", "row"))
    at = {name: draft.root.at("source", name) for name in ("pos", "name", "server_id", "gtid", "ts_ms")}
    position = whole(draft, at["pos"])
    servers = (server(draft, at["name"]), server(draft, at["server_id"]), gtid_server(draft, at["gtid"]))
    return log_place(_file(draft), position, row, servers, committed(draft, at["ts_ms"], factor=1))


def _transaction(draft: Draft) -> Image:
    if not draft.spec.tells_transactions:
        return {}
    added: Image = {COMMIT_TIME: draft.field(TIMESTAMP, "source", "ts_ms", unit="ms")}
    marked = _marked(draft)
    if marked is not None:
        added[EVENT] = draft.field(BIGINT, "transaction", "total_order")
    alone = _of_snapshot(draft) or (draft.spec.changes.transactions == COUNTED and marked is None)
    name = None if alone else _name(draft)
    return added if name is None else {**added, TRANSACTION: name}
