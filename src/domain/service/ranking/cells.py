"""Ranks inside a cell (the rows of one group in one segment), and the counts of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from ...ports import FrameOrder, Order, RankMethod
from .settings import RankingSettings
from .tables import COUNT, DISTINCT, IN_CELL, NEWEST

DENSE = "_dense"
"""bigint: the ascending dense rank of a row inside its cell, for any method."""
LOWEST = "_lowest"
"""The lowest order value of a cell, which is not stored."""


def rank_cells(
    rows: nw.LazyFrame[Any], settings: RankingSettings, cell: Sequence[str], engine: FrameOrder
) -> nw.LazyFrame[Any]:
    """Add `_dense` and `_rank`: the ascending ranks among these rows of each cell.

    Rows without an order value have a separate cell, in which all rows are equal.
    """
    order = Order(settings.order_by)
    if settings.method == "row_number":
        numbered = engine.ranks(rows, [order, *_ties(settings)], within=cell, into={IN_CELL: "min"})
        return engine.ranks(numbered, [order], within=cell, into={DENSE: "dense"})
    return engine.ranks(rows, [order], within=cell, into={DENSE: "dense", IN_CELL: _method(settings)})


def _method(settings: RankingSettings) -> RankMethod:
    if settings.method == "dense_rank":
        return "dense"
    # Views of descending ranks count from the end of the group, so equal rows get the highest of their places here.
    return "max" if settings.descending else "min"


def _ties(settings: RankingSettings) -> list[Order]:
    """The tie-breaks, then the id; reversed for descending ranks, with nulls first, since views count from the end."""
    in_ties = {tie.removeprefix("-") for tie in settings.tie_break}
    ties = (*settings.tie_break, *(name for name in settings.id if name not in in_ties))
    backwards = settings.descending
    return [Order(tie.removeprefix("-"), tie.startswith("-") != backwards, not backwards) for tie in ties]


def count_cells(ranked: nw.LazyFrame[Any], settings: RankingSettings, cell: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return the cells of ranked rows: `_count`, `_distinct`, `_newest` and `_lowest`."""
    order = nw.col(settings.order_by)
    return ranked.group_by(*cell).agg(
        nw.len().cast(nw.Int64).alias(COUNT),
        nw.col(DENSE).max().alias(DISTINCT),
        order.max().alias(NEWEST),
        order.min().alias(LOWEST),
    )
