"""What changed between two contents of a table, whatever happened in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw

from ..change import Change
from ..epoch import ROW_KIND
from ..errors import ConfigError
from .row_kind import DELETE, INSERT, UPDATE_AFTER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from narwhals.dtypes import DType

    from ..service import ViewSpec

_SIDE = "_side"
MULTIPLICITY = "_multiplicity"
"""How many equal rows a change of a table without a key is about."""


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
    pairs = _moved(before, after, names).with_columns(nw.col(_SIDE).count().over(*key).alias(ROW_KIND))
    return pairs.select(*names, _kind().alias(ROW_KIND))


def net_rows(before: nw.LazyFrame[Any], after: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The rows that came and went between two contents without a key.

    Args:
        before: the old rows, equal ones as often as they are there.
        after: the new rows, in the same columns.

    Returns:
        The columns of `after`; string ``_row_kind``: ``+I`` where there are more such rows now, ``-D`` where there are
        fewer (null equals null); bigint ``_multiplicity``: by how many.
    """
    names, more = after.collect_schema().names(), nw.col(_SIDE) > 0
    kind = nw.when(more).then(nw.lit(INSERT)).otherwise(nw.lit(DELETE))
    number = nw.col(_SIDE).abs().cast(nw.Int64)
    return _moved(before, after, names).select(*names, kind.alias(ROW_KIND), number.alias(MULTIPLICITY))


def to_change(net: nw.LazyFrame[Any], view: ViewSpec) -> Change:
    """What net changes of a view do to a table that holds its rows; persist them first, they are read three times."""
    kind, names = nw.col(ROW_KIND), view.schema.names
    return Change(
        append=net.filter(kind == INSERT).select(*names),
        merge=net.filter(kind == UPDATE_AFTER).select(*names),
        delete=net.filter(kind == DELETE).select(*view.key),
    )


def aligned(
    before: nw.LazyFrame[Any], after: nw.LazyFrame[Any], key: Sequence[str] = ()
) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]:
    """Two contents of a table whose columns have changed between them, each in all columns, null where it lacks one.

    Raises:
        ConfigError: a column has another type, or one of the key is not in both.
    """
    old, new = before.collect_schema(), after.collect_schema()
    if not old or not new:  # nothing was there, or is there
        return (before, before.head(0)) if old else (after.head(0), after)
    for name in dict.fromkeys((*key, *(name for name in new if name in old))):
        if old.get(name) != new.get(name):
            raise ConfigError(
                f"these versions cannot be compared: column {name!r} is {old.get(name, 'not there')} in the earlier and"
                f" {new.get(name, 'not there')} in the later one; choose two from one side of that change"
            )
    columns = {**new, **old}
    return _in(columns, before), _in(columns, after)


def _in(columns: Mapping[str, DType], rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    there = rows.collect_schema()
    return rows.select(
        nw.col(name) if name in there else nw.lit(None).cast(dtype).alias(name) for name, dtype in columns.items()
    )


def _moved(before: nw.LazyFrame[Any], after: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
    """The rows that are not there as often as they were, and by how many more (`_SIDE`)."""
    sides = nw.concat([_side(before, names, -1), _side(after, names, 1)])
    # Grouping takes nulls as equal, so rows that stayed cancel here without a null-safe comparison of each column.
    return sides.group_by(*names).agg(nw.col(_SIDE).sum()).filter(nw.col(_SIDE) != 0)


def _side(rows: nw.LazyFrame[Any], names: Sequence[str], side: int) -> nw.LazyFrame[Any]:
    return rows.select(*names, nw.lit(side).alias(_SIDE))


def _kind() -> nw.Expr:
    comes, paired = nw.col(_SIDE) > 0, nw.col(ROW_KIND) > 1
    updated = nw.when(comes).then(nw.lit("+U")).otherwise(nw.lit("-U"))
    return nw.when(paired).then(updated).otherwise(nw.when(comes).then(nw.lit("+I")).otherwise(nw.lit("-D")))
