"""Applies the environment: variables that override keys, and ``${NAME}`` inside values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from attrs import define, field

from ...domain.errors import ConfigError, did_you_mean
from .document import Document, EnvironmentText, dotted
from .lines import KeyPath
from .value_types import Key

Shape: TypeAlias = Mapping[str, "Shape | Key"]

PREFIX = "HEADWATER_"
NESTING = "__"
_REFERENCE = re.compile(r"\$\$\{|\$\{(?:(\w+)\})?")
"""Matches ``$${``, ``${NAME}``, and a ``${`` that begins no reference; only the second has a group."""


def shape(keys: Mapping[str, Key], table: Any) -> dict[str, Shape | Key]:
    """Return the keys of a table, and of the tables that the file has in it: a variable cannot add a table."""
    values = table if isinstance(table, dict) else {}
    return {name: _inner_shape(key, values.get(name)) for name, key in keys.items()}


def _inner_shape(key: Key, value: Any) -> Shape | Key:
    inside = key.kind.inside
    return shape(inside(value), value) if inside and isinstance(value, dict) else key


def overlay(
    file: Path, tree: dict[str, Any], lines: Mapping[KeyPath, int], environ: Mapping[str, str], shape: Shape
) -> Document:
    """Apply environment variables to the values of a file.

    Args:
        file: the path that the user gave.
        tree: the values of the file.
        lines: the line of every key.
        environ: the environment of the process.
        shape: every key that may be overridden, nested like the file.

    Raises:
        ConfigError: a variable overrides no known key or several, a ``${NAME}`` is not set, or a ``${`` has no name.
    """
    overlaid = _Overlay(file, environ, lines)
    for variable in sorted(environ):
        if _overrides(variable):
            tree = overlaid.override(tree, variable, shape)
    return Document(file, overlaid.expand(tree, ()), lines, overlaid.texts)


def check_misspelt(tree: Mapping[str, Any], environ: Mapping[str, str], shape: Shape) -> None:
    """Refuse variables that differ from that of a key only in underscores or case, unless the file refers to them.

    Args:
        tree: the values of the file, as they are written.
        environ: see `overlay`.
        shape: see `overlay`.

    Raises:
        ConfigError: names the variable of the key.
    """
    near = [each for each in environ if _loose(each).startswith(_loose(PREFIX)) and not _overrides(each)]
    if not near:  # as nearly always
        return
    named, keys = set(_references(tree)), {_loose(PREFIX + _variable(path)): path for path, _ in _leaves(shape, ())}
    for variable in sorted(near):
        if variable not in named and (path := keys.get(_loose(variable))):
            raise ConfigError(
                f"{variable}: has no effect; the variable of {dotted(path)} is {PREFIX}{_variable(path).upper()}:"
                " rename it, or remove it"
            )


def _references(value: Any) -> Iterator[str]:
    """Yield the variables that a value refers to."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _references(each)
    elif isinstance(value, str):
        yield from filter(None, _REFERENCE.findall(value))


@define
class _Overlay:
    file: Path
    environ: Mapping[str, str]
    lines: Mapping[KeyPath, int]
    texts: dict[KeyPath, tuple[EnvironmentText, ...]] = field(init=False, factory=dict)

    def override(self, tree: dict[str, Any], variable: str, shape: Shape) -> dict[str, Any]:
        path, key = self._target(variable, shape)
        if key.kind.from_text is None:
            raise ConfigError(
                f"{variable}: {dotted(path)} is {key.kind.expects}, which one variable cannot give; write it in"
                f' {self.file}, with "${{NAME}}" for each part from the environment'
            )
        if path in self.texts:
            raise ConfigError(
                f"{self.texts[path][0].variable} and {variable} both set {dotted(path)}; remove one of them"
            )
        self.texts[path] = (EnvironmentText(variable, self.environ[variable], overrides=True),)
        return _with(tree, path, self.environ[variable])

    def _target(self, variable: str, shape: Shape) -> tuple[KeyPath, Key]:
        wanted = _plain(variable.removeprefix(PREFIX))
        known = dict(_leaves(shape, ()))
        found = [path for path in known if wanted == _variable(path)]
        if len(found) > 1:
            raise ConfigError(
                f"{variable}: {' and '.join(map(dotted, found))} both have this name; write the value in {self.file},"
                ' with "${NAME}" for what comes from the environment'
            )
        if found:
            return found[0], known[found[0]]
        names = [PREFIX + _variable(path).upper() for path in known]
        raise ConfigError(f"{variable}: there is no such key in {self.file}{did_you_mean(variable, names)}")

    def expand(self, value: Any, path: KeyPath) -> Any:
        """Replace every ``${NAME}`` in a value; ``$${`` becomes the text ``${``."""
        if isinstance(value, dict):
            return {name: self.expand(each, (*path, name)) for name, each in value.items()}
        if isinstance(value, list):
            return [self.expand(each, (*path, at)) for at, each in enumerate(value)]
        if isinstance(value, str) and path not in self.texts:
            return _REFERENCE.sub(lambda found: self._resolve_reference(found, path), value)
        return value

    def _resolve_reference(self, found: re.Match[str], path: KeyPath) -> str:
        if found[0] == "$${":
            return "${"
        place, name = Document(self.file, {}, self.lines, {}).place(path), found[1]
        if not name:
            raise ConfigError(
                f'{place}: "${{" is not followed by the name of a variable and "}}"; write "${{NAME}}", in letters,'
                ' digits and _ and without a default, or "$${" for the text "${" itself'
            )
        if name not in self.environ:
            raise ConfigError(
                f"{place}: the environment has no variable {name}; set it, or write $${{{name}}} for the text itself"
            )
        self.texts[path] = (*self.texts.get(path, ()), EnvironmentText(name, self.environ[name], overrides=False))
        return self.environ[name]


def _leaves(shape: Shape, path: KeyPath) -> Iterator[tuple[KeyPath, Key]]:
    for name, inner in shape.items():
        if isinstance(inner, Key):
            yield (*path, name), inner
        else:
            yield from _leaves(inner, (*path, name))


def _variable(path: KeyPath) -> str:
    """Return the variable name of a key path, in lower case.

    >>> _variable(("backend", "spark", "spark.driver.memory"))
    'backend__spark__spark_driver_memory'
    """
    return NESTING.join(_plain(str(part)) for part in path)


def _plain(text: str) -> str:
    return re.sub(r"\W", "_", text).lower()


def _overrides(variable: str) -> bool:
    return variable.startswith(PREFIX) and NESTING in variable


def _loose(text: str) -> str:
    """Return a name without its underscores and in lower case.

    >>> _loose("headwater_Run_Poll") == _loose("HEADWATER_RUN__POLL")
    True
    """
    return _plain(text).replace("_", "")


def _with(tree: dict[str, Any], path: KeyPath, value: str) -> dict[str, Any]:
    """Return the tree with one value replaced."""
    name, *rest = path
    if not rest:
        return {**tree, str(name): value}
    inner = tree.get(str(name), {})
    return {**tree, str(name): _with(inner if isinstance(inner, dict) else {}, tuple(rest), value)}
