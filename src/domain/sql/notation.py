"""Refuses what sqlglot reads in a text and Spark does not, or reads otherwise, and what its trees do not keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from ..errors import ConfigError
from .parsing import DIALECT, quote
from .types import type_of

# fmt: off
_UNKNOWN_FUNCTIONS = frozenset({
    "charindex", "date_to_date_str", "day_of_month", "day_of_week", "day_of_year", "ends_with", "iif",
    "last_day_of_month", "regexp_split", "starts_with", "str_position", "strpos", "time_to_time_str", "timestamp_trunc",
    "ts_or_ds_add", "ts_or_ds_to_date", "ts_or_ds_to_date_str", "week_of_year",
})
"""Names of functions that only sqlglot knows."""
_TYPES = frozenset({
    "array", "bigint", "binary", "boolean", "byte", "char", "character", "date", "dec", "decimal", "double", "float",
    "int", "integer", "interval", "long", "map", "numeric", "real", "short", "smallint", "string", "struct",
    "timestamp", "timestamp_ltz", "timestamp_ntz", "tinyint", "varchar", "void",
})
# fmt: on
_SHORT_UNITS = frozenset({"d", "h", "m", "ms", "ns", "q", "s", "us", "w", "y"})
"""Units that Spark's `trunc` and `date_trunc` do not know; the result is null there. sqlglot writes them out."""
_SHORT_NUMBER = re.compile(r"(?<![\d.])(?=\d(?!\d))")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d([ T]([01]\d|2[0-3]):\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-7]):[0-5]\d)?)?")
_MOMENTS: dict[str, tuple[re.Pattern[str], Callable[[str], date]]] = {
    "date": (_DATE, date.fromisoformat),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), (_TIMESTAMP, datetime.fromisoformat)),
}
_COMPARISONS = frozenset({
    TokenType.EQ, TokenType.NEQ, TokenType.GT, TokenType.GTE, TokenType.LT, TokenType.LTE, TokenType.NULLSAFE_EQ,
})  # fmt: skip
_TESTS = frozenset({
    TokenType.BETWEEN, TokenType.ILIKE, TokenType.IN, TokenType.IS, TokenType.LIKE, TokenType.RLIKE,
})  # fmt: skip
_OPERATORS = _COMPARISONS | _TESTS | {TokenType.NOT}
_CLOSED_BY = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.CASE: TokenType.END}
_BORDERS = frozenset({
    TokenType.ALIAS, TokenType.AND, TokenType.COMMA, TokenType.ELSE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ON,
    TokenType.OR, TokenType.ORDER_BY, TokenType.PARTITION_BY, TokenType.QUALIFY, TokenType.RANGE, TokenType.ROWS,
    TokenType.SELECT, TokenType.THEN, TokenType.WHEN, TokenType.WHERE,
})  # fmt: skip
"""What is between two conditions, besides parentheses and ``CASE … END``."""


def check_notation(text: str) -> None:
    """Check that Spark reads a text as sqlglot does.

    Raises:
        ConfigError: Spark does not read it, or reads something else.
    """
    tokens = sqlglot.tokenize(text, read=DIALECT)
    _check_grouping(tokens)
    for at, token in enumerate(tokens):
        following = tokens[at + 1].token_type if at + 1 < len(tokens) else None
        _check_token(token, tokens[at - 1].token_type if at else TokenType.L_PAREN, following)
        if token.token_type in {TokenType.STRING, TokenType.IDENTIFIER}:
            continue
        if following == TokenType.STRING:
            _check_moment(token.text.lower(), tokens[at + 1].text)
        if following == TokenType.L_PAREN:
            _check_call(token.text.lower(), _arguments(tokens, at + 2))


def check_grouping(text: str) -> None:
    """Check that sqlglot groups the comparisons of a text as Spark does; its trees do not keep how they are written.

    Raises:
        ConfigError: it groups them otherwise.
    """
    try:
        _check_grouping(sqlglot.tokenize(text, read=DIALECT))
    except ConfigError as error:
        raise ConfigError(f"{quote(text)}: {error}") from error


def _check_grouping(tokens: Sequence[Token]) -> None:
    for operators in _operators(tokens):
        kinds = [each.token_type for each in operators]
        first = next((at for at, kind in enumerate(kinds) if kind in {TokenType.IS, TokenType.DISTINCT}), len(kinds))
        allowed = _COMPARISONS if TokenType.DISTINCT in kinds else frozenset[TokenType]()
        is_mixed = not _COMPARISONS.isdisjoint(kinds) and not _TESTS.isdisjoint(kinds)
        is_chained = (len(kinds) > 1 and TokenType.NULLSAFE_EQ in kinds) or not allowed.issuperset(kinds[first + 1 :])
        if is_mixed or is_chained:
            words = " and ".join(each.text.upper() for each in operators)
            raise ConfigError(f"Spark may group {words} otherwise; write parentheses, as in (a <=> b) = c")


def _operators(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The operators of each condition, without those in parentheses or ``CASE … END`` within it.

    The ``AND`` of ``BETWEEN`` is among them, and ``IS DISTINCT FROM`` is its ``DISTINCT``.
    """
    outer: list[tuple[TokenType, list[Token]]] = []
    found: list[Token] = []
    for before, token in zip([TokenType.L_PAREN, *(each.token_type for each in tokens)], tokens, strict=False):
        kind, kinds = token.token_type, [each.token_type for each in found]
        if kind in _CLOSED_BY:
            outer.append((_CLOSED_BY[kind], found))
            found = []
        elif outer and kind == outer[-1][0] and before != TokenType.DOT:
            yield found
            _, found = outer.pop()
        elif kind == TokenType.AND and kinds.count(TokenType.BETWEEN) > kinds.count(TokenType.AND):
            found.append(token)
        elif kind in _BORDERS:
            yield found
            found = []
        elif kind == TokenType.DISTINCT and kinds[-1:] == [TokenType.IS]:
            found[-1] = token
        elif kind in _OPERATORS and (kind != TokenType.NOT or (found and before != TokenType.IS)):
            found.append(token)
    yield from (*(each for _, each in outer), found)


def _check_token(token: Token, before: TokenType, following: TokenType | None) -> None:
    if token.token_type == TokenType.L_BRACKET:
        raise ConfigError("'[' makes or reads an array, which is not known without Spark; write array(…)")
    if token.token_type in {TokenType.ISNULL, TokenType.NOTNULL} and following != TokenType.L_PAREN:
        raise ConfigError(f"Spark does not know {token.text.upper()} behind a value; write IS NULL or IS NOT NULL")
    if token.token_type == TokenType.FROM and before == TokenType.L_PAREN:
        raise ConfigError("a query begins with FROM, which Spark does not know; write SELECT * FROM")
    if token.token_type == TokenType.VAR and not token.text.isascii():
        raise ConfigError(f"Spark knows the name {token.text} only in backticks; write `{token.text}`")


def check_suffixes(text: str, tree: exp.Expr) -> None:
    """Check that no whole number with a suffix, such as ``2L``, is computed with a decimal.

    To Spark it has one digit, as ``2`` has; in a tree it is a cast to a type of 20 digits.

    Raises:
        ConfigError: there is one.
    """
    if all(each.token_type != TokenType.DCOLON for each in sqlglot.tokenize(text, read=DIALECT)):
        return  # no suffix: it becomes a cast when the text is cut into tokens
    for node in tree.find_all(exp.Add, exp.Sub, exp.Mul):
        for operand in (node.this, node.expression):
            plain = operand.unnest()
            plain = plain.this.unnest() if isinstance(plain, exp.Neg) else plain
            number = plain.this if isinstance(plain, exp.Cast) else None
            if type_of(node).name == "decimal" and isinstance(number, exp.Literal) and not number.is_string:
                raise ConfigError(f"{node.sql('spark')}: beside a decimal, write {number.name} without a suffix")


def _arguments(tokens: Sequence[Token], first: int) -> list[Token]:
    """The tokens of a call up to its closing parenthesis, without those in parentheses of their own."""
    depth, found = 0, []
    for token in tokens[first:]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth < 0:
            break
        if not depth:
            found.append(token)
    return found


def _check_call(name: str, arguments: list[Token]) -> None:
    if name in _UNKNOWN_FUNCTIONS:
        raise ConfigError(f"Spark has no function {name}; docs/sql.md lists what both know")
    if name in {"trunc", "date_trunc"} and arguments:
        unit = arguments[-1 if name == "trunc" else 0]
        if unit.token_type != TokenType.STRING or unit.text.lower() in _SHORT_UNITS:
            raise ConfigError(f"{name}: Spark does not know the unit {unit.text!r}; write it out, as in 'year'")
    if name == "cast":
        _check_type(arguments)


def _check_type(arguments: list[Token]) -> None:
    """Check the name of the type to which a value is cast, and of the elements of an array."""
    at = max((at for at, each in enumerate(arguments) if each.token_type == TokenType.ALIAS), default=len(arguments))
    words = [each.text for each in arguments[at + 1 :] if each.text[:1].isalpha()]
    wanted = words if words[:1] and words[0].lower() == "array" else words[:1]
    for each in wanted:
        if each.lower() == "struct":
            return
        if each.lower() not in _TYPES:
            raise ConfigError(f"Spark has no type {each}; write one of {', '.join(sorted(_TYPES))}")


def _check_moment(kind: str, text: str) -> None:
    """Check the text of ``DATE '…'`` or ``TIMESTAMP '…'``: Spark refuses a wrong one, and knows words like 'now'."""
    if kind not in _MOMENTS:
        return
    form, read = _MOMENTS[kind]
    full = _SHORT_NUMBER.sub("0", text)
    try:
        right = form.fullmatch(full) is not None and read(full) is not None
    except ValueError:
        right = False
    if not right:
        raise ConfigError(f"{kind.upper()} {text!r}: write it as DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'")
