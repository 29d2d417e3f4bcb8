"""The values of measures, computed from the stored columns of a group."""

from __future__ import annotations

import narwhals as nw

from ..measures import CountDistinct, Estimate, Measure, SumMeasure
from .sketches import estimate
from .tables import distinct_of, extreme_of


def answer(measure: Measure) -> nw.Expr:
    """The value of a measure, under its name, computed from `CumulateTables.measure_columns`."""
    if isinstance(measure, Estimate):
        return estimate(measure)
    if isinstance(measure, SumMeasure):
        return measure.summed()
    column_of = distinct_of if isinstance(measure, CountDistinct) else extreme_of
    return nw.col(column_of(measure)).alias(measure.name)
