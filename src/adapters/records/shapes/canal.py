"""The shapes of Canal's flat messages of one row."""

from __future__ import annotations

import polars as pl

from ....domain.source.changelog.canal import KINDS
from ....domain.source.changelog.labels import is_numbered
from ....domain.source.changelog.log_columns import COMMITTED
from ....domain.source.transactions import COMMIT_TIME, TRANSACTION
from ....domain.table.row_kind import UPDATE_AFTER
from .cell import SOME_TEXT, Writing
from .draft import TIMESTAMP, Draft, Image
from .places import committed
from .sample import Node, Unlearnable


def canal(draft: Draft) -> None:
    """Read a message."""
    kind, ddl = KINDS.get(draft.word("type") or ""), draft.keep(draft.root.at("isDdl"))
    if kind is None or (ddl is not None and ddl.text not in ("false", "null")):
        raise Unlearnable("type")
    draft.kind = kind
    if not draft.wants(draft.word("database"), draft.word("table")):
        if TRANSACTION in _transaction(draft):
            raise Unlearnable("a mark")
        return
    _check_labels(draft)
    writing, data = Writing(draft.spec.time_zone, base64=False), _only(draft, "data")
    new = draft.image(data, lambda _: writing)
    old = draft.image(_only(draft, "old"), lambda _: writing) if kind == UPDATE_AFTER else None
    added = _metadata(draft) | draft.absent(data) | _log_columns(draft) | _transaction(draft)
    draft.new = new | added
    draft.old = None if old is None else new | old | added


def _only(draft: Draft, name: str) -> Node | None:
    """The row of a list of one row."""
    rows = draft.root.at(name)
    if rows is None or rows.kind != "array" or len(rows.items) != 1:
        raise Unlearnable("several rows")
    return rows.at(0)


def _check_labels(draft: Draft) -> None:
    """Leave labels to the strict decoder: they are written as numbers."""
    for name in draft.spec.columns.names:
        if draft.spec.columns[name].name == "string" and (type_ := draft.root.at("mysqlType", name)):
            draft.keep(type_)
            if type_.kind == "string" and (type_.word is None or is_numbered(type_.word, "string")):
                raise Unlearnable("labels")


def _name(draft: Draft) -> pl.Expr | None:
    """Take the name of the transaction; None if there is none."""
    node = draft.root.at("gtid")
    if node is None or node.text in ("null", '""'):
        draft.keep(node)
        return None
    if node.kind != "string":
        raise Unlearnable("gtid")
    return draft.capture(node, SOME_TEXT, lambda texts: texts)


def _metadata(draft: Draft) -> Image:
    name = _name(draft) if "transaction" in draft.spec.changes.metadata.values() else None
    return draft.metadata(
        {
            "database": lambda: pl.lit(draft.word("database")),
            "table": lambda: pl.lit(draft.word("table")),
            "commit_time": lambda: draft.field(TIMESTAMP, "es", unit="ms"),
            "transaction": lambda: pl.lit(None) if name is None else name,
            "row": lambda: pl.lit(0),
        }
    )


def _log_columns(draft: Draft) -> Image:
    return {COMMITTED: committed(draft, draft.root.at("es"), factor=1)} if draft.spec.tells_log else {}


def _transaction(draft: Draft) -> Image:
    if not draft.spec.tells_transactions:
        return {}
    time, name = draft.field(TIMESTAMP, "es", unit="ms"), _name(draft)
    return {COMMIT_TIME: time} if name is None else {COMMIT_TIME: time, TRANSACTION: name}
