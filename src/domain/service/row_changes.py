"""Net changes of views, computed from what has changed in their tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import narwhals as nw

from ..ledger.ledger import Snapshot
from ..ports import FrameCache, FrameEngine
from ..table.net_changes import net_changes
from ..table.row_kind import ROW_KIND, removes
from ..table.spec import TableSpec


def read_row_changes(
    table: str,
    before: Snapshot,
    after: Snapshot,
    select: Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]],
    key: Sequence[str],
    *,
    engine: FrameCache,
) -> nw.LazyFrame[Any]:
    """The net changes of a view whose rows are each computed from one row of one table; see `net_changes`.

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


def find_changed_groups(
    tables: Sequence[TableSpec], group: Sequence[str], before: Snapshot, after: Snapshot, engine: FrameEngine
) -> nw.LazyFrame[Any]:
    """The groups, in the columns `group`, of which a row of one of the tables differs between two snapshots."""
    changes = (after.changes_since(before, table.name) for table in tables)
    if changed := [rows.select(*group) for rows in changes if rows is not None]:
        return engine.persist(nw.concat(changed).unique())
    return engine.frame([], tables[0].schema).select(*group)
