"""What measures answer, from what is kept of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

from .sketches import estimate
from .tables import distinct_of, extreme_of

if TYPE_CHECKING:
    from ..measures import Measure


def answer(measure: Measure) -> nw.Expr:
    """The answer of a measure, under its name, from the columns of `CumulateTables.told`."""
    if measure.estimated:
        return estimate(measure)
    if not measure.counted:
        return measure.summed()
    kept = distinct_of if measure.aggregate.function == "count_distinct" else extreme_of
    return nw.col(kept(measure)).alias(measure.name)
