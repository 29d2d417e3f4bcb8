"""Net changes between two versions of a table's rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals as nw
from narwhals.dtypes import DType

from ..errors import ConfigError
from .change import Change
from .query_columns import MULTIPLICITY, check_table_columns
from .row_kind import DELETE, INSERT, ROW_KIND, UPDATE_AFTER
from .schema import show_type
from .view_spec import ViewSpec

_SIDE = "_headwater_side"


def net_changes(before: nw.LazyFrame[Any], after: nw.LazyFrame[Any], key: Sequence[str]) -> nw.LazyFrame[Any]:
    """The net changes between the rows of two versions, with row kinds as in Flink and Paimon.

    Args:
        before: the old rows. A version from before the key was declared may have several per key.
        after: the new rows, in the same columns.
        key: the columns that identify a row; never null.

    Returns:
        The columns of `after` and string ``_row_kind``: ``+I`` for a new key, ``-D`` for a removed key, ``-U`` with the
        old and ``+U`` with the new row of a key whose row differs (null equals null). Unchanged rows are left out. If
        a version repeats a key, so that the key now has fewer or more rows, they are ``-D`` and ``+I``. Equal rows are
        returned once.
    """
    names = after.collect_schema().names()
    if not names:  # nothing was there, and nothing is
        return after.select(nw.lit(INSERT).alias(ROW_KIND)).head(0)
    # A key is updated if it has as many rows as before; one whose number of rows differs has rows that came or went.
    pairs = _moved(before, after, names).with_columns((nw.col(_SIDE).sum().over(*key) == 0).alias(ROW_KIND))
    return pairs.select(*names, _kind().alias(ROW_KIND))


def net_rows(before: nw.LazyFrame[Any], after: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """The rows that came and went between two versions of a table without a key.

    Args:
        before: the old rows; equal rows may occur several times.
        after: the new rows, in the same columns.

    Returns:
        The columns of `after`; string ``_row_kind``: ``+I`` if there are more such rows now, ``-D`` if there are fewer
        (null equals null); bigint ``_multiplicity``: how many more or fewer.
    """
    names, more = after.collect_schema().names(), nw.col(_SIDE) > 0
    kind = nw.when(more).then(nw.lit(INSERT)).otherwise(nw.lit(DELETE))
    number = nw.col(_SIDE).abs().cast(nw.Int64)
    return _moved(before, after, names).select(*names, kind.alias(ROW_KIND), number.alias(MULTIPLICITY))


def to_change(net: nw.LazyFrame[Any], view: ViewSpec) -> Change:
    """The change that applies a view's net changes to a table of its rows. Persist `net`: it is read three times."""
    kind, names = nw.col(ROW_KIND), view.schema.names
    return Change(
        append=net.filter(kind == INSERT).select(*names),
        merge=net.filter(kind == UPDATE_AFTER).select(*names),
        delete=net.filter(kind == DELETE).select(*view.key),
    )


def align(
    before: nw.LazyFrame[Any], after: nw.LazyFrame[Any], key: Sequence[str] = ()
) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any]]:
    """Two versions of a table, both in the columns of either; a column that a version lacks is null.

    Args:
        before: the earlier version.
        after: the later one.
        key: the columns that identify a row, if any.

    Raises:
        ConfigError: a column has different types, another case or the name of a column of differences, or a key column
            is missing in one version.
    """
    old, new = before.collect_schema(), after.collect_schema()
    check_table_columns((*old, *new), keyed=bool(key))
    _check_case(old, new)
    if not old or not new:  # nothing was there, or is there
        return (before, before.head(0)) if old else (after.head(0), after)
    for name in dict.fromkeys((*key, *(name for name in new if name in old))):
        if old.get(name) != new.get(name):
            earlier, later = (show_type(each[name]) if name in each else "not there" for each in (old, new))
            raise ConfigError(
                f"these versions cannot be compared: column {name!r} is {earlier} in the earlier and {later} in the"
                " later one; choose two from one side of that change"
            )
    columns = {**new, **old}
    return _in(columns, before), _in(columns, after)


def _check_case(old: Iterable[str], new: Iterable[str]) -> None:
    lower = {name.lower(): name for name in old}
    for name in new:
        if (other := lower.get(name.lower(), name)) != name:
            raise ConfigError(
                f"these versions cannot be compared: column {other!r} of the earlier is called {name!r} in the later"
                " one; choose two from one side of that change, or call it as before"
            )


def _in(columns: Mapping[str, DType], rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    there = rows.collect_schema()
    return rows.select(
        nw.col(name) if name in there else nw.lit(None).cast(dtype).alias(name) for name, dtype in columns.items()
    )


def _moved(before: nw.LazyFrame[Any], after: nw.LazyFrame[Any], names: Sequence[str]) -> nw.LazyFrame[Any]:
    """The rows whose number differs, and by how many there are more (`_SIDE`; negative: fewer)."""
    sides = nw.concat([_side(before, names, -1), _side(after, names, 1)])
    # GROUP BY treats nulls as equal, so unchanged rows cancel without a null-safe comparison of each column.
    return sides.group_by(*names).agg(nw.col(_SIDE).sum()).filter(nw.col(_SIDE) != 0)


def _side(rows: nw.LazyFrame[Any], names: Sequence[str], side: int) -> nw.LazyFrame[Any]:
    return rows.select(*names, nw.lit(side).alias(_SIDE))


def _kind() -> nw.Expr:
    comes, paired = nw.col(_SIDE) > 0, nw.col(ROW_KIND)
    updated = nw.when(comes).then(nw.lit("+U")).otherwise(nw.lit("-U"))
    return nw.when(paired).then(updated).otherwise(nw.when(comes).then(nw.lit("+I")).otherwise(nw.lit("-D")))
