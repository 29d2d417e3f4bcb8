"""The shapes of Maxwell's messages."""

from __future__ import annotations

import polars as pl

from ....domain.source.changelog.maxwell import LAST_ROW, has_all_nulls, log_of
from ....domain.source.transactions import COMMIT, COMMIT_TIME, EVENT, TRANSACTION
from ....domain.table.row_kind import DELETE, INSERT, UPDATE_AFTER
from .cell import Convert, Writing
from .draft import BIGINT, STRING, TIMESTAMP, Draft, Image
from .places import LogFile, committed, gtid_server, log_place, server, whole, whole_of
from .sample import Node, Unlearnable

_KINDS = {"insert": INSERT, "bootstrap-insert": INSERT, "update": UPDATE_AFTER, "delete": DELETE}


def maxwell(draft: Draft) -> None:
    """Read a message."""
    kind = _KINDS.get(draft.word("type") or "")
    if kind is None:
        raise Unlearnable("type")
    draft.kind = kind
    if not draft.wants(draft.word("database"), draft.word("table")):
        if TRANSACTION in _transaction(draft) and _commit(draft):
            raise Unlearnable("a mark")
        return
    writing, data = Writing(draft.spec.time_zone), draft.root.at("data")
    new = draft.image(data, lambda _: writing)
    old = _old(draft, data, writing) if kind == UPDATE_AFTER else None
    added = _metadata(draft) | draft.absent(data) | _log_columns(draft) | _transaction(draft)
    draft.new = new | added
    draft.old = None if old is None else new | old | added


def _old(draft: Draft, data: Node | None, writing: Writing) -> Image:
    """Take the old values of an update."""
    old = draft.root.at("old")
    if old is None or data is None or not has_all_nulls(data.items.keys(), old.items.keys()):
        raise Unlearnable("old")
    return draft.image(old, lambda _: writing)


def _metadata(draft: Draft) -> Image:
    return draft.metadata(
        {
            "database": lambda: pl.lit(draft.word("database")),
            "table": lambda: pl.lit(draft.word("table")),
            "commit_time": lambda: draft.field(TIMESTAMP, "ts", unit="s"),
            "transaction": lambda: draft.field(STRING, "xid"),
            "commit": lambda: pl.lit(_commit(draft)),
            "log_file": lambda: _file(draft).name,
            "log_position": lambda: _position(draft, lambda texts: texts.cast(pl.Int64, strict=False)),
            "row": lambda: _row(draft),
        }
    )


def _commit(draft: Draft) -> bool | None:
    """Whether the row is its transaction's last, as a part of the shape."""
    node = draft.keep(draft.root.at("commit"))
    if node is None:
        return False
    if node.kind not in ("bool", "null"):
        raise Unlearnable("commit")
    return None if node.kind == "null" else node.text == "true"


def _row(draft: Draft) -> pl.Expr:
    if _commit(draft) and draft.given(draft.root.at("xoffset")) is None:
        return pl.lit(LAST_ROW)
    return draft.field(BIGINT, "xoffset")


def _place(draft: Draft) -> tuple[str | None, str | None]:
    """File and position in the log of the sample."""
    return log_of({"position": draft.word("position")})


def _file(draft: Draft) -> LogFile:
    return LogFile.take(draft, draft.root.at("position"), _place(draft)[0])


def _position(draft: Draft, convert: Convert) -> pl.Expr:
    """Take the position in the log."""
    file, at = _place(draft)
    node = draft.root.at("position")
    if file is None or at is None or node is None:
        return pl.lit(None)
    if not at.isdecimal() or not at.isascii():
        raise Unlearnable("position")
    return draft.capture_part(node, len(file) + 1, len(file) + 1 + len(at), "([0-9]+)", convert)


def _log_columns(draft: Draft) -> Image:
    if not draft.spec.tells_log:
        return {}
    root, node, last = draft.root, draft.root.at("xoffset"), _commit(draft)
    row = pl.lit(LAST_ROW) if last and whole(draft, node) is None else whole(draft, node)
    position = _position(draft, whole_of) if _place(draft)[0] else None
    servers = (server(draft, root.at("server_id")), gtid_server(draft, root.at("gtid")))
    return log_place(_file(draft), position, row, servers, committed(draft, root.at("ts"), factor=1000))


def _transaction(draft: Draft) -> Image:
    if not draft.spec.tells_transactions:
        return {}
    time = draft.field(TIMESTAMP, "ts", unit="s")
    if draft.given(draft.root.at("xid")) is None:
        return {COMMIT_TIME: time}
    last = pl.lit(_commit(draft) is True)
    return {TRANSACTION: draft.field(STRING, "xid"), COMMIT: last, COMMIT_TIME: time, EVENT: _row(draft)}
