"""What changed between two contents of a keyed table, whatever happened in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from ..change import Change
from ..epoch import ROW_KIND
from .row_kind import DELETE, INSERT, UPDATE_AFTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..service import ViewSpec

_SIDE = "_side"


def net_changes(before: nw.LazyFrame[Any], after: nw.LazyFrame[Any], key: Sequence[str]) -> nw.LazyFrame[Any]:
    """The row kinds that lead from one content to another, as Flink and Paimon write them.

    Args:
        before: the old rows, at most one a key.
        after: the new rows, at most one a key, in the same columns.
        key: columns that name a row; never null.

    Returns:
        The columns of `after` and string ``_row_kind``: ``+I`` for a key that came, ``-D`` for one that went, ``-U``
        with the old and ``+U`` with the new row where they differ (null equals null); nothing for rows that stayed.
    """
    names = after.collect_schema().names()
    sides = nw.concat([_side(before, names, -1), _side(after, names, 1)])
    # Grouping takes nulls as equal, so rows that stayed cancel here without a null-safe comparison of each column.
    moved = sides.group_by(*names).agg(nw.col(_SIDE).sum()).filter(nw.col(_SIDE) != 0)
    pairs = moved.with_columns(nw.col(_SIDE).count().over(*key).alias(ROW_KIND))
    return pairs.select(*names, _kind().alias(ROW_KIND))


def to_change(net: nw.LazyFrame[Any], view: ViewSpec) -> Change:
    """What net changes of a view do to a table that holds its rows; persist them first, they are read three times."""
    kind, names = nw.col(ROW_KIND), view.schema.names
    return Change(
        append=net.filter(kind == INSERT).select(*names),
        merge=net.filter(kind == UPDATE_AFTER).select(*names),
        delete=net.filter(kind == DELETE).select(*view.key),
    )


def _side(rows: nw.LazyFrame[Any], names: Sequence[str], side: int) -> nw.LazyFrame[Any]:
    return rows.select(*names, nw.lit(side).alias(_SIDE))


def _kind() -> nw.Expr:
    comes, paired = nw.col(_SIDE) > 0, nw.col(ROW_KIND) > 1
    updated = nw.when(comes).then(nw.lit("+U")).otherwise(nw.lit("-U"))
    return nw.when(paired).then(updated).otherwise(nw.when(comes).then(nw.lit("+I")).otherwise(nw.lit("-D")))
