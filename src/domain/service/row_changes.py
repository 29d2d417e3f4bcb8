"""Net changes of views whose rows are each computed from one row of one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw

from ..ledger.ledger import Snapshot
from ..ports import FrameCache
from ..table.net_changes import net_changes
from ..table.row_kind import ROW_KIND, removes


def read_row_changes(
    table: str,
    before: Snapshot,
    after: Snapshot,
    select: Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]],
    key: Sequence[str],
    *,
    engine: FrameCache,
) -> nw.LazyFrame[Any]:
    """The net changes of a view between two snapshots, computed only from the changes of its table; see `net_changes`.

    Args:
        table: the table that the view is computed from.
        before: the earlier snapshot.
        after: the later snapshot.
        select: computes the rows of the view from rows of the table, row by row.
        key: the key of the view.
        engine: keeps the table's changes, which are read twice.
    """
    changed = after.changes_since(before, table)
    if changed is None:
        empty = select(after.read(table).head(0))
        return net_changes(empty, empty, key)
    changed, old = engine.persist(changed), removes(nw.col(ROW_KIND))
    return net_changes(select(changed.filter(old)), select(changed.filter(~old)), key)
