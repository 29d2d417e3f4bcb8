"""Ranks inside a cell, the rows of one group in one segment, and what a cell counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from .tables import COUNT, DISTINCT, IN_CELL, NEWEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .settings import RankingSettings

DENSE = "_dense"
"""bigint: a row's ascending dense rank inside its cell, whatever the method."""
BEFORE = "_before"
"""bigint: rows that a cell held before."""


def rank_cells(rows: nw.LazyFrame[Any], settings: RankingSettings, cell: Sequence[str]) -> nw.LazyFrame[Any]:
    """Add `_dense` and `_rank`: the ascending ranks among the rows given of each cell.

    Rows without an order value share a cell of their own, so there they are all equal.
    """
    order = nw.col(settings.order_by)
    dense = _whole(order.rank("dense").over(*cell), 1)
    match settings.method:
        case "dense_rank":
            rank = dense
        case "rank" if settings.descending:
            # Counted from the group's end, the first of equal rows is the last one here.
            rank = _whole(order.rank("max").over(*cell), nw.len().over(*cell))
        case "rank":
            rank = _whole(order.rank("min").over(*cell), 1)
        case _:
            return _number_rows(rows.with_columns(dense.alias(DENSE)), settings, cell)
    return rows.with_columns(dense.alias(DENSE), rank.alias(IN_CELL))


def _whole(rank: nw.Expr, of_null: nw.Expr | int) -> nw.Expr:
    return nw.when(rank.is_null()).then(of_null).otherwise(rank).cast(nw.Int64)


def _number_rows(rows: nw.LazyFrame[Any], settings: RankingSettings, cell: Sequence[str]) -> nw.LazyFrame[Any]:
    """Row numbers: one more than the rows ahead by the order value, then among equal rows by each tie-break in turn.

    Ties go the other way round where the answer counts from the group's end.
    """
    named = {tie.removeprefix("-") for tie in settings.tie_break}
    ties = (*settings.tie_break, *(name for name in settings.id if name not in named))
    equal, number = [*cell, settings.order_by], nw.col("_ahead")
    rows = rows.with_columns(_whole(nw.col(settings.order_by).rank("min").over(*cell) - 1, 0).alias("_ahead"))
    for at, tie in enumerate(ties):
        name, level = tie.removeprefix("-"), f"_ahead_{at}"
        ahead = nw.col(name).rank("min", descending=tie.startswith("-") != settings.descending).over(*equal) - 1
        given = nw.col(name).count().over(*equal)
        # Nulls rank last in the answer, so first here where it counts from the end.
        nulls = (nw.len().over(*equal) - given, 0) if settings.descending else (0, given)
        rows, number = rows.with_columns(_whole(ahead + nulls[0], nulls[1]).alias(level)), number + nw.col(level)
        equal.append(name)
    return rows.with_columns((number + 1).alias(IN_CELL))


def count_cells(
    ranked: nw.LazyFrame[Any], settings: RankingSettings, cell: Sequence[str], before: nw.Expr | None = None
) -> nw.LazyFrame[Any]:
    """The cells of ranked rows: `_count`, `_distinct`, `_newest` and `_before`, the rows they had already."""
    held = nw.lit(0) if before is None else before
    counted = (
        ranked.with_columns(held.cast(nw.Int64).alias(BEFORE))
        .group_by(*cell)
        .agg(
            nw.len().cast(nw.Int64).alias("_rows"),
            nw.col(BEFORE).max(),
            nw.col(DENSE).max().alias(DISTINCT),
            nw.col(settings.order_by).max().alias(NEWEST),
        )
    )
    return counted.with_columns((nw.col("_rows") + nw.col(BEFORE)).alias(COUNT))
