"""Notices a file that comes late among many that have been read, although files that have been read may be removed.

Offsets cannot hold the names of all files. They hold one digest of all names that were read. Of the files that were
present when the epoch was planned they hold 16 ranges: the first name of each, the number of names, and their digest.
Later each range must have the same names, or fewer. If it has fewer, only a process that has seen the names before
knows that no other is among them. So a late file is not noticed if, between two processes, more files of its range were
removed than came. If all files that were removed are put back, the digest of all names shows it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from hashlib import sha256
from itertools import pairwise
from typing import Any

from attrs import define, field, frozen

_RANGES = 16
_BETWEEN = "/"
"""Joins names; no name contains it."""


@define(eq=False)
class LastListing:
    """The names that this process has found in the folder at its last check."""

    _found: tuple[str, list[str]] = field(init=False, default=("", []))

    def remember(self, last: str, names: list[str]) -> None:
        """Remember these names, of which those up to `last` have been read."""
        self._found = last, names

    def find_new(self, names: list[str]) -> list[str]:
        """Those of these names that have come since, although they sort among those that had been read by then."""
        until, found = self._found
        known = frozenset(found)
        return [name for name in names if name <= until and name not in known]

    def find_late(self, names: list[str], most: int) -> list[str]:
        """As `NamesRead.find_late`, by offsets that hold only the number of names, as earlier versions wrote them."""
        return self.find_new(names) or (names if len(names) > most else [])


@frozen
class NamesRead:
    """The names of files that have been read, as offsets store them.

    Args:
        digest: of all names, in order.
        present: ranges of the names that were there when the newest of them was planned: first name, number, digest.
    """

    digest: str = ""
    present: list[list[Any]] = field(factory=list)

    def and_then(self, names: Iterable[str], present: list[str]) -> NamesRead:
        """The same after further names.

        Args:
            names: the names that follow, in order, whether they are still there or not.
            present: those of all names that are there, in order.
        """
        return NamesRead(_extend(self.digest, names), _to_ranges(present))

    def find_late(self, names: list[str], listing: LastListing) -> list[str]:
        """The names among which one came after a later one had been read; empty if none is known to have come.

        Args:
            names: the names that are there now, in order, as far as they sort among those that were read.
            listing: the names that were there at the last check.
        """
        late = self._find_late(names, listing)
        return late if late and _extend("", names) != self.digest else []

    def _find_late(self, names: list[str], listing: LastListing) -> list[str]:
        starts = [*(bisect_left(names, first) for first, _, _ in self.present), len(names)]
        if before := names[: starts[0]]:
            return before
        for (first, count, digest), (start, end) in zip(self.present, pairwise(starts), strict=True):
            there = names[start:end]
            if len(there) < count and (late := listing.find_new(there)):
                return late
            if len(there) >= count and _digest(_BETWEEN.join(there)) != digest:
                return [name for name in there if name != first]
        return []


def _to_ranges(names: list[str]) -> list[list[Any]]:
    """Ranges of names; the last name is one of its own, so that each name after it is found to be late."""
    size = max(-(-len(names) // _RANGES), 1)
    but_last = names[:-1]
    parts = [but_last[at : at + size] for at in range(0, len(but_last), size)] + [names[-1:]]
    return [[part[0], len(part), _digest(_BETWEEN.join(part))] for part in parts if part]


def _extend(digest: str, names: Iterable[str]) -> str:
    for name in names:
        digest = _digest(digest + name)
    return digest


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
