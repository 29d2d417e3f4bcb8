"""Row kinds, from the words that changelogs use for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import narwhals as nw

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
    """The row kind that a word stands for; None if it stands for none.

    Flink's and Paimon's signs, Debezium's letters (``r``: a row of a first snapshot), and Maxwell's words, in any case.

    >>> row_kind("u"), row_kind("-D"), row_kind("x")
    ('+U', '-D', None)
    """
    return KINDS.get(word) or KINDS.get(word.lower()) if isinstance(word, str) else None


def removes(kind: nw.Expr) -> nw.Expr:
    """Whether a row of that kind takes its image back (``-U``, ``-D``)."""
    return kind.is_in([UPDATE_BEFORE, DELETE])
