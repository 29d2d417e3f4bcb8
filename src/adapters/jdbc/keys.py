"""Ranges of a table's key as SQL conditions. Names and literals are SQL, as the database writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from attrs import frozen

from ...domain.table.schema import DataType

Value: TypeAlias = int | str
"""One column of a key, in JSON values: everything but whole numbers of a number column as text."""

Key: TypeAlias = Sequence[Value]
"""The columns of a key."""


@frozen
class KeyColumn:
    """A column of a key.

    Args:
        name: its name in the database.
        type: its declared type.
        nullable: whether it may be null.
        is_number: whether the database orders its values as numbers, whatever its declared type.
        database_type: the database's name of its type.
    """

    name: str
    type: DataType
    nullable: bool
    is_number: bool
    database_type: str


def condition_after(names: Sequence[str], key: Sequence[str]) -> str:
    """A condition for keys after a given one, compared column by column.

    >>> condition_after(["a"], ["1"])
    'a > 1'
    >>> condition_after(["a", "b"], ["1", "2"])
    'a >= 1 AND (a > 1 OR (a = 1 AND (b > 2)))'
    """
    return _condition(names, key, ">", ">")


def condition_until(names: Sequence[str], key: Sequence[str]) -> str:
    """A condition for keys up to a given one, which is included.

    >>> condition_until(["a", "b"], ["1", "2"])
    'a <= 1 AND (a < 1 OR (a = 1 AND (b <= 2)))'
    """
    return _condition(names, key, "<", "<=")


def condition_within(
    names: Sequence[str], nullable: Sequence[str], after: Sequence[str] | None, until: Sequence[str] | None
) -> str | None:
    """A condition for the rows of a chunk; None: all rows.

    Rows with a null in the key are in no range, and databases differ in where they sort them. So they belong to the
    last chunk, which has no upper bound.

    >>> condition_within(["a"], ["a"], ["1"], ["2"])
    'a IS NOT NULL AND (a > 1) AND (a <= 2)'
    >>> condition_within(["a"], ["a"], ["2"], None)
    '(a > 2) OR a IS NULL'
    """
    low = [] if after is None else [f"({condition_after(names, after)})"]
    if until is None:
        return " OR ".join([*low, *(f"{name} IS NULL" for name in nullable)]) if low else None
    return " AND ".join([*not_null(nullable), *low, f"({condition_until(names, until)})"])


def not_null(names: Sequence[str]) -> list[str]:
    """Conditions for columns that are not null."""
    return [f"{name} IS NOT NULL" for name in names]


def _condition(names: Sequence[str], key: Sequence[str], beyond: str, last: str) -> str:
    sql = f"{names[-1]} {last} {key[-1]}"
    for name, value in reversed(list(zip(names[:-1], key[:-1], strict=True))):
        sql = f"{name} {beyond} {value} OR ({name} = {value} AND ({sql}))"
    # The first condition tells an index where to begin; an OR alone would not.
    return sql if len(names) == 1 else f"{names[0]} {beyond}= {key[0]} AND ({sql})"
