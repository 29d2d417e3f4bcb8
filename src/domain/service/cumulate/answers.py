"""The values of measures, computed from the stored columns of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

from .sketches import estimate
from .tables import distinct_of, extreme_of

if TYPE_CHECKING:
    from ..measures import Measure


def answer(measure: Measure) -> nw.Expr:
    """The value of a measure, under its name, computed from `CumulateTables.measure_columns`."""
    if measure.estimated:
        return estimate(measure)
    if not measure.counted:
        return measure.summed()
    column_of = distinct_of if measure.aggregate.function == "count_distinct" else extreme_of
    return nw.col(column_of(measure)).alias(measure.name)
