"""A configuration file with its environment overrides, and the file and line of every value."""

from __future__ import annotations

import re
import tomllib
from ast import literal_eval
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from attrs import frozen

from ...domain.errors import ConfigError, did_you_mean
from .lines import KeyPath, key_lines
from .value_types import Key, choice

_T = TypeVar("_T")


@frozen
class EnvironmentText:
    """A text from the environment: its variable, and whether the variable overrides a key of the file."""

    variable: str
    text: str
    overrides: bool


@frozen(eq=False)
class Document:
    """The values of a deployment, with the origin of each.

    Args:
        file: the path that the user gave.
        tree: the values, after overrides and ``${NAME}`` were applied.
        lines: the line of every key of the file.
        environment: texts from the environment, by key path; they never appear in messages.
    """

    file: Path
    tree: dict[str, Any]
    lines: Mapping[KeyPath, int]
    environment: Mapping[KeyPath, tuple[EnvironmentText, ...]]

    def error(self, path: KeyPath, message: str) -> ConfigError:
        """Return an error at a key. Texts from the environment are removed from the message."""
        return ConfigError(f"{self.place(path)}: {self._scrub(path, message)}")

    def place(self, path: KeyPath) -> str:
        """File, line and key path. For a missing key, the line of its table."""
        known = next((path[:end] for end in range(len(path), 0, -1) if path[:end] in self.lines), None)
        line = f":{self.lines[known]}" if known else ""
        overriding = [text.variable for text in self.environment.get(path, ()) if text.overrides]
        source = f" (set by {overriding[0]})" if overriding else ""
        return f"{self.file}{line}: {dotted(path)}{source}"

    def unknown(self, path: KeyPath, what: str, allowed: Any) -> ConfigError:
        """Return an error at an unknown word, with the allowed ones."""
        names = sorted(allowed)
        listed = ", ".join(names) or "none"
        return self.error(path, f"unknown {what}; allowed: {listed}{did_you_mean(path[-1], names)}")

    def from_environment(self, path: KeyPath) -> bool:
        """Whether a value, or a part of it, comes from the environment."""
        return path in self.environment

    def section(self, path: KeyPath, keys: Mapping[str, Key]) -> dict[str, Any]:
        """Read the values of a table, each by its kind; keys that are not set have their defaults.

        Raises:
            ConfigError: a key is unknown or missing, or a value has the wrong kind.
        """
        table = self.table(path)
        for name in table:
            if name not in keys:
                raise self.unknown((*path, name), "key", keys)
        return {name: self._value((*path, name), key, table) for name, key in keys.items()}

    def value(self, path: KeyPath, key: Key) -> Any:
        """Read one value of a table whose other keys are not known yet."""
        return self._value(path, key, self.table(path[:-1]))

    def table(self, path: KeyPath) -> dict[str, Any]:
        """The table at a path; an empty one if there is none."""
        found: Any = self.tree
        for part in path:
            found = found.get(part, {})
            if not isinstance(found, dict):
                raise self.error(path, f"must be a table: write [{dotted(path)}]")
        return dict(found)

    def build(self, path: KeyPath, build: Callable[[], _T]) -> _T:
        """Call `build` and return its result; name the path in its errors, or the key in it that they begin with.

        Raises:
            ConfigError: `build` refuses the values; the message names the place.
        """
        try:
            return build()
        except ConfigError as error:
            message = self._scrub(path, str(error))
            at = self._first_key(path, message)
            raise ConfigError(f"{self.place(at)}: {message.removeprefix(f'{at[-1]}: ')}") from error

    def check_columns(self, path: KeyPath, columns: tuple[str, ...], *names: str | None) -> None:
        """Refuse names at a path that are not columns.

        Raises:
            ConfigError: a name is not a column; the message lists the columns.
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
        value, texts = table[str(path[-1])], self.environment.get(path, ())
        if texts and isinstance(value, str) and key.kind.from_text:
            value = key.kind.from_text(value)
        try:
            return key.kind.read(value)
        except ConfigError as error:
            hidden = self._texts_within(path)
            message = f"the value of {hidden[0].variable} is not {key.kind.expects}" if hidden else str(error)
            raise self.error(path, message) from (None if hidden else error)

    def _first_key(self, path: KeyPath, message: str) -> KeyPath:
        """The path of the key that a message begins with, if the table at `path` has it; else `path`."""
        word = message.partition(" ")[0].rstrip(":,")
        found: Any = self.tree
        for part in path:
            found = found.get(part, {}) if isinstance(found, dict) else {}
        return (*path, word) if isinstance(found, dict) and word in found else path

    def _texts_within(self, path: KeyPath) -> list[EnvironmentText]:
        return [text for at, texts in self.environment.items() if at[: len(path)] == path for text in texts]

    def _scrub(self, path: KeyPath, message: str) -> str:
        for text in filter(lambda each: each.text, self._texts_within(path)):
            message = re.sub(rf"(?<!\w){re.escape(text.text)}(?!\w)", f"<{text.variable}>", message)
        return message


def dotted(path: KeyPath) -> str:
    """A key path as TOML writes it; list items have numbers."""
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{quoted_key(part)}" for part in path)
    return words.removeprefix(".")


def quoted_key(part: str) -> str:
    """A key as TOML writes it, in quotes if it needs them."""
    return part if re.fullmatch(r"[\w-]+", part) else f'"{part}"'


def parse(file: Path) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Return the values of a TOML file, and the line of every key.

    Raises:
        ConfigError: the file does not exist, or it is not valid TOML.
    """
    try:
        text = file.read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}; name an existing TOML file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except ValueError as error:  # a null character
        raise ConfigError(f"{str(file)!r} is not a path: {error}; name an existing TOML file") from error
    return parse_text(text, file)


def parse_text(text: str, file: Path) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Return the values of a TOML text, and the line of every key; `file` names it in messages.

    Raises:
        ConfigError: it is not valid TOML.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        return tomllib.loads(text), key_lines(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = found[1] if found else text.rstrip().count("\n") + 1  # else it says "at end of document"
        raise ConfigError(f"{file}:{line}: {_explain(error)}") from error


def _explain(error: tomllib.TOMLDecodeError) -> str:
    """What is wrong with a TOML text; `tomllib` shows a table that occurs twice as Python would."""
    if twice := re.search(r"Cannot declare (\(.+\)) twice", str(error)):
        table = dotted(literal_eval(twice[1]))
        return f"is not valid TOML: [{table}] occurs twice; give one of them another name, or join them"
    return f"is not valid TOML: {error}"
