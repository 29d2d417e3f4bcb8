"""The columns with the position of a change in its log; see `changelog.log`."""

from __future__ import annotations

import re
from typing import Self

import polars as pl
from attrs import frozen

from ....domain.source.changelog.log import YEAR_10000, numbered, server_of
from ....domain.source.changelog.log_columns import COMMITTED, LOG, LOG_FILE, LOG_POSITION, LOG_ROW
from ....domain.source.changelog.log_name import name_log
from .cell import INTEGER, SAFE_DIGITS, known
from .draft import Draft, Image
from .sample import Node, Unlearnable

_DIGITS = "([0-9]+)"
_GTID = re.compile(r"(.+[-:])[0-9]+")


@frozen(eq=False)
class LogFile:
    """A file of a log, whose number is taken: the next file has the same shape.

    Args:
        name: the whole name.
        base: the name without the number, which belongs to the shape; None if there is no number.
        number: the number.
    """

    name: pl.Expr
    base: str | None = None
    number: pl.Expr | None = None

    @classmethod
    def take(cls, draft: Draft, node: Node | None, name: str | None) -> Self:
        """Take a file's number from the string that begins with its name."""
        base, number = numbered(name) if name is not None else (None, None)
        if node is None or name is None or number is None:
            draft.keep(node)
            return cls(pl.lit(name))
        stem = name.rstrip("0123456789")
        if not name.isascii() or len(name) - len(stem) > SAFE_DIGITS:
            raise Unlearnable("file")
        part = node, len(stem), len(name), _DIGITS
        digits, taken = (draft.capture_part(*part, convert) for convert in (lambda texts: texts, whole_of))
        return cls(pl.lit(stem) + digits, base, taken)


def log_place(
    file: LogFile,
    position: pl.Expr | None,
    row: pl.Expr | None,
    servers: tuple[str | int | None, ...],
    committed: pl.Expr,
) -> Image:
    """The values of `LOG_COLUMNS`."""
    if file.number is None or position is None or row is None:
        return {COMMITTED: committed}
    return {
        LOG: pl.lit(name_log(file.base, *servers)),
        LOG_FILE: file.number,
        LOG_POSITION: position,
        LOG_ROW: row,
        COMMITTED: committed,
    }


def whole(draft: Draft, node: Node | None) -> pl.Expr | None:
    """Take a whole number that is not negative; None if the field is null."""
    if (node := draft.given(node)) is None:
        return None
    if node.kind != "number":
        raise Unlearnable("no number")
    return draft.capture(node, f"({INTEGER})", whole_of)


def committed(draft: Draft, node: Node | None, *, factor: int) -> pl.Expr:
    """Take a commit time as milliseconds, from a number that is them when multiplied by a factor."""
    if node is None or whole(draft, node) is None:
        return pl.lit(None)

    def convert(texts: pl.Series) -> pl.Series:
        numbers = whole_of(texts)
        return known(numbers * factor < YEAR_10000, numbers * factor)

    return draft.capture(node, f"({INTEGER})", convert)


def whole_of(texts: pl.Series) -> pl.Series:
    """Whole numbers from 0; null for others, and for those of more digits than are always read."""
    numbers = texts.cast(pl.Int64, strict=False)
    return known((numbers >= 0) & (texts.str.len_bytes() <= SAFE_DIGITS), numbers)


def server(draft: Draft, node: Node | None) -> str | int | None:
    """A server's name or number, as a part of the shape."""
    draft.keep(node)
    if node is None or node.kind == "null":
        return None
    if node.kind == "number" and re.fullmatch(INTEGER, node.text):
        return int(node.text)
    if node.word is None:
        raise Unlearnable("server")
    return node.word


def gtid_server(draft: Draft, node: Node | None) -> str | None:
    """The server of a GTID, as a part of the shape; the transaction's number in it is not."""
    if (node := draft.given(node)) is None:
        return None
    if node.word is None:
        raise Unlearnable("gtid")
    if found := _GTID.fullmatch(node.word):
        draft.capture_part(node, len(found[1]), len(node.word), _DIGITS, lambda texts: texts)
    else:
        draft.keep(node)
    return server_of(node.word)
