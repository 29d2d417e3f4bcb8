"""The tables that ranking keeps, and the columns in them that are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, frozen

from .. import dead_letter
from ..schema import column
from ..segments import SEGMENT
from ..table import TableSpec

if TYPE_CHECKING:
    from .settings import RankingSettings

IN_CELL = "_rank"
"""bigint: a row's ascending rank inside its cell."""
COUNT, DISTINCT, NEWEST = "_count", "_distinct", "_newest"
"""Of a cell: rows (bigint), order values (bigint), highest order value."""


@frozen
class RankingTables:
    """The tables of one ranking.

    Args:
        letters: see `dead_letter.spec`.
        ranked: the rows, with bigint ``_segment`` and ``_rank``.
        cells: per group and ``_segment``: ``_count``, ``_distinct``, ``_newest``.
    """

    letters: TableSpec
    ranked: TableSpec
    cells: TableSpec

    @classmethod
    def of(cls, settings: RankingSettings) -> RankingTables:
        """The tables for these settings."""
        segment, schema = column(SEGMENT, "bigint"), settings.schema
        newest = evolve(schema.select([settings.order_by]).columns[0], name=NEWEST)
        counts = (column(COUNT, "bigint"), column(DISTINCT, "bigint"), newest)
        return cls(
            letters=dead_letter.spec(settings.pipeline),
            ranked=TableSpec(
                f"{settings.pipeline}.ranked",
                schema.plus(segment, column(IN_CELL, "bigint")),
                key=(SEGMENT, *settings.id),
                partition_by=(SEGMENT,),
            ),
            cells=TableSpec(
                f"{settings.pipeline}.cells",
                schema.select(settings.group).plus(segment, *counts),
                key=(*settings.group, SEGMENT),
                partition_by=(SEGMENT,),
            ),
        )
