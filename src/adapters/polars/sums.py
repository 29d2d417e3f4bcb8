"""Exact sums over Polars frames.

Polars wraps integers around and refuses decimals that overflow on the way. So Polars adds up the columns that cannot
overflow, which are nearly all, and Python adds up the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from functools import partial
from typing import Any

import narwhals as nw
import polars as pl

from ...domain.table.schema import DataType
from ...domain.table.sums import bounds, counts, named, overflow, shown
from .schema import map_rows

_DIGITS = 100
"""The precision of Python's decimals while it adds up: more than any sum of decimals has."""


def add_up(
    frame: nw.LazyFrame[Any], by: Sequence[str], sums: Sequence[str], most: Sequence[str] = ()
) -> nw.LazyFrame[Any]:
    """See `FrameEngine.add_up`."""
    return map_rows(frame.select(*by, *sums, *most), partial(_added, by=by, sums=sums, most=most))


def running(frame: nw.LazyFrame[Any], sums: Sequence[str], over: Sequence[str], order_by: str) -> nw.LazyFrame[Any]:
    """See `FrameEngine.running`."""
    return map_rows(frame, partial(_cumulated, sums=sums, over=over, order_by=order_by))


def may_overflow(values: pl.Series) -> bool:
    """Whether the values could add up to more than their column holds, in any order."""
    if (most := bounds(values.name, _type_of(values))) is None or not values.len():
        return False
    with localcontext(prec=_DIGITS):
        ends: Any = (values.max() or 0, values.min() or 0)
        return max(abs(Decimal(each)) for each in ends) * values.len() > Decimal(most[1]).scaleb(-_scale(values))


def _added(rows: pl.DataFrame, by: Sequence[str], sums: Sequence[str], most: Sequence[str]) -> pl.DataFrame:
    large = _large(rows, sums, by)
    usual = [pl.col(name).sum().cast(rows.schema[name]) for name in sums if name not in large]
    lists = [pl.col(name).alias(name) for name in large]
    found = rows.group_by(*by).agg(*usual, *(pl.col(name).max() for name in most), *lists)
    exact = [_totals(found, rows[name], by) for name in large]
    return found.with_columns(exact).select(rows.columns)


def _large(rows: pl.DataFrame, sums: Sequence[str], by: Sequence[str]) -> list[str]:
    """The columns whose sums could overflow.

    Raises:
        SumOverflow: one of the values alone does not fit: its negative would be the same value again.
    """
    found = [name for name in sums if not counts(name) and may_overflow(rows[name])]
    for name in found:
        kind = _type_of(rows[name])
        lowest, _ = bounds(name, kind) or (0, 0)
        if rows[name].dtype.is_integer() and (low := rows.filter(pl.col(name) < lowest)).height:
            groups = low.head(1).select(shown(tuple(by))).to_dicts()
            raise overflow(named(name), kind.ddl, groups[0] if groups else {})
    return found


def _totals(groups: pl.DataFrame, values: pl.Series, by: Sequence[str]) -> pl.Series:
    """The sums of the lists of values of one column, one list per group."""
    with localcontext(prec=_DIGITS):
        totals = [sum(each for each in listed if each is not None) for listed in groups[values.name].to_list()]
    return _fitting(totals, values, groups.select(shown(tuple(by))).to_dicts())


def _cumulated(rows: pl.DataFrame, sums: Sequence[str], over: Sequence[str], order_by: str) -> pl.DataFrame:
    large = _large(rows, sums, over)
    usual = (
        pl.col(name).cum_sum().over(*over, order_by=order_by).cast(rows.schema[name])
        for name in sums
        if name not in large
    )
    exact = [_running_totals(rows, rows[name], over, order_by) for name in large]
    return rows.with_columns(*usual, *exact)


def _running_totals(rows: pl.DataFrame, values: pl.Series, over: Sequence[str], order_by: str) -> pl.Series:
    so_far: dict[tuple[Any, ...], Any] = {}
    totals: list[Any] = [None] * rows.height
    keys, listed = rows.select(*over).rows(), values.to_list()
    with localcontext(prec=_DIGITS):
        for at in rows[order_by].arg_sort():
            totals[at] = so_far[keys[at]] = so_far.get(keys[at], 0) + (listed[at] or 0)
    return _fitting(totals, values, rows.select(shown(tuple(over))).to_dicts())


def _fitting(totals: list[Any], values: pl.Series, groups: Sequence[Mapping[str, object]]) -> pl.Series:
    """Sums as a column of the values' type.

    Raises:
        SumOverflow: one does not fit.
    """
    kind = _type_of(values)
    lowest, highest = bounds(values.name, kind) or (0, 0)
    groups = groups or [{}] * len(totals)
    with localcontext(prec=_DIGITS):
        for total, group in zip(totals, groups, strict=True):
            if not lowest <= Decimal(total).scaleb(_scale(values)) <= highest:
                raise overflow(named(values.name), kind.ddl, group)
    exact = totals if values.dtype.is_integer() else [Decimal(each) for each in totals]
    return pl.Series(values.name, exact, dtype=values.dtype)


def _type_of(values: pl.Series) -> DataType:
    return DataType.of(nw.from_native(values, series_only=True).dtype)


def _scale(values: pl.Series) -> int:
    return values.dtype.scale if isinstance(values.dtype, pl.Decimal) else 0
