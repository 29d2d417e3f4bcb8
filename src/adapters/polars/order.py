"""Operations on Polars frames that depend on an order. Rows that are in order already are not sorted again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import narwhals as nw
import polars as pl

from ...domain.ports import FrameOrder, Order, RankMethod
from .schema import map_rows

_FEW = 100_000
"""Up to this number of rows, to start Polars' streaming engine costs more than it saves."""
_MOST_NUMBERS, _MOST_PLACES = 2**31, 2**63 - 1
"""Rows and numbers of two columns are fewer than the first, so their pairs are fewer than the second."""


class PolarsOrder(FrameOrder):
    """All of `FrameOrder` but `running`, which is a matter of sums."""

    def following(
        self, frame: nw.LazyFrame[Any], columns: Mapping[str, str], *, within: str, order_by: str
    ) -> nw.LazyFrame[Any]:
        schema = frame.to_native().collect_schema()
        added = {into: schema[column] for into, column in columns.items()}
        return map_rows(frame, partial(_with_following, columns=columns, within=within, order_by=order_by), added)

    def behind(
        self, frame: nw.LazyFrame[Any], order: Sequence[str], *, within: str, order_by: str, into: str
    ) -> nw.LazyFrame[Any]:
        found = partial(_with_behind, order=order, within=within, order_by=order_by, into=into)
        return map_rows(frame, found, {into: pl.Boolean()})

    def ranks(
        self, frame: nw.LazyFrame[Any], order: Sequence[Order], *, within: Sequence[str], into: Mapping[str, RankMethod]
    ) -> nw.LazyFrame[Any]:
        found = partial(_with_ranks, order=order, within=list(within), into=into)
        return map_rows(frame, found, {name: pl.Int64() for name in into})

    def highest(self, frame: nw.LazyFrame[Any], by: str, order: Sequence[str]) -> nw.LazyFrame[Any]:
        rows: pl.LazyFrame = frame.select(by, *order).to_native()
        for name in order:
            rows = rows.filter(pl.col(name) == pl.col(name).max().over(by))
        return nw.from_native(rows.unique(subset=[by]))


def _with_ranks(
    rows: pl.DataFrame, order: Sequence[Order], within: list[str], into: Mapping[str, RankMethod]
) -> pl.DataFrame:
    """One sort of all rows; windows over small groups would take twice as long or more."""
    orders = [*map(Order, within), *order]
    placed = (
        rows.with_row_index("_at")
        .lazy()
        .sort(
            [each.column for each in orders],
            descending=[each.descending for each in orders],
            nulls_last=[each.nulls_last for each in orders],
        )
    )
    place, starts, rises = pl.col("_place"), pl.col("_starts"), pl.col("_rises")
    placed = placed.with_columns(_place=pl.int_range(1, pl.len() + 1, dtype=pl.Int64))
    placed = placed.with_columns(_starts=pl.any_horizontal(place == 1, *map(_changes, within)))
    placed = placed.with_columns(_rises=pl.any_horizontal(starts, *(_changes(each.column) for each in order)))
    places: dict[RankMethod, pl.Expr] = {
        "dense": rises.cum_sum().cast(pl.Int64),
        "min": pl.when(rises).then(place).forward_fill(),
        "max": pl.when(rises.shift(-1, fill_value=True)).then(place).backward_fill(),
    }
    firsts = {method: pl.when(starts).then(at if method == "dense" else place) for method, at in places.items()}
    ranks = {name: places[method] - firsts[method].forward_fill() + 1 for name, method in into.items()}
    found = placed.select("_at", **ranks).sort("_at").drop("_at")
    return rows.with_columns(found.collect(engine="in-memory" if rows.height <= _FEW else "auto"))


def _changes(name: str) -> pl.Expr:
    """Whether a row has another value than the row before it."""
    return pl.col(name).ne_missing(pl.col(name).shift(1))


def _with_following(rows: pl.DataFrame, columns: Mapping[str, str], within: str, order_by: str) -> pl.DataFrame:
    shifted = {into: pl.col(column).shift(-1) for into, column in columns.items()}
    if not rows[order_by].is_sorted():
        return rows.with_columns(each.over(within, order_by=order_by).alias(into) for into, each in shifted.items())
    same = pl.col(within).eq_missing(pl.col(within).shift(-1))
    return rows.with_columns(pl.when(same).then(each).alias(into) for into, each in shifted.items())


def _with_behind(rows: pl.DataFrame, order: Sequence[str], within: str, order_by: str, into: str) -> pl.DataFrame:
    places, group, arrival = _places([rows[name] for name in order]), rows[within], rows[order_by]
    before = _highest_before(places, group, arrival)
    behind = group.is_not_null() & (places <= before).fill_null(value=False)
    return rows.with_columns(behind.alias(into))


def _highest_before(places: pl.Series, group: pl.Series, arrival: pl.Series) -> pl.Series:
    """The highest place in the group of each row that arrived before it; null if there is none."""
    in_order = arrival.is_sorted()
    if in_order and group.eq_missing(group.first()).all():
        return places.cum_max().shift(1)
    found = pl.DataFrame([places.alias("place"), group.alias("group"), arrival.alias("arrival")])
    highest = pl.col("place").cum_max().shift(1)
    return found.select(highest.over("group", order_by=None if in_order else "arrival")).to_series()


def _places(order: Sequence[pl.Series]) -> pl.Series:
    """Whole numbers that order rows as some columns do, compared one after the other; of a row with a null, any.

    `order_code` bears no nulls, and takes a hundred times as long for texts that all differ.
    """
    places, count = _numbers(order[0])
    for values in order[1:]:
        numbers, more = _numbers(values)
        if count * more > _MOST_PLACES:
            places, count = _ranks(places), places.len()
        places, count = places * more + numbers, count * more
    return places


def _numbers(values: pl.Series) -> tuple[pl.Series, int]:
    """Whole numbers from 0 in the order of values, and how many there may be."""
    if values.dtype.is_integer():
        low, high = values.min(), values.max()
        if isinstance(low, int) and isinstance(high, int) and high - low < _MOST_NUMBERS:
            return values.cast(pl.Int64) - low, high - low + 1
    return _ranks(values), values.len()


def _ranks(values: pl.Series) -> pl.Series:
    ranks = values.rle_id() if values.is_sorted() else values.rank("dense") - 1
    return ranks.cast(pl.Int64)
