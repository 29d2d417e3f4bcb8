"""The tables of cumulate windows."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ...source import dead_letter
from ...table.groups import group_key
from ...table.merge import Max, Sum
from ...table.schema import Column, Schema, column
from ...table.spec import TableSpec
from ..measures import ROWS, CountDistinct, Estimate, Extreme, Measure, ValueMeasure
from .lateness import ROUND
from .panes import PANE, WINDOW
from .settings import GROUPING, REVISION, CumulateSettings

VALUE, TIMES = "_value", "_times"
"""The value, and how often it was added minus how often it was retracted (bigint)."""
REGISTER, RUN = "_register", "_run"
"""A register of a sketch (string), and its longest run (bigint)."""
SO_FAR = -(2**62)
"""The pane number that stores the sum of all closed panes."""


@frozen
class CumulateTables:
    """The tables of one pipeline.

    Args:
        dead_letters: ``dead_letters``; see `dead_letter.spec`.
        panes: ``panes``: the sums of each group and pane; the row of pane `SO_FAR` has the sums of all closed panes.
        state_tables: by measure that needs more than sums (see `PaneState`): ``values_…``, how often each value occurs
            in a pane; or, for an estimate, ``registers_…``, see `Sketch`. Pane `SO_FAR` as above.
        points: ``points``: the ticks. A tick has one row as known when the watermark passed its pane, and one for each
            round in which late rows changed it. A round is identified by the end of the pane that the watermark was in;
            a round that is over never changes. Rows with the same revision have the same values of measures.
        group: the columns that identify a group within a window.
        revision: the column that numbers the revisions of a tick.
        sum_schema: the columns of `panes` and `points` that are sums.
        extremes: the measures that are not sums (minimum or maximum), by the column of their value.
    """

    dead_letters: TableSpec
    panes: TableSpec
    state_tables: Mapping[str, TableSpec]
    points: TableSpec
    group: tuple[str, ...]
    revision: str
    sum_schema: Schema
    extremes: Mapping[str, Extreme]

    @classmethod
    def of(cls, settings: CumulateSettings) -> CumulateTables:
        name, measures, revision = settings.pipeline, settings.measures, settings.column_name(REVISION)
        dimensions = Schema(
            (column(settings.column_name(GROUPING), "string"), *group_key(settings.dimension_schema).columns)
        )
        group = dimensions.plus(column(WINDOW, "bigint"))
        sums = (each for measure in measures for each in measure.sums)
        distinct = (column(distinct_of(each), "bigint") for each in measures if isinstance(each, CountDistinct))
        estimates = (
            column(name, "bigint") for each in measures if isinstance(each, Estimate) for name in sums_of(each)
        )
        sum_schema = Schema((column(ROWS, "bigint"), *sums, *distinct, *estimates))
        extremes = {extreme_of(each): each for each in measures if isinstance(each, Extreme)}
        stored = (*sum_schema.columns, *(Column(each, measure.value_type) for each, measure in extremes.items()))
        pane = column(PANE, "bigint")
        return cls(
            dead_letters=dead_letter.spec(name),
            panes=TableSpec(
                f"{name}.panes",
                group.plus(pane, *stored),
                key=(*group.names, PANE),
                rules={each: Sum() for each in sum_schema.names},
                partition_by=(WINDOW,),
            ),
            state_tables={
                each.name: _state_table(name, each, group)
                for each in measures
                if isinstance(each, ValueMeasure | Estimate)
            },
            points=TableSpec(
                f"{name}.points",
                group.plus(pane, column(ROUND, "bigint"), column(revision, "bigint"), *stored),
                key=(*group.names, PANE, ROUND),
                partition_by=(WINDOW,),
            ),
            group=group.names,
            revision=revision,
            sum_schema=sum_schema,
            extremes=extremes,
        )

    @property
    def commit_order(self) -> tuple[TableSpec, ...]:
        """All tables in the order of their commits; `panes` is last, as every epoch changes it."""
        return (self.dead_letters, *self.state_tables.values(), self.points, self.panes)

    @property
    def measure_columns(self) -> tuple[str, ...]:
        """The columns of `panes` and `points` from which measures are computed."""
        return (*self.sum_schema.names, *self.extremes)


def _state_table(pipeline: str, measure: Measure, group: Schema) -> TableSpec:
    pane, is_sketch = column(PANE, "bigint"), isinstance(measure, Estimate)
    named = column(REGISTER, "string") if is_sketch else Column(VALUE, measure.value_type)
    label, amount = ("registers", RUN) if is_sketch else ("values", TIMES)
    return TableSpec(
        f"{pipeline}.{label}_{measure.name}",
        group.plus(named, pane, column(amount, "bigint")),
        key=(*group.names, named.name, PANE),
        rules={amount: Max() if is_sketch else Sum()},
        partition_by=(WINDOW,),
    )


def sums_of(measure: Measure) -> tuple[str, str]:
    """The columns of the two sums of an estimate: 2^-run over its registers, and the number of registers in use."""
    return f"_inverse_{measure.name}", f"_used_{measure.name}"


def distinct_of(measure: Measure) -> str:
    """The column that counts a measure's distinct values."""
    return f"_distinct_{measure.name}"


def extreme_of(measure: Measure) -> str:
    """The column of a measure's minimum or maximum."""
    return f"_extreme_{measure.name}"
