"""Row kinds, and the words that changelogs use for them."""

from __future__ import annotations

import narwhals as nw

ROW_KIND = "_row_kind"
"""string: the row kind of a row; null if the row could not be decoded."""
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"

KINDS = {
    "+i": INSERT,
    "-u": UPDATE_BEFORE,
    "+u": UPDATE_AFTER,
    "-d": DELETE,
    "c": INSERT,
    "r": INSERT,
    "i": INSERT,
    "u": UPDATE_AFTER,
    "d": DELETE,
    "insert": INSERT,
    "update": UPDATE_AFTER,
    "delete": DELETE,
}
KNOWN = "+I -U +U -D, or c r u d"


def row_kind(word: object) -> str | None:
    """The row kind that a word means; None if it is not a row kind.

    Known are Flink's and Paimon's signs, Debezium's letters (``r``: a row of the initial snapshot) and Maxwell's words,
    case-insensitive.

    >>> row_kind("u"), row_kind("-D"), row_kind("x")
    ('+U', '-D', None)
    """
    return KINDS.get(word) or KINDS.get(word.lower()) if isinstance(word, str) else None


def removes(kind: nw.Expr) -> nw.Expr:
    """Whether the row kind retracts its row (``-U``, ``-D``)."""
    return kind.is_in([UPDATE_BEFORE, DELETE])
