"""Values of a program as the values of a configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time, timedelta
from os import PathLike, fspath
from types import UnionType
from typing import Any, TypeVar

from ...domain.errors import ConfigError

_T = TypeVar("_T")
_MILLISECOND = timedelta(milliseconds=1)


def check_type(given: _T, kind: type | UnionType, expected: str) -> _T:
    """Return a value.

    Raises:
        ConfigError: it is of another type; `expected` says what it should be.
    """
    if not isinstance(given, kind):
        raise ConfigError(f"{shown(given)} is not {expected}")
    return given


def shown(value: object) -> str:
    """A value for messages. TOML reads a date or a time without quotes, which Python would show by its class.

    >>> shown("a"), shown([date(2024, 1, 2), 1])
    ("'a'", '[2024-01-02 (without quotes), 1]')
    """
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return f"{value} (without quotes)" if isinstance(value, date | time) else repr(value)


def plain(value: Any) -> Any:
    """A value as TOML has it; keys of a mapping whose value is None are left out.

    A timedelta with a part of a millisecond stays as it is, and is refused where its key is known.

    >>> plain({"step": timedelta(minutes=1), "group": ("state",), "updated_at": None})
    {'step': '60000ms', 'group': ['state']}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, timedelta) and not value % _MILLISECOND:
        return f"{value // _MILLISECOND}ms"
    return fspath(value) if isinstance(value, PathLike) else value
