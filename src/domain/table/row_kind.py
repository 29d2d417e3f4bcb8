"""Row kinds, and the words that changelogs use for them."""

from __future__ import annotations

from collections.abc import Mapping

import narwhals as nw
from attrs import frozen

ROW_KIND = "_row_kind"
"""string: the row kind of a row; null if the row could not be decoded."""
INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE = "+I", "-U", "+U", "-D"

_KINDS = {
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


@frozen
class RowKinds:
    """The words that a row-kind column may have.

    Args:
        words: the row kind of each word, in lower case.
        known: the words, for messages.
    """

    words: Mapping[str, str]
    known: str

    def of(self, word: object) -> str | None:
        """The row kind that a word means; None if it is not one of the words.

        Known are Flink's and Paimon's signs, Debezium's letters (``r``: a row of the initial snapshot) and Maxwell's
        words, case-insensitive.

        >>> ROW_KINDS.of("u"), ROW_KINDS.of("-D"), ROW_KINDS.of("x"), PAIRED_ROW_KINDS.of("u")
        ('+U', '-D', None, None)
        """
        return self.words.get(word) or self.words.get(word.lower()) if isinstance(word, str) else None

    def refusal(self, column: str | None) -> str:
        """The beginning of the message about a word of a column that is not one of them; the word comes after it."""
        return f"column {column!r}: a row kind ({self.known}) wanted, not "


ROW_KINDS = RowKinds(_KINDS, "+I -U +U -D, or c r u d")
PAIRED_ROW_KINDS = RowKinds(
    {word: kind for word, kind in _KINDS.items() if word not in {"u", "update"}},
    "+I -U +U -D, or c r d: the old row of an update is subtracted, so send it as -U before +U, or let the source read"
    " the messages of the database's changelog in their own format",
)
"""Those without the words for an update that never comes with its old row."""


def removes(kind: nw.Expr) -> nw.Expr:
    """Whether the row kind retracts its row (``-U``, ``-D``)."""
    return kind.is_in([UPDATE_BEFORE, DELETE])
