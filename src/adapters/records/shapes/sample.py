"""A record as a tree that knows where each value stands in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import define, field, frozen

ESCAPED_TEXT = r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt])*'
"""The characters of a string; of the escapes those that stand for one character each."""
_TOKEN = re.compile(rf'[ \t]*(?:("{ESCAPED_TEXT}")|(-?[0-9][0-9.eE+-]*)|(true|false)|(null)|([{{}}\[\]:,]))')
_KINDS = ("", "string", "number", "bool", "null", "mark")
_LONGEST = 2**18
_DEEPEST = 16


class Unlearnable(Exception):
    """A record of which no shape is learned."""


@frozen(eq=False)
class Node:
    """A JSON value: ``object array string number bool null``, its text, and where that begins and ends.

    `items` are the values inside by key, those of an array by number.
    """

    kind: str
    text: str
    start: int
    end: int
    items: dict[str | int, Node] = field(factory=dict)

    def at(self, *path: str | int) -> Node | None:
        """The value at a path; None if there is none."""
        node: Node | None = self
        for key in path:
            node = node.items.get(key) if node else None
        return node

    @property
    def word(self) -> str | None:
        """The value of a string without escapes; None for all else."""
        return self.text[1:-1] if self.kind == "string" and "\\" not in self.text else None

    def leaves(self) -> Iterator[Node]:
        """The values that are neither objects nor arrays, in order."""
        if self.kind not in ("object", "array"):
            yield self
        for each in self.items.values():
            yield from each.leaves()


def read_sample(text: str) -> Node:
    """The tree of a record that is valid JSON.

    Raises:
        Unlearnable: it is too long or too deep, has a key twice, or text that shapes do not cover.
    """
    if len(text) > _LONGEST:
        raise Unlearnable("too long")
    return _Reader(text, list(_tokens(text))).value(0)


def _tokens(text: str) -> Iterator[Node]:
    at, end = 0, len(text.rstrip(" \t"))
    while at < end:
        found = _TOKEN.match(text, at)
        if not found or found.lastindex is None:
            raise Unlearnable(text[at : at + 40])
        at = found.end()
        yield Node(_KINDS[found.lastindex], found[found.lastindex], found.start(found.lastindex), at)


@define(eq=False)
class _Reader:
    """Makes a tree from the tokens of valid JSON."""

    text: str
    tokens: list[Node]
    at: int = 0

    def value(self, depth: int) -> Node:
        token = self._next()
        if token.kind != "mark":
            return token
        if depth == _DEEPEST:
            raise Unlearnable("too deep")
        return self._object(token, depth + 1) if token.text == "{" else self._array(token, depth + 1)

    def _next(self) -> Node:
        self.at += 1
        return self.tokens[self.at - 1]

    def _object(self, opened: Node, depth: int) -> Node:
        items: dict[str | int, Node] = {}
        closed = self._empty("}")
        while closed is None:
            key = self._next().word
            self._next()
            if key is None or key in items:
                raise Unlearnable("a key twice, or with escapes")
            items[key] = self.value(depth)
            closed = self._closed("}")
        return self._whole("object", opened, closed, items)

    def _array(self, opened: Node, depth: int) -> Node:
        items: dict[str | int, Node] = {}
        closed = self._empty("]")
        while closed is None:
            items[len(items)] = self.value(depth)
            closed = self._closed("]")
        return self._whole("array", opened, closed, items)

    def _empty(self, mark: str) -> Node | None:
        return self._next() if self.tokens[self.at].text == mark else None

    def _closed(self, mark: str) -> Node | None:
        token = self._next()
        return token if token.text == mark else None

    def _whole(self, kind: str, opened: Node, closed: Node, items: dict[str | int, Node]) -> Node:
        return Node(kind, self.text[opened.start : closed.end], opened.start, closed.end, items)
