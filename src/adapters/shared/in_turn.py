"""Methods of an object that one thread at a time may be in."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Locked(Protocol):
    """An object with a lock that the same thread may take again, because its methods call each other."""

    _lock: RLock


_P = ParamSpec("_P")
_T = TypeVar("_T")
_Self = TypeVar("_Self", bound=Locked)


def in_turn(method: Callable[Concatenate[_Self, _P], _T]) -> Callable[Concatenate[_Self, _P], _T]:
    """Let a method run while no other thread is in such a method of the same object."""

    @wraps(method)
    def working(self: _Self, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        with self._lock:
            return method(self, *args, **kwargs)

    return working
