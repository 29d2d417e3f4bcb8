"""The tables of a ranking pipeline, and the columns that ranking adds."""

from __future__ import annotations

from attrs import evolve, frozen

from ...source import dead_letter
from ...table.schema import column
from ...table.spec import TableSpec
from ..segments import SEGMENT
from .settings import RankingSettings

IN_CELL = "_rank"
"""bigint: the ascending rank of a row inside its cell."""
COUNT, DISTINCT, NEWEST = "_count", "_distinct", "_newest"
"""Columns of a cell: its rows (bigint), its distinct order values (bigint), its highest order value."""


@frozen
class RankingTables:
    """The tables of one ranking.

    Args:
        dead_letters: see `dead_letter.spec`.
        ranked: the rows, with ``_segment`` and ``_rank`` (both bigint).
        cells: by group and ``_segment``: ``_count``, ``_distinct`` and ``_newest``.
    """

    dead_letters: TableSpec
    ranked: TableSpec
    cells: TableSpec

    @classmethod
    def of(cls, settings: RankingSettings) -> RankingTables:
        segment, schema = column(SEGMENT, "bigint"), settings.schema
        newest = evolve(schema.select([settings.order_by]).columns[0], name=NEWEST)
        counts = (column(COUNT, "bigint"), column(DISTINCT, "bigint"), newest)
        return cls(
            dead_letters=dead_letter.spec(settings.pipeline),
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
