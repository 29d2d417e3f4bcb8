"""Groups as table keys. As in SQL, null is a separate group; a table's key must not have nulls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import narwhals as nw

from ..errors import ConfigError
from .schema import INTEGERS, Column, DataType, Schema, column

NULLS = "_nulls"
"""bigint: a bit mask of the group columns that are null. Those columns hold a placeholder value."""

_STAND_INS: Mapping[str, Any] = {
    "string": "",
    "boolean": False,
    "date": date(1970, 1, 1),
    "timestamp": datetime(1970, 1, 1, tzinfo=UTC),
    "timestamp_ntz": datetime(1970, 1, 1),  # noqa: DTZ001 - a wall time
    "decimal": 0,
} | dict.fromkeys(INTEGERS, 0)


def check_groupable(name: str, kind: DataType) -> None:
    """Check that all engines group alike by a column type.

    Raises:
        ConfigError: rows cannot be grouped by the column.
    """
    if kind.name not in _STAND_INS:
        known = ", ".join(sorted(_STAND_INS))
        raise ConfigError(f"column {name!r} is a {kind.ddl}, by which rows cannot be counted exactly; use: {known}")


def group_key(group: Schema) -> Schema:
    """The key columns of a group: its own columns and `NULLS`."""
    return group.plus(column(NULLS, "bigint"))


def as_key(rows: nw.LazyFrame[Any], group: Schema) -> nw.LazyFrame[Any]:
    """Replace nulls in the group's columns by placeholders, and add `NULLS`."""
    bits = (nw.when(nw.col(each.name).is_null()).then(2**at).otherwise(0) for at, each in enumerate(group.columns))
    mask = sum(bits, start=nw.lit(0)).cast(nw.Int64).alias(NULLS)
    return rows.with_columns(mask, *(_filled(each) for each in group.columns))


def from_key(rows: nw.LazyFrame[Any], group: Schema) -> nw.LazyFrame[Any]:
    """Restore nulls in the group's columns, and drop `NULLS`."""
    return rows.with_columns(nw.col(NULLS), *(_emptied(at, each) for at, each in enumerate(group.columns))).drop(NULLS)


def match_groups(
    read: Callable[[nw.LazyFrame[Any] | None], nw.LazyFrame[Any]], keys: nw.LazyFrame[Any], group: Sequence[str]
) -> nw.LazyFrame[Any]:
    """Return the rows of a view that equal a row of `keys` in all of its columns; null equals nothing.

    Args:
        read: reads the view; only some groups if it is given any. It takes a placeholder for a null.
        keys: some of the view's columns.
        group: the group columns.
    """
    columns = keys.collect_schema().names()
    named = [each for each in group if each in columns]
    return read(keys.select(named).unique() if named else None).join(keys, on=columns, how="semi")


def _filled(each: Column) -> nw.Expr:
    stand_in = nw.lit(_STAND_INS[each.type.name]).cast(each.type.narwhals)
    return nw.when(nw.col(each.name).is_null()).then(stand_in).otherwise(nw.col(each.name)).alias(each.name)


def _emptied(at: int, each: Column) -> nw.Expr:
    given = nw.col(NULLS) % 2 ** (at + 1) < 2**at
    return nw.when(given).then(nw.col(each.name)).alias(each.name)
