"""The tables that cumulate windows are kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from .. import dead_letter
from ..groups import group_key
from ..measures import ROWS
from ..merge import Max, Sum
from ..schema import Column, Schema, column
from ..table import TableSpec
from .lateness import ROUND
from .panes import PANE, WINDOW
from .settings import GROUPING, REVISION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..measures import Measure
    from .settings import CumulateSettings

VALUE, TIMES = "_value", "_times"
"""Of a counted value: the value, and how often it came, less how often it was taken back (bigint)."""
REGISTER, RUN = "_register", "_run"
"""Of a sketch: a register (string), and its longest run (bigint)."""
SO_FAR = -(2**62)
"""The pane under which all panes that have had their tick are added up."""


@frozen
class CumulateTables:
    """The tables of one pipeline.

    Args:
        letters: see `dead_letter.spec`.
        panes: ``panes``: what each pane of a group adds, and under `SO_FAR` what all panes before the watermark do.
        kept: by measure that sums do not tell, ``values_…``: how often each value came in a pane, or, for an estimate,
            ``registers_…``: see `Sketch`. Under `SO_FAR` as above.
        points: ``points``: what a group came to at the end of a pane, as known when the watermark passed that, and as
            known in each round in which late rows changed it. A round is named by the end of the pane in which the
            watermark stood; one that is over never changes. Rows of one revision answer the same.
        group: the columns that name a group within a window.
        revision: the column that numbers the revisions of a tick.
        added: the columns of `panes` and `points` that add up.
        extremes: those that do not: the least or greatest value, by column.
    """

    letters: TableSpec
    panes: TableSpec
    kept: Mapping[str, TableSpec]
    points: TableSpec
    group: tuple[str, ...]
    revision: str
    added: Schema
    extremes: Mapping[str, Measure]

    @classmethod
    def of(cls, settings: CumulateSettings) -> CumulateTables:
        """The tables for these settings."""
        name, measures, revision = settings.pipeline, settings.measures, settings.named(REVISION)
        dimensions = Schema((column(settings.named(GROUPING), "string"), *group_key(settings.dimension_schema).columns))
        group = dimensions.plus(column(WINDOW, "bigint"))
        summed = (each for measure in measures for each in measure.sums)
        distinct = (column(distinct_of(each), "bigint") for each in measures if _is_distinct(each))
        estimates = (column(each, "bigint") for measure in measures if measure.estimated for each in sums_of(measure))
        added = Schema((column(ROWS, "bigint"), *summed, *distinct, *estimates))
        extremes = {extreme_of(each): each for each in measures if each.counted and not _is_distinct(each)}
        told = (*added.columns, *(Column(each, measure.value_type) for each, measure in extremes.items()))
        pane = column(PANE, "bigint")
        return cls(
            letters=dead_letter.spec(name),
            panes=TableSpec(
                f"{name}.panes",
                group.plus(pane, *told),
                key=(*group.names, PANE),
                rules={each: Sum() for each in added.names},
                partition_by=(WINDOW,),
            ),
            kept={each.name: _kept(name, each, group) for each in measures if each.counted or each.estimated},
            points=TableSpec(
                f"{name}.points",
                group.plus(pane, column(ROUND, "bigint"), column(revision, "bigint"), *told),
                key=(*group.names, PANE, ROUND),
                partition_by=(WINDOW,),
            ),
            group=group.names,
            revision=revision,
            added=added,
            extremes=extremes,
        )

    @property
    def in_order(self) -> tuple[TableSpec, ...]:
        """All tables in the order of their commits; the panes come last, as every epoch has some."""
        return (self.letters, *self.kept.values(), self.points, self.panes)

    @property
    def told(self) -> tuple[str, ...]:
        """The columns of `panes` and `points` that measures are answered from."""
        return (*self.added.names, *self.extremes)


def _kept(pipeline: str, measure: Measure, group: Schema) -> TableSpec:
    pane, sketched = column(PANE, "bigint"), measure.estimated
    named = column(REGISTER, "string") if sketched else Column(VALUE, measure.value_type)
    label, amount = ("registers", RUN) if sketched else ("values", TIMES)
    return TableSpec(
        f"{pipeline}.{label}_{measure.name}",
        group.plus(named, pane, column(amount, "bigint")),
        key=(*group.names, named.name, PANE),
        rules={amount: Max() if sketched else Sum()},
        partition_by=(WINDOW,),
    )


def sums_of(measure: Measure) -> tuple[str, str]:
    """The columns of the sums that an estimate is made of: of 2^-run over its registers, and of those in use."""
    return f"_inverse_{measure.name}", f"_used_{measure.name}"


def distinct_of(measure: Measure) -> str:
    """The column that counts a measure's distinct values."""
    return f"_distinct_{measure.name}"


def extreme_of(measure: Measure) -> str:
    """The column of a measure's least or greatest value."""
    return f"_extreme_{measure.name}"


def _is_distinct(measure: Measure) -> bool:
    return measure.aggregate.function == "count_distinct"
