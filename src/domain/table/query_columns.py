"""The names of the columns of a user-supplied query: those that it must have, and those that it cannot have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..errors import ConfigError
from .change import POSITION
from .row_kind import ROW_KIND

MULTIPLICITY = "_multiplicity"
"""bigint: the number of equal rows that came or went, for tables without a key."""
SEQUENCE, OPERATION = "_sequence", "_op"
"""The hidden columns of a table that keeps a log of changes, where a backend stores them next to the table's own."""
_TEMPORARY = re.compile("_headwater_.*")
"""The names of columns that rows have only while they are compared, merged or read."""
_IN_VIEWS = re.compile(rf"{POSITION}|{SEQUENCE}|{OPERATION}|_by\d+")
"""The names of columns that rows of a materialized view have while they are stored, looked up or read."""


def match_names(needed: Iterable[str], found: Iterable[str]) -> tuple[str, ...]:
    """The names of needed columns as a query's result spells them: their case does not matter.

    Raises:
        ConfigError: the result lacks one; the message lists its columns.

    >>> match_names(["ID"], ["n", "id"])
    ('id',)
    """
    by_lower = {name.lower(): name for name in found}
    needed = tuple(needed)
    if missing := [name for name in needed if name.lower() not in by_lower]:
        raise ConfigError(f"the query has no column {missing[0]!r}; it has: {', '.join(by_lower.values())}")
    return tuple(by_lower[name.lower()] for name in needed)


def check_table_columns(names: Iterable[str], *, keyed: bool) -> None:
    """Check the column names of a published table, which must not be those of its differences.

    Args:
        names: of the columns.
        keyed: whether the table has a key.

    Raises:
        ConfigError: a name is taken; the message has the remedy.

    >>> check_table_columns(["id", "_op"], keyed=True)
    """
    _check(names, *([ROW_KIND] if keyed else [ROW_KIND, MULTIPLICITY]))


def check_view_columns(names: Iterable[str]) -> None:
    """Check the column names of a materialized view; see `check_table_columns`.

    Raises:
        ConfigError: a name is taken; the message has the remedy.
    """
    _check(names, ROW_KIND, _IN_VIEWS.pattern)


def _check(names: Iterable[str], *taken: str) -> None:
    pattern = re.compile("|".join([*taken, _TEMPORARY.pattern]), re.IGNORECASE)
    for name in names:
        if pattern.fullmatch(name):
            free = name.strip("_") or "other"
            raise ConfigError(
                f"column {name!r} has the name of one that Headwater adds; name it otherwise in the query, such as"
                f" … AS {free}"
            )
