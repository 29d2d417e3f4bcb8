"""A configuration file with the environment laid over it, which can name the place of every value."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import frozen

from ...domain.errors import ConfigError
from .kinds import choice, did_you_mean
from .lines import key_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from .kinds import Key
    from .lines import KeyPath

_T = TypeVar("_T")


@frozen
class Given:
    """A text that the environment gave: by which variable, and whether that variable overrides what the file says."""

    variable: str
    text: str
    overrides: bool


@frozen(eq=False)
class Document:
    """The values of a deployment, and where each came from.

    Args:
        file: as the user named it.
        tree: the values, overrides and ``${NAME}`` put in.
        lines: line of every key of the file.
        environment: what the environment gave, by key path; never shown to anyone.
    """

    file: Path
    tree: dict[str, Any]
    lines: Mapping[KeyPath, int]
    environment: Mapping[KeyPath, tuple[Given, ...]]

    def error(self, path: KeyPath, message: str) -> ConfigError:
        """An error at a key, without a trace of what the environment gave."""
        return ConfigError(f"{self.place(path)}: {self._scrubbed(path, message)}")

    def place(self, path: KeyPath) -> str:
        """File, line and key path; the line of the table that should have the key, where it has none."""
        known = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in self.lines), None)
        line = f":{self.lines[known]}" if known else ""
        overriding = [given.variable for given in self.environment.get(path, ()) if given.overrides]
        source = f" (set by {overriding[0]})" if overriding else ""
        return f"{self.file}{line}: {dotted(path)}{source}"

    def unknown(self, path: KeyPath, what: str, allowed: Any) -> ConfigError:
        """An error at a word that is not one of those allowed."""
        names = sorted(allowed)
        listed = ", ".join(names) or "none"
        return self.error(path, f"unknown {what}; allowed: {listed}{did_you_mean(path[-1], names)}")

    def from_environment(self, path: KeyPath) -> bool:
        """Whether the environment gave a value, or a part of it."""
        return path in self.environment

    def section(self, path: KeyPath, keys: Mapping[str, Key]) -> dict[str, Any]:
        """The values of a table, each read as its kind says, with the defaults of those not given.

        Raises:
            ConfigError: an unknown key, a missing one, or a value of another kind.
        """
        table = self.table(path)
        for name in table:
            if name not in keys:
                raise self.unknown((*path, name), "key", keys)
        return {name: self._value((*path, name), key, table) for name, key in keys.items()}

    def value(self, path: KeyPath, key: Key) -> Any:
        """One value of a table whose other keys are not known yet."""
        return self._value(path, key, self.table(path[:-1]))

    def table(self, path: KeyPath) -> dict[str, Any]:
        """The table at a path; an empty one if there is none."""
        found: Any = self.tree
        for part in path:
            found = found.get(part, {})
            if not isinstance(found, dict):
                raise self.error(path, f"must be a table: write [{dotted(path)}]")
        return dict(found)

    def built(self, path: KeyPath, build: Callable[[], _T]) -> _T:
        """What `build` makes of the values at a path.

        Raises:
            ConfigError: it refuses them; the message names the place.
        """
        try:
            return build()
        except ConfigError as error:
            raise self.error(path, str(error)) from error

    def check_columns(self, path: KeyPath, columns: tuple[str, ...], *names: str | None) -> None:
        """Refuse names at a path that are none of these columns.

        Raises:
            ConfigError: with the columns there are.
        """
        for name in filter(None, names):
            if name not in columns:
                try:
                    choice(*columns).read(name)
                except ConfigError as error:
                    raise self.error(path, f"no such column: {error}") from error

    def _value(self, path: KeyPath, key: Key, table: Mapping[str, Any]) -> Any:
        if path[-1] not in table:
            if key.required:
                raise self.error(path, f"is missing; it is {key.kind.expects}")
            return key.default
        given, known = table[str(path[-1])], self.environment.get(path, ())
        if known and isinstance(given, str) and key.kind.from_text:
            given = key.kind.from_text(given)
        try:
            return key.kind.read(given)
        except ConfigError as error:
            hidden = self._within(path)
            message = f"what {hidden[0].variable} gives is not {key.kind.expects}" if hidden else str(error)
            raise self.error(path, message) from (None if hidden else error)

    def _within(self, path: KeyPath) -> list[Given]:
        return [given for at, all_given in self.environment.items() if at[: len(path)] == path for given in all_given]

    def _scrubbed(self, path: KeyPath, message: str) -> str:
        for given in self._within(path):
            message = re.sub(rf"(?<!\w){re.escape(given.text)}(?!\w)", f"<{given.variable}>", message)
        return message


def dotted(path: KeyPath) -> str:
    """A key path as TOML writes it, items of lists by number."""
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{_quoted(part)}" for part in path)
    return words.removeprefix(".")


def _quoted(part: str) -> str:
    return part if re.fullmatch(r"[\w-]+", part) else f'"{part}"'


def parse(file: Path) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """The values of a TOML file as they stand there, and the line of every key.

    Raises:
        ConfigError: there is no such file, or it is no TOML.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        return tomllib.loads(text), key_lines(text)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}; name an existing TOML file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = found[1] if found else text.rstrip().count("\n") + 1  # else it says "at end of document"
        raise ConfigError(f"{file}:{line}: is not valid TOML: {error}") from error
