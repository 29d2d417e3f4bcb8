"""Ranks inside a cell (the rows of one group in one segment), and the counts of a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from .settings import RankingSettings
from .tables import COUNT, DISTINCT, IN_CELL, NEWEST

DENSE = "_dense"
"""bigint: the ascending dense rank of a row inside its cell, for any method."""
LOWEST = "_lowest"
"""The lowest order value of a cell, which is not stored."""


def rank_cells(rows: nw.LazyFrame[Any], settings: RankingSettings, cell: Sequence[str]) -> nw.LazyFrame[Any]:
    """Add `_dense` and `_rank`: the ascending ranks among these rows of each cell.

    Rows without an order value have a separate cell, in which all rows are equal.
    """
    order = nw.col(settings.order_by)
    dense = _to_bigint(order.rank("dense").over(*cell), 1)
    match settings.method:
        case "dense_rank":
            rank = dense
        case "rank" if settings.descending:
            # Views count from the end of the group, so equal rows get the highest of their ascending ranks here.
            rank = _to_bigint(order.rank("max").over(*cell), nw.len().over(*cell))
        case "rank":
            rank = _to_bigint(order.rank("min").over(*cell), 1)
        case _:
            return _number_rows(rows.with_columns(dense.alias(DENSE)), settings, cell)
    return rows.with_columns(dense.alias(DENSE), rank.alias(IN_CELL))


def _to_bigint(rank: nw.Expr, if_null: nw.Expr | int) -> nw.Expr:
    return nw.when(rank.is_null()).then(if_null).otherwise(rank).cast(nw.Int64)


def _number_rows(rows: nw.LazyFrame[Any], settings: RankingSettings, cell: Sequence[str]) -> nw.LazyFrame[Any]:
    """Add row numbers: 1, plus the rows ahead by the order value, plus those ahead among equal rows by each tie-break.

    For descending ranks, tie-breaks are reversed, because views count from the end of the group.
    """
    in_ties = {tie.removeprefix("-") for tie in settings.tie_break}
    ties = (*settings.tie_break, *(name for name in settings.id if name not in in_ties))
    equal, number = [*cell, settings.order_by], nw.col("_ahead")
    rows = rows.with_columns(_to_bigint(nw.col(settings.order_by).rank("min").over(*cell) - 1, 0).alias("_ahead"))
    for at, tie in enumerate(ties):
        name, level = tie.removeprefix("-"), f"_ahead_{at}"
        ahead = nw.col(name).rank("min", descending=tie.startswith("-") != settings.descending).over(*equal) - 1
        non_null = nw.col(name).count().over(*equal)
        # Nulls are last in views, so they are first here if views count from the end.
        nulls = (nw.len().over(*equal) - non_null, 0) if settings.descending else (0, non_null)
        rows, number = rows.with_columns(_to_bigint(ahead + nulls[0], nulls[1]).alias(level)), number + nw.col(level)
        equal.append(name)
    return rows.with_columns((number + 1).alias(IN_CELL))


def count_cells(ranked: nw.LazyFrame[Any], settings: RankingSettings, cell: Sequence[str]) -> nw.LazyFrame[Any]:
    """Return the cells of ranked rows: `_count`, `_distinct`, `_newest` and `_lowest`."""
    order = nw.col(settings.order_by)
    return ranked.group_by(*cell).agg(
        nw.len().cast(nw.Int64).alias(COUNT),
        nw.col(DENSE).max().alias(DISTINCT),
        order.max().alias(NEWEST),
        order.min().alias(LOWEST),
    )
