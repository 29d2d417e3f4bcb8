"""A limit to what a piece of work may hold in this process, counted as it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import ceil, floor

from attrs import define, field

from ..domain.errors import EngineLimit

_MEBIBYTE = 1024 * 1024


@define(eq=False)
class _Work:
    """What a piece of work holds so far: bytes of rows, and bytes of each named thing."""

    limit: int
    rows: int = 0
    named: dict[str, int] = field(factory=dict)

    def check(self, more: int = 0) -> None:
        held = self.rows + sum(self.named.values()) + more
        if held > self.limit:
            raise EngineLimit(
                f"it needs about {ceil(held / _MEBIBYTE):,} MiB of memory, and local_mb allows"
                f" {floor(self.limit / _MEBIBYTE):,} MiB"
            )


_work: ContextVar[_Work | None] = ContextVar("work", default=None)


@contextmanager
def limited_to(size: int) -> Iterator[None]:
    """Limit what the work in this block holds, in bytes; it starts with nothing.

    Raises:
        EngineLimit: the work would hold more. It is raised before most of that is read.
    """
    outer = _work.set(_Work(size))
    try:
        yield
    finally:
        _work.reset(outer)


def check_room(size: int) -> None:
    """Check that this many bytes may still be read; they are not counted yet."""
    if (work := _work.get()) is not None:
        work.check(size)


def hold_rows(size: int) -> None:
    """Count bytes of rows that have been read or computed."""
    if (work := _work.get()) is not None:
        work.rows += size
        work.check()


def held_rows() -> int:
    """Bytes of rows counted so far; 0 if nothing is counted."""
    work = _work.get()
    return work.rows if work else 0


def hold_files(files: Iterable[tuple[str, int]]) -> None:
    """Count files that are about to be read: the path of each, and its bytes in memory. A file is counted once."""
    if (work := _work.get()) is not None:
        work.named.update(files)
        work.check()
