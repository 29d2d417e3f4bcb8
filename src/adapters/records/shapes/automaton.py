"""Patterns as tables of an automaton, which read each byte once.

They are the patterns of `cell`: classes, groups, alternatives and repetitions, of ASCII, without anchors. Bytes beyond
ASCII are in the classes that exclude some characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, reduce
from typing import TypeAlias

from attrs import define, field, frozen

_BYTES = frozenset(range(256))
_MOST_STATES = 255
_PART = re.compile(r"\(\?:|\{\d+(?:,\d+)?\}|\\x[0-9a-f]{2}|\\.|.", re.DOTALL)
_REPEATED = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class UnknownPattern(Exception):
    """A pattern that this module does not read."""


@frozen
class _Class:
    """One byte of some."""

    bytes: frozenset[int]


@frozen
class _Sequence:
    """One after the other."""

    first: _Pattern
    rest: _Pattern


@frozen
class _Choice:
    """One of several."""

    patterns: frozenset[_Pattern]


@frozen
class _Star:
    """Any number of repetitions."""

    pattern: _Pattern


_Pattern: TypeAlias = "_Class | _Sequence | _Choice | _Star"
_NEVER: _Pattern = _Choice(frozenset())
_NOTHING: _Pattern = _Star(_NEVER)


@lru_cache(maxsize=1024)
def table_of(pattern: str) -> bytes:
    """The table of a pattern.

    State 1 is the beginning, and in state 0 nothing matches any more. The first 256 bytes say by state whether what was
    read so far matches. Then each state from 1 on has 256 bytes: the next state, by the byte that is read.

    Raises:
        UnknownPattern: it is not of the kind that the module names.
    """
    states = [_Parser(_PART.findall(pattern)).parse()]
    rows, at = [], 0
    while at < len(states):
        nexts = dict[int, int]()
        for same in _alike(states[at]):
            then = _after(states[at], next(iter(same)))
            if then != _NEVER and then not in states:
                states.append(then)
            nexts |= dict.fromkeys(same, 0 if then == _NEVER else states.index(then) + 1)
        if len(states) > _MOST_STATES:
            raise UnknownPattern(pattern)
        rows.append(bytes(nexts[byte] for byte in range(256)))
        at += 1
    ends = bytes([0, *map(_may_end, states)])
    return ends.ljust(256, b"\0") + b"".join(rows)


def _may_end(pattern: _Pattern) -> bool:
    match pattern:
        case _Star():
            return True
        case _Sequence(first, rest):
            return _may_end(first) and _may_end(rest)
        case _Choice(patterns):
            return any(map(_may_end, patterns))
    return False


def _after(pattern: _Pattern, byte: int) -> _Pattern:
    """What has to follow a byte (Brzozowski's derivative)."""
    match pattern:
        case _Class(some):
            return _NOTHING if byte in some else _NEVER
        case _Star(repeated):
            return _joined(_after(repeated, byte), pattern)
        case _Choice(patterns):
            return _one_of(*(_after(each, byte) for each in patterns))
        case _Sequence(first, rest):
            then = _joined(_after(first, byte), rest)
            return _one_of(then, _after(rest, byte)) if _may_end(first) else then


def _joined(first: _Pattern, rest: _Pattern) -> _Pattern:
    if _NEVER in (first, rest):
        return _NEVER
    if first == _NOTHING:
        return rest
    if rest == _NOTHING:
        return first
    return _Sequence(first.first, _joined(first.rest, rest)) if isinstance(first, _Sequence) else _Sequence(first, rest)


def _one_of(*patterns: _Pattern) -> _Pattern:
    flat = frozenset(each for one in patterns for each in (one.patterns if isinstance(one, _Choice) else (one,)))
    return next(iter(flat)) if len(flat) == 1 else _Choice(flat)


def _alike(pattern: _Pattern) -> list[frozenset[int]]:
    """All bytes, in sets of those between which a pattern makes no difference."""
    sets = [_BYTES]
    for some in _classes(pattern):
        sets = [part for each in sets for part in (each & some, each - some) if part]
    return sets


def _classes(pattern: _Pattern) -> Iterator[frozenset[int]]:
    match pattern:
        case _Class(some):
            yield some
        case _Star(repeated):
            yield from _classes(repeated)
        case _Choice(patterns):
            for each in patterns:
                yield from _classes(each)
        case _Sequence(first, rest):
            yield from _classes(first)
            yield from _classes(rest)


@define
class _Parser:
    """Reads a pattern from its parts."""

    parts: list[str]
    _at: int = field(default=0, init=False)

    def parse(self) -> _Pattern:
        found = self._choice()
        if self._at < len(self.parts):
            raise UnknownPattern("".join(self.parts))
        return found

    def _choice(self) -> _Pattern:
        found = [self._sequence()]
        while self._take("|"):
            found.append(self._sequence())
        return _one_of(*found)

    def _sequence(self) -> _Pattern:
        found = []
        while self._at < len(self.parts) and self.parts[self._at] not in "|)":
            found.append(self._repeated(self._one()))
        return reduce(lambda rest, first: _joined(first, rest), reversed(found), _NOTHING)

    def _repeated(self, one: _Pattern) -> _Pattern:
        part = self.parts[self._at] if self._at < len(self.parts) else ""
        if part in _REPEATED:
            least, most = _REPEATED[part]
        elif part.startswith("{") and len(part) > 1:
            numbers = [int(each) for each in part[1:-1].split(",")]
            least, most = numbers[0], numbers[-1]
        else:
            return one
        self._at += 1
        more = _Star(one) if most is None else _up_to(one, most - least)
        return reduce(lambda rest, _: _joined(one, rest), range(least), more)

    def _one(self) -> _Pattern:
        part = self._next()
        if part in ("(", "(?:"):
            found = self._choice()
            if not self._take(")"):
                raise UnknownPattern("".join(self.parts))
            return found
        if part == "[":
            return self._class()
        if part in "*+?{^$.":
            raise UnknownPattern("".join(self.parts))
        return _Class(frozenset({self._byte(part)}))

    def _class(self) -> _Pattern:
        excluded, some = self._take("^"), set[int]()
        while not self._take("]"):
            first = self._byte(self._next())
            last = self._byte(self._next()) if self._take("-") else first
            some.update(range(first, last + 1))
        return _Class(_BYTES - some if excluded else frozenset(some))

    def _byte(self, part: str) -> int:
        if part.startswith("\\x"):
            return int(part.replace("\\", "0"), 0)
        char = part[-1]
        if not char.isascii() or (len(part) > 1 and char.isalnum()):
            raise UnknownPattern("".join(self.parts))
        return ord(char)

    def _take(self, part: str) -> bool:
        found = self._at < len(self.parts) and self.parts[self._at] == part
        self._at += found
        return found

    def _next(self) -> str:
        if self._at == len(self.parts):
            raise UnknownPattern("".join(self.parts))
        self._at += 1
        return self.parts[self._at - 1]


def _up_to(one: _Pattern, most: int) -> _Pattern:
    """A pattern, repeated from 0 to `most` times."""
    return reduce(lambda rest, _: _one_of(_NOTHING, _joined(one, rest)), range(most), _NOTHING)
