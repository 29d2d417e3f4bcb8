"""Text to syntax trees, in Spark's dialect."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..errors import ConfigError

DIALECT = "spark"


def parsed(text: str) -> exp.Expr:
    """The tree of the one statement or expression that a text holds.

    Raises:
        ConfigError: it cannot be parsed, or holds none or several.
    """
    try:
        found = [each for each in sqlglot.parse(text, dialect=DIALECT) if each is not None]
    except (SqlglotError, RecursionError) as error:
        raise ConfigError(f"cannot read SQL {shown(text)}: {_reason(error)}; write it in Spark's dialect") from error
    if len(found) != 1 or isinstance(found[0], exp.Semicolon):
        raise ConfigError(f"SQL {shown(text)} holds {len(found)} statements; write one")
    return found[0]


def shown(text: str) -> str:
    r"""A text as messages quote it: on one line, and not too long.

    >>> shown("select  a\n from t")
    "'select a from t'"
    """
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…")


_SHOWN = 120


def written(tree: exp.Expr) -> str:
    """A tree as Spark's SQL, every name in backticks."""
    return tree.sql(dialect=DIALECT, identify=True)


def _reason(error: Exception) -> str:
    details = getattr(error, "errors", None) or [{}]
    told = details[0].get("description")
    if not told:
        return str(error).split("\n", 1)[0]
    return f"{told} at line {details[0].get('line')}, column {details[0].get('col')}"
