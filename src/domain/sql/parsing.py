"""Parsing of text into syntax trees, in Spark's dialect."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..errors import ConfigError, first_line

DIALECT = "spark"


def parse(text: str) -> exp.Expr:
    """The syntax tree of a text with one statement or expression.

    Raises:
        ConfigError: it cannot be parsed, or does not have exactly one statement.
    """
    try:
        found = [each for each in sqlglot.parse(text, dialect=DIALECT) if each is not None]
    except (SqlglotError, RecursionError) as error:
        raise ConfigError(f"cannot read SQL {quote(text)}: {_reason(error)}; write it in Spark's dialect") from error
    if len(found) != 1 or isinstance(found[0], exp.Semicolon):
        raise ConfigError(f"SQL {quote(text)} holds {len(found)} statements; write one")
    return found[0]


def quote(text: str) -> str:
    r"""A text in quotes for messages: on one line, shortened to 120 characters.

    >>> quote("select  a\n from t")
    "'select a from t'"
    """
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…")


_SHOWN = 120


def to_sql(tree: exp.Expr) -> str:
    """A tree as SQL in Spark's dialect, with all names in backticks."""
    return tree.sql(dialect=DIALECT, identify=True)


def _reason(error: Exception) -> str:
    details = getattr(error, "errors", None) or [{}]
    description = details[0].get("description")
    if not description:
        return first_line(error)
    return f"{description} at line {details[0].get('line')}, column {details[0].get('col')}"
