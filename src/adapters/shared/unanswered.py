"""Addresses that did not answer, so that they are not asked, and waited for, once more."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_errors: ContextVar[dict[Hashable, Exception] | None] = ContextVar("unanswered", default=None)


@contextmanager
def remember_unanswered() -> Iterator[None]:
    """Within this block, of this thread, an address that did not answer once is not asked again in the same way.

    It is for reports over many pipelines, each of which would wait for the same address.
    """
    before = _errors.set({})
    try:
        yield
    finally:
        _errors.reset(before)


def check_unanswered(address: Hashable) -> None:
    """Raise the error of an address that did not answer before; nothing if it was not asked, or is not remembered.

    Args:
        address: with all that decides whether it answers, such as the options of the client.
    """
    if error := (_errors.get() or {}).get(address):
        raise error


def add_unanswered(address: Hashable, error: Exception) -> None:
    """Remember an address that did not answer, if anything is remembered; see `check_unanswered`."""
    if (errors := _errors.get()) is not None:
        errors[address] = error
