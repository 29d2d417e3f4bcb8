"""User-supplied SQL in which sums and averages raise an error where Spark would wrap around or return null."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot.tokenizer_core import Token, TokenType

from ...domain.sql.parsing import DIALECT, quote
from ...domain.table.sums import mark
from .sums import text

_CHECKED = {"sum": "try_sum", "avg": "try_avg", "mean": "try_avg"}

_FORM = "coalesce({function}({values}){suffix}, IF(count({values}){suffix} = 0, NULL, raise_error({message})))"
"""A sum that does not fit is null, and so is a sum of no values; the count distinguishes the two."""


def check_sums(sql: str) -> str:
    """The same query, with the same text, in which each sum and average that does not fit stops the job.

    >>> "try_" in check_sums("select a from t")
    False
    """
    tokens = sqlglot.tokenize(sql, read=DIALECT)
    calls = any(_is_call(tokens, at) for at in range(len(tokens)))
    return _CheckedQuery(sql, tokens).between(0, len(tokens)) if calls else sql


def _is_call(tokens: Sequence[Token], at: int) -> bool:
    follows = at > 0 and tokens[at - 1].token_type == TokenType.DOT
    called = tokens[at + 1 : at + 2] and tokens[at + 1].token_type == TokenType.L_PAREN
    plain = tokens[at].token_type not in {TokenType.STRING, TokenType.IDENTIFIER}
    return bool(called) and plain and not follows and tokens[at].text.lower() in _CHECKED


class _CheckedQuery:
    """One query; its text stays the same, except for the calls."""

    def __init__(self, sql: str, tokens: Sequence[Token]) -> None:
        self._sql = sql
        self._tokens = tokens

    def between(self, first: int, end: int) -> str:
        """The text from one token to before another."""
        made, at, written = [], first, None
        while at < end:
            start = self._tokens[at].start if written is None else written + 1
            if not _is_call(self._tokens, at):
                written = self._tokens[at].end
                made.append(self._sql[start : written + 1])
                at += 1
                continue
            close = self._closing(at + 1)
            last = self._behind(close)
            made.append(self._sql[start : self._tokens[at].start] + self._call(at, close, last))
            at, written = last + 1, self._tokens[last].end
        return "".join(made)

    def _call(self, at: int, close: int, last: int) -> str:
        values, function = self.between(at + 2, close), _CHECKED[self._tokens[at].text.lower()]
        suffix = " " + self.between(close + 1, last + 1) if last > close else ""
        written = self._sql[self._tokens[at].start : self._tokens[close].end + 1]
        message = text(mark(f"{' '.join(written.split())} in {quote(self._sql)}", "its type"))
        return _FORM.format(function=function, values=values, suffix=suffix, message=message)

    def _closing(self, opening: int) -> int:
        """The index of the parenthesis that closes another one."""
        depth = 0
        for at in range(opening, len(self._tokens)):
            kind = self._tokens[at].token_type
            depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
            if not depth:
                return at
        return len(self._tokens) - 1

    def _behind(self, close: int) -> int:
        """The last token of a call, including its FILTER and its OVER, if any."""
        last = close
        for kind in (TokenType.FILTER, TokenType.OVER):
            following = self._tokens[last + 1 : last + 3]
            if len(following) == 2 and following[0].token_type == kind:  # noqa: PLR2004 - the word and what it is about
                bracketed = following[1].token_type == TokenType.L_PAREN
                last = self._closing(last + 2) if bracketed else last + 2
        return last
