"""The time of a change, for both images of an update."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from ..epoch.batch import ORIGIN
from ..ports import FrameOrder
from ..table.change import POSITION
from ..table.row_kind import ROW_KIND, UPDATE_AFTER, UPDATE_BEFORE

_NEXT_KIND, _NEXT_TIME = "_next_kind", "_next_time"


def add_change_time(
    rows: nw.LazyFrame[Any], time: str, own: nw.Expr, engine: FrameOrder, *, into: str
) -> nw.LazyFrame[Any]:
    """Add the time of each change: the old image of an update has that of the new image, which directly follows it.

    Args:
        rows: rows of a batch.
        time: the column with the time of a new image.
        own: the time of all other rows, of the same type.
        engine: of the frame.
        into: the column to add.
    """
    following = {_NEXT_KIND: ROW_KIND, _NEXT_TIME: time}
    rows = engine.following(rows, following, within=ORIGIN, order_by=POSITION)
    paired = (nw.col(ROW_KIND) == UPDATE_BEFORE) & (nw.col(_NEXT_KIND) == UPDATE_AFTER)
    changed_at = nw.when(paired.fill_null(value=False)).then(nw.col(_NEXT_TIME)).otherwise(own)
    return rows.with_columns(changed_at.alias(into)).drop(*following)
