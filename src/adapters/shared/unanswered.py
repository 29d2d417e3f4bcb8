"""Addresses that did not answer, so that they are not asked, and waited for, once more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_errors: ContextVar[dict[str, Exception] | None] = ContextVar("unanswered", default=None)


@contextmanager
def remember_unanswered() -> Iterator[None]:
    """Within this block, of this thread, an address that did not answer once is not asked again.

    It is for reports over many pipelines, each of which would wait for the same address.
    """
    before = _errors.set({})
    try:
        yield
    finally:
        _errors.reset(before)


def check_unanswered(address: str) -> None:
    """Raise the error of an address that did not answer before; nothing if it was not asked, or is not remembered."""
    if error := (_errors.get() or {}).get(address):
        raise error


def add_unanswered(address: str, error: Exception) -> None:
    """Remember an address that did not answer, if anything is remembered."""
    if (errors := _errors.get()) is not None:
        errors[address] = error
