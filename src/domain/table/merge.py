"""Merge rules: how one column, or one column group, of a stored row is merged with that of an incoming row.

Rules are data. `fold` is their reference implementation for every engine. An adapter may evaluate a rule natively or
call `fold`; the contract suite checks that both give the same result. Each rule is an associative fold over the rows of
a key in their order of arrival, so the result does not depend on how rows are divided into batches.

The sequence group follows Paimon's partial-update engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, TypeAlias

import narwhals as nw
from attrs import field, frozen

from .natural_order import with_natural


@frozen
class Replace:
    """The value of the last arrival, null or not."""


@frozen
class KeepFirst:
    """The value of the first arrival, null or not."""


@frozen
class Sum:
    """The sum of the values that are not null; null if there is none. A sum that does not fit is a `SumOverflow`."""


@frozen
class Min:
    """The smallest value that is not null."""


@frozen
class Max:
    """The largest value that is not null."""


@frozen
class LastNonNull:
    """The value of the last arrival that is not null."""


@frozen
class Latest:
    """A sequence group: all of `columns` come from the row with the highest `by`.

    `by` is compared as a tuple, left to right, nulls first, texts in natural sort order (`natural_order`). Of rows with
    equal `by`, the last arrival wins. A row whose `by` columns are all null is ignored. The `by` columns of the winner
    are stored with the group.
    """

    by: tuple[str, ...] = field(converter=tuple[str, ...])
    columns: tuple[str, ...] = field(converter=tuple[str, ...])


ColumnRule: TypeAlias = Replace | KeepFirst | Sum | Min | Max | LastNonNull
Adding: TypeAlias = "Callable[[nw.LazyFrame[Any], Sequence[str], Sequence[str]], nw.LazyFrame[Any]]"
"""Exact sums; called with a frame, the columns to group by, and the columns to sum. See `FrameEngine.add_up`."""

_ARRIVAL = "_headwater_arrival"


def fold(
    rows: nw.LazyFrame[Any],
    *,
    key: Sequence[str],
    rules: Mapping[str, ColumnRule],
    groups: Sequence[Latest] = (),
    arrival: str,
    add_up: Adding | None = None,
) -> nw.LazyFrame[Any]:
    """Fold all rows of a key into one.

    Args:
        rows: the key columns, the columns of `rules` and `groups`, and `arrival`.
        key: the columns that identify a row; never null.
        rules: the rule of each column outside the sequence groups.
        groups: the sequence groups.
        arrival: a column that orders the rows of a key by their arrival; unique within a key.
        add_up: as `FrameEngine.add_up`; None if the sums are known to fit into their columns.

    Returns:
        One row per key: columns `key`, `rules` in order, each group's columns, and `arrival` of the last row.
    """
    if not groups and all(isinstance(rule, Replace) for rule in rules.values()):
        return rows.select(*key, *rules, arrival).unique(subset=list(key), keep="last", order_by=[arrival])
    marked = rows.with_columns(nw.col(arrival).alias(_ARRIVAL))
    if groups:
        marked = _only_newest(marked, groups, key)
    in_order = [name for group in groups for name in (*group.by, *group.columns)]
    of_one_row = {name: rule for name, rule in rules.items() if isinstance(rule, Replace | KeepFirst | LastNonNull)}
    marked = marked.with_columns(
        nw.when(_wins(rule, name, key)).then(nw.col(name)).alias(name) for name, rule in of_one_row.items()
    )
    sums = [name for name, rule in rules.items() if isinstance(rule, Sum)]
    folded = marked.group_by(*key).agg(
        *_winners(marked, [*in_order, *of_one_row]),
        *(nw.col(name).min() for name, rule in rules.items() if isinstance(rule, Min)),
        *(nw.col(name).max() for name, rule in rules.items() if isinstance(rule, Max)),
        *(nw.col(name).sum() for name in sums if add_up is None),
        *(nw.col(name).count().alias(f"_given_{name}") for name in sums),
        nw.col(_ARRIVAL).max().alias(arrival),
    )
    if add_up is not None and sums:
        folded = folded.join(add_up(marked, key, sums), on=list(key), how="inner")
    over_nothing = {name: nw.when(nw.col(f"_given_{name}") > 0).then(nw.col(name)).alias(name) for name in sums}
    return folded.select(*key, *(over_nothing.get(name, nw.col(name)) for name in rules), *in_order, arrival)


def _winners(rows: nw.LazyFrame[Any], names: Sequence[str]) -> list[nw.Expr]:
    """The values of these columns in the one row of a key that has the winner; they are null in all others."""
    types = rows.collect_schema()
    # Not every engine has a largest one of nested values.
    nested = (nw.List, nw.Struct)
    return [
        nw.col(name).any_value(ignore_nulls=True) if isinstance(types[name], nested) else nw.col(name).max()
        for name in names
    ]


def _wins(rule: ColumnRule, name: str, key: Sequence[str]) -> nw.Expr:
    """Whether a row is the one that a column's value is taken from, among the rows of its key."""
    arrival = nw.col(_ARRIVAL)
    match rule:
        case KeepFirst():
            return arrival == arrival.min().over(*key)
        case LastNonNull():
            return arrival == nw.when(~nw.col(name).is_null()).then(arrival).max().over(*key)
        case _:
            return arrival == arrival.max().over(*key)


def _only_newest(rows: nw.LazyFrame[Any], groups: Sequence[Latest], key: Sequence[str]) -> nw.LazyFrame[Any]:
    """Set each sequence group's columns to null in all rows except the key's newest one.

    The columns of all groups are added together: Spark analyses the whole plan each time that columns are added.
    """
    wins = [f"_wins_{at}" for at in range(len(groups))]
    given = (nw.any_horizontal(*(~nw.col(name).is_null() for name in group.by), ignore_nulls=False) for group in groups)
    rows = rows.with_columns(each.alias(win) for each, win in zip(given, wins, strict=True))
    rows, compared = with_natural(rows, [name for group in groups for name in group.by])
    columns = iter(compared)
    for place in zip_longest(*([*islice(columns, len(group.by))] for group in groups)):
        rows = rows.with_columns(_still_wins(win, name, key) for win, name in zip(wins, place, strict=True) if name)
    arrival = nw.col(_ARRIVAL)
    newest = ((arrival == nw.when(nw.col(win)).then(arrival).max().over(*key), win) for win in wins)
    rows = rows.with_columns(each.fill_null(value=False).alias(win) for each, win in newest)
    return rows.with_columns(
        nw.when(nw.col(win)).then(nw.col(name)).alias(name)
        for group, win in zip(groups, wins, strict=True)
        for name in (*group.by, *group.columns)
    )


def _still_wins(wins: str, name: str, key: Sequence[str]) -> nw.Expr:
    """Whether a row that wins so far also has the highest value of a column among those rows of its key."""
    column, so_far = nw.col(name), nw.col(wins)
    best = nw.when(so_far).then(column).max().over(*key)
    # Null is the lowest value: it wins only if no remaining candidate has another value.
    equal = best.is_null() | (column == best).fill_null(value=False)
    return (so_far & equal).alias(wins)
