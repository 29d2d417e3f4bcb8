"""Sets and removes keys of a deployment file line by line, so that its comments and its order stay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..app.document.document import parse_text
from ..domain.errors import ConfigError


def set_key(text: str, key: str, value: str, file: Path) -> str:
    """Return a TOML text with another value of a key.

    Args:
        text: the text.
        key: its tables and its name, with dots between them.
        value: TOML, on one line.
        file: names the text in messages.

    Raises:
        ConfigError: the value is not valid TOML; or the key is in an inline table, or its value is on several lines.
    """
    tree, places = parse_text(text, file)
    *table, name = path = key.split(".")
    try:
        wanted = _with(tree, path, parse_text(f"value = {value}", file)[0]["value"])
    except ConfigError:
        raise ConfigError(f"the setting {key} = {value}: the value is not valid TOML; a text needs quotes") from None
    lines, head, line = text.splitlines(), f"[{'.'.join(table)}]", f"{name} = {value}"
    heads = [number for number, each in enumerate(lines, 1) if each.startswith(head)]
    if at := places.get((*table, name)):
        lines[at - 1] = line
    elif heads:
        lines.insert(heads[0], line)
    else:
        lines += [head, line]
    return _checked(lines, wanted, key, file)


def unset_key(text: str, key: str, file: Path) -> str:
    """Return a TOML text without a key; see `set_key`.

    Raises:
        ConfigError: the text does not set the key; or the key is in an inline table, or its value is on several lines.
    """
    tree, places = parse_text(text, file)
    path = key.split(".")
    if (at := places.get(tuple(path))) is None:
        raise ConfigError(f"the deployment does not set {key}")
    lines = text.splitlines()
    return _checked(lines[: at - 1] + lines[at:], _with(tree, path, None), key, file)


def _with(tree: Any, path: Sequence[str], value: Any) -> dict[str, Any]:
    """Return the tables with another value at a path; without the last key of the path if the value is None."""
    found, (name, *rest) = dict(tree) if isinstance(tree, dict) else {}, path
    if rest:
        return {**found, name: _with(found.get(name), rest, value)}
    found.pop(name, None)
    return found if value is None else {**found, name: value}


def _checked(lines: Sequence[str], wanted: dict[str, Any], key: str, file: Path) -> str:
    """Return the text of the lines if they say what is wanted: other keys than this one must stay as they are."""
    text = "\n".join(lines) + "\n"
    try:
        is_right = parse_text(text, file)[0] == wanted
    except ConfigError:
        is_right = False
    if not is_right:
        table, _, name = key.rpartition(".")
        raise ConfigError(
            f"the setting {key} cannot be changed: the deployment file has it in an inline table, over several lines or"
            f" in a table of its own; write [{table}] there, and {name} below it, on one line"
        )
    return text
