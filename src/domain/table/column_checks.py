"""What the columns of a service must be: names that are free, and types that all engines compare alike."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ConfigError
from .schema import INTEGERS, TIMES, DataType

_COMPARED = INTEGERS | TIMES | {"string", "decimal", "boolean"}
"""Types whose values all engines compare alike."""


def free_name(name: str, taken: Iterable[str]) -> str:
    """A name for an added column, with a leading `_` if a user's column has the name already.

    Names of users' columns never begin with `_`. Names are compared ignoring case.

    >>> free_name("day", ["Day", "city"])
    '_day'
    """
    return f"_{name}" if name.lower() in {each.lower() for each in taken} else name


def check_own_names(names: Iterable[str]) -> None:
    """Check that no column could collide with Headwater's own columns.

    Raises:
        ConfigError: a name begins with `_`.
    """
    for name in names:
        if name.startswith("_"):
            raise ConfigError(f"column {name!r} is in the way: names that begin with '_' are taken")


def check_flat(what: str, kind: DataType) -> None:
    """Check that a type is not nested: engines do not compare nested values alike.

    Raises:
        ConfigError: it is; the message says what has it.
    """
    if kind.is_nested:
        raise ConfigError(
            f"{what} is a {kind.ddl}, and nested values are carried, not compared; use a column that is not nested"
        )


def check_compared(what: str, kind: DataType) -> None:
    """Check that all engines compare the values of a type alike.

    Raises:
        ConfigError: keys and sequences cannot have the type.
    """
    if kind.name not in _COMPARED:
        raise ConfigError(
            f"{what} is a {kind.ddl}, which engines do not compare alike; use: {', '.join(sorted(_COMPARED))}"
        )
