"""Finds and loads classes that installed packages register by entry points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar

from ...domain.errors import ConfigError

_T = TypeVar("_T")


def available(group: str) -> tuple[str, ...]:
    """The names in a group of entry points."""
    return tuple(sorted({entry.name for entry in _installed(group)}))


def load(group: str, name: str, kind: type[_T]) -> type[_T]:
    """Load a subclass of a class by the name of its entry point.

    Args:
        group: of the entry point, such as ``headwater.backends``.
        name: of the entry point.
        kind: the class.

    Raises:
        ConfigError: no package or more than one registers that name, or the registered object cannot be imported or is
            not a subclass.
    """
    what = group.rpartition(".")[2].removesuffix("s")
    found = [entry for entry in _installed(group) if entry.name == name]
    if not found:
        raise ConfigError(f"{what} {name!r} is not available here; available: {', '.join(available(group))}")
    if len({entry.value for entry in found}) > 1:
        listed = " and ".join(f"({_describe(entry)})" for entry in found)
        raise ConfigError(f"{what} {name!r} is registered twice: {listed}; remove a package, or rename its entry point")
    loaded = _imported(found[0], f"{what} {name!r}")
    if not (isinstance(loaded, type) and issubclass(loaded, kind)):
        expected = f"{kind.__module__}.{kind.__qualname__}"
        raise ConfigError(f"entry point {found[0].value!r} of {what} {name!r} must be a {expected}")
    return loaded


def load_each(names: Iterable[str], load: Callable[[str], _T]) -> dict[str, _T]:
    """Load by name what can be loaded; leave out the rest, for it is an error only where it is used."""
    found = {}
    for name in names:
        with suppress(ConfigError):
            found[name] = load(name)
    return found


def _imported(entry: EntryPoint, what: str) -> Any:
    try:
        return entry.load()
    except Exception as error:  # the code of a package may raise anything
        raise ConfigError(
            f"{what} ({_describe(entry)}) cannot be imported: {type(error).__name__}: {error};"
            " install what it lacks, or remove the package"
        ) from error


def _describe(entry: EntryPoint) -> str:
    """The package and the object of an entry point, for a message."""
    return f"package {entry.dist.name} {entry.dist.version}, {entry.value}" if entry.dist else entry.value


def _installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, looked for again when a package may have been installed."""
    return _look_up(group, tuple((path, _changed_at(path)) for path in sys.path))


@lru_cache(maxsize=32)
def _look_up(group: str, _place: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _changed_at(path: str) -> int:
    """When a folder was changed, in nanoseconds; 0 if it is none."""
    with suppress(OSError, ValueError):
        return Path(path).stat().st_mtime_ns
    return 0
