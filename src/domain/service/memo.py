"""What a service remembers of the versions that it has read."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

from attrs import define, field

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


@define(eq=False)
class Memo(Generic[_K, _T]):
    """The answers to the last questions, by what they depend on. Several threads may ask.

    Args:
        at_most: the number of answers to remember; the oldest one is dropped first.
    """

    at_most: int = 1
    _known: dict[_K, _T] = field(init=False, factory=dict)
    _lock: Lock = field(init=False, factory=Lock)

    def find(self, asked: _K, answer: Callable[[], _T]) -> _T:
        """The remembered answer; else the one that `answer` returns, which is remembered."""
        with self._lock:
            if asked in self._known:
                return self._known[asked]
        found = answer()
        with self._lock:
            self._known[asked] = found
            while len(self._known) > self.at_most:
                del self._known[next(iter(self._known))]
        return found
