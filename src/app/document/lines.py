"""Finds the line of each key of a TOML text, which `tomllib` does not report."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import TypeAlias

from attrs import define, field, frozen

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys from the root; a number is the index of an array item."""

_TOKEN = re.compile(
    r"""
    (?P<string>\"{3}(?:\\.|[^\\])*?\"{3,5} | '{3}.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
    | (?P<comment>\#[^\n]*)
    | (?P<newline>\n)
    | (?P<bare>[A-Za-z0-9_-]+)
    | (?P<mark>[\[\]{}=,.])
    """,
    re.VERBOSE | re.DOTALL,
)
_END = "end"


@frozen
class _Token:
    kind: str
    text: str
    line: int

    @property
    def key(self) -> str:
        return str(tomllib.loads(f"key = {self.text}")["key"]) if self.kind == "string" else self.text


def key_lines(text: str) -> dict[KeyPath, int]:
    r"""Return the line (from 1) of every key and table header of a valid TOML text.

    >>> key_lines('[a]\nb = { c = 1,\n d = 2 }')[("a", "b", "d")]
    3
    """
    scanner = _Scanner(_tokens(text))
    scanner.document()
    return scanner.lines


def _tokens(text: str) -> Iterator[_Token]:
    line, counted = 1, 0
    for match in _TOKEN.finditer(text):
        line, counted = line + text.count("\n", counted, match.start()), match.start()
        if match.lastgroup and match.lastgroup != "comment":
            yield _Token(match.lastgroup, match[0], line)
    yield _Token(_END, "", line)


@define
class _Scanner:
    """Walks the tokens. The text is valid TOML, so there is no check for mistakes."""

    _rest: Iterator[_Token]
    lines: dict[KeyPath, int] = field(init=False, factory=dict)
    _now: _Token = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._now = next(self._rest)

    def document(self) -> None:
        table: KeyPath = ()
        while self._now.kind != _END:
            if self._now.kind == "newline":
                self._take()
            elif self._now.text == "[":
                table = self._header()
            else:
                self._pair(table)

    def _take(self) -> _Token:
        taken = self._now
        self._now = next(self._rest, taken)
        return taken

    def _header(self) -> KeyPath:
        self._skip("[")
        table = self._key((), until="]")
        self._skip("]")
        return table

    def _pair(self, table: KeyPath) -> None:
        self._value(self._key(table, until="="))

    def _key(self, within: KeyPath, until: str) -> KeyPath:
        path = within
        while (part := self._take()).text != until:
            if part.text != ".":
                path = (*path, part.key)
                self.lines.setdefault(path, part.line)
        return path

    def _value(self, path: KeyPath) -> None:
        match self._take().text:
            case "{":
                while self._another("}"):
                    self._pair(path)
            case "[":
                index = 0
                while self._another("]"):
                    self.lines[*path, index] = self._now.line
                    self._value((*path, index))
                    index += 1
            case _:
                while self._now.text not in {",", "]", "}", "\n", ""}:
                    self._take()

    def _another(self, closing: str) -> bool:
        """Whether an array or inline table has another item; if not, take the closing token."""
        self._skip(",", "\n")
        if self._now.text != closing:
            return True
        self._take()
        return False

    def _skip(self, *texts: str) -> None:
        while self._now.text in texts:
            self._take()
