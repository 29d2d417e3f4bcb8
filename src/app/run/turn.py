"""Lets the threads of a program take turns at what only one of them may do at a time."""

from __future__ import annotations

from threading import Lock, get_ident
from typing import Self

from attrs import define, field


@define(eq=False)
class Turn:
    """A lock that a thread may take again, and that goes to the thread that has waited for it.

    A run takes it for one epoch after another; with a usual lock it would mostly be the next one, too.
    """

    _next: Lock = field(init=False, factory=Lock)
    _lock: Lock = field(init=False, factory=Lock)
    _owner: int | None = field(init=False, default=None)
    _depth: int = field(init=False, default=0)

    def __enter__(self) -> Self:
        if self._owner != get_ident():
            with self._next:
                self._lock.acquire()
            self._owner = get_ident()
        self._depth += 1
        return self

    def __exit__(self, *_error: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            self._lock.release()
