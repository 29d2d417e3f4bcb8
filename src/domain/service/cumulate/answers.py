"""The values of measures, computed from the stored columns of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

from ..measures import CountDistinct, Estimate, SumMeasure
from .sketches import estimate
from .tables import distinct_of, extreme_of

if TYPE_CHECKING:
    from ..measures import Measure


def answer(measure: Measure) -> nw.Expr:
    """The value of a measure, under its name, computed from `CumulateTables.measure_columns`."""
    if isinstance(measure, Estimate):
        return estimate(measure)
    if isinstance(measure, SumMeasure):
        return measure.summed()
    column_of = distinct_of if isinstance(measure, CountDistinct) else extreme_of
    return nw.col(column_of(measure)).alias(measure.name)
