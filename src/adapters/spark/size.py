"""How much data a frame starts from, told before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ONE_TASK = 16 * 1024 * 1024
"""Bytes that one task reads in less time than it takes to share them out."""


def fits_one_task(*frames: DataFrame) -> bool:
    """Whether frames start from so little, all together, that a shuffle would cost more than its tasks save.

    Asked of the plan's leaves: Spark's own estimate multiplies the two sides of each join.
    """
    left = _ONE_TASK
    for frame in frames:
        leaves = frame._jdf.queryExecution().withCachedData().collectLeaves().iterator()
        while leaves.hasNext():
            left -= int(leaves.next().stats().sizeInBytes())
            if left < 0:
                return False
    return True
