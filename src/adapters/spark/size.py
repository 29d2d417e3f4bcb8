"""How much data a frame starts from, told before anything runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import StorageLevel

from .jvm import each_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

_ONE_TASK = 16 * 1024 * 1024
"""Bytes that one task reads in less time than it takes to share them out."""
_SHRINKS = 3
"""How much smaller rows are in a compressed file than in memory, about."""


def fits_one_task(*frames: DataFrame) -> bool:
    """Whether frames start from so little, all together, that a shuffle would cost more than its tasks save.

    Asked of the plan's leaves: Spark's own estimate multiplies the two sides of each join.
    """
    left = _ONE_TASK
    for frame in frames:
        for leaf in each_of(frame._jdf.queryExecution().withCachedData().collectLeaves()):
            left -= int(leaf.stats().sizeInBytes())
            if left < 0:
                return False
    return True


@contextmanager
def kept(rows: DataFrame) -> Iterator[None]:
    """Compute rows once, however often they are used inside."""
    rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield
    finally:
        rows.unpersist()


@contextmanager
def measured(rows: DataFrame) -> Iterator[int]:
    """As `kept`; about how many bytes of files the rows will make."""
    with kept(rows):
        rows.count()
        yield int(rows._jdf.queryExecution().withCachedData().stats().sizeInBytes()) // _SHRINKS
