"""Merge rules as Spark aggregates, for every store on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals as nw
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.table.change import POSITION
from ...domain.table.merge import ColumnRule, KeepFirst, LastNonNull, Latest, Max, Min, Replace, Sum, fold
from ...domain.table.natural_order import with_natural
from ...domain.table.spec import TableSpec
from .schema import lazy, named, quoted
from .sums import total

_PLAIN: Mapping[type[ColumnRule], str] = {Min: "min", Max: "max"}


def one_row_per_key(rows: nw.LazyFrame[Any], spec: TableSpec) -> nw.LazyFrame[Any]:
    """Fold the rows of a change that share a key, in the order of their `_position`, if they have one."""
    if not spec.key or POSITION not in rows.collect_schema().names():
        return rows
    native = rows.to_native()
    return lazy(fold_by_key(native, key=spec.key, rules=spec.column_rules, groups=spec.groups, arrival=POSITION))


def fold_by_key(
    rows: DataFrame,
    *,
    key: Sequence[str],
    rules: Mapping[str, ColumnRule],
    groups: Sequence[Latest] = (),
    arrival: str,
    arrivals: str | None = None,
) -> DataFrame:
    """Fold all rows of a key into one, in one aggregation, with the arguments and the result of the domain's `fold`.

    With `arrivals`, a column of that name lists the arrivals of all rows of the key; then at least one rule must not be
    `Replace`.

    Columns taken from one row are computed as the greatest struct of the ordering columns and these columns. Structs
    compare field by field, nulls first, as sequences do, and no two rows of a key arrive together. `fold` needs two
    windows per sequence group for that.
    """
    if not groups and all(isinstance(rule, Replace) for rule in rules.values()):
        native: DataFrame = fold(lazy(rows), key=key, rules=rules, arrival=arrival).to_native()
        return native
    picks = []
    for group in groups:
        comparable, compared = with_natural(lazy(rows), group.by)
        rows = comparable.to_native()
        picks.append(_newest(group, compared, arrival))
    picks += _picks(rules, arrival)
    plain = {name: f"{_PLAIN[type(rule)]}({quoted(name)})" for name, rule in rules.items() if type(rule) in _PLAIN}
    totals = {name: total(rows, name, key) for name, rule in rules.items() if isinstance(rule, Sum)}
    plain |= {into: sql for each in totals.values() for into, sql in each.parts.items()}
    found = rows.groupBy(*map(named, key)).agg(
        *(F.expr(f"{sql} AS _pick_{at}") for at, (sql, _) in enumerate(picks)),
        *(F.expr(f"{sql} AS {quoted(name)}") for name, sql in plain.items()),
        F.expr(f"max({quoted(arrival)}) AS {quoted(arrival)}"),
        *([] if arrivals is None else [F.expr(f"collect_list({quoted(arrival)}) AS {quoted(arrivals)}")]),
    )
    picked = {name: f"_pick_{at}.{quoted(name)}" for at, (_, names) in enumerate(picks) for name in names}
    picked |= {name: each.answer for name, each in totals.items()}
    in_order = [*key, *rules, *(name for group in groups for name in (*group.by, *group.columns)), arrival]
    in_order += [] if arrivals is None else [arrivals]
    return found.selectExpr(*(f"{picked.get(name, quoted(name))} AS {quoted(name)}" for name in in_order))


def _newest(group: Latest, compared: Sequence[str], arrival: str) -> tuple[str, tuple[str, ...]]:
    """SQL that picks a sequence group's columns by `compared`, which replaces its columns `by`; and their names."""
    given = " OR ".join(f"{quoted(name)} IS NOT NULL" for name in group.by)
    kept = (*(name for name in group.by if name not in compared), *group.columns)
    return f"max(CASE WHEN {given} THEN {_struct(*compared, arrival, *kept)} END)", (*group.by, *group.columns)


def _picks(rules: Mapping[str, ColumnRule], arrival: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """SQL that picks the columns of the other rules, with their names; columns of one row are picked together."""
    for kind, function in ((Replace, "max"), (KeepFirst, "min")):
        if names := tuple(name for name, rule in rules.items() if isinstance(rule, kind)):
            yield f"{function}({_struct(arrival, *names)})", names
    for name in (name for name, rule in rules.items() if isinstance(rule, LastNonNull)):
        yield f"max(CASE WHEN {quoted(name)} IS NOT NULL THEN {_struct(arrival, name)} END)", (name,)


def _struct(*names: str) -> str:
    return f"struct({', '.join(map(quoted, names))})"
