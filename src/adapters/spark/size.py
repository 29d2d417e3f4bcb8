"""The size of a frame's input, known before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import StorageLevel

from .jvm import each_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ONE_TASK = 16 * 1024 * 1024
"""One task reads this many bytes in less time than it takes to distribute them."""
_SHRINKS = 3
"""The approximate compression ratio of rows in files, compared with memory."""


def fits_one_task(*frames: DataFrame) -> bool:
    """Whether the frames together read so little that a shuffle would cost more than its parallel tasks save.

    The size is taken from the plan's leaves: Spark's own estimate multiplies the two sides of each join.
    """
    left = _ONE_TASK
    for frame in frames:
        for leaf in each_of(frame._jdf.queryExecution().withCachedData().collectLeaves()):
            left -= int(leaf.stats().sizeInBytes())
            if left < 0:
                return False
    return True


@contextmanager
def persist(rows: DataFrame) -> Iterator[None]:
    """Cache rows inside, so that they are computed once."""
    rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield
    finally:
        rows.unpersist()


@contextmanager
def measure(rows: DataFrame) -> Iterator[int]:
    """As `persist`; gives the approximate size of the rows in files, in bytes."""
    with persist(rows):
        rows.count()
        yield int(rows._jdf.queryExecution().withCachedData().stats().sizeInBytes()) // _SHRINKS
