"""Operations on Polars frames that depend on an order. Rows that are in order already are not sorted again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import narwhals as nw
import polars as pl

from ...domain.ports import FrameOrder, Order, RankMethod
from .schema import map_rows

_TEXTS = pl.Categories("headwater.groups")
"""Numbers of texts, of which Polars drops those that are in no frame any more."""
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
    """One sort of a whole number for each row: several columns take three times as long, windows over groups longer."""
    groups, count = _places((Order(name), _told_apart(rows[name])) for name in within)
    places, _ = _places(((each, rows[each.column]) for each in order), groups, count)
    at = None if places.is_sorted() else places.arg_sort()
    placed = pl.DataFrame([groups.alias("_group"), places.alias("_place")])
    ranks = _ranks_in_order(placed if at is None else placed[at], into)
    return rows.with_columns(ranks if at is None else [_put_back(each, at) for each in ranks])


def _told_apart(values: pl.Series) -> pl.Series:
    """Values that are different where these are, in any order: numbers of texts, far sooner than their ranks."""
    return values.cast(pl.Categorical(_TEXTS)).to_physical() if values.dtype == pl.String else values


def _ranks_in_order(placed: pl.DataFrame, into: Mapping[str, RankMethod]) -> pl.DataFrame:
    """The ranks of rows that are in the order of their places, from those of their group."""
    rows = placed.lazy().select(
        _place=pl.int_range(1, pl.len() + 1, dtype=pl.Int64), _starts=_changes("_group"), _rises=_changes("_place")
    )
    place, starts, rises = pl.col("_place"), pl.col("_starts"), pl.col("_rises")
    found: dict[RankMethod, pl.Expr] = {
        "dense": rises.cum_sum().cast(pl.Int64),
        "min": pl.when(rises).then(place).forward_fill(),
        "max": pl.when(rises.shift(-1, fill_value=True)).then(place).backward_fill(),
    }
    firsts = {method: pl.when(starts).then(at if method == "dense" else place) for method, at in found.items()}
    ranks = {name: found[method] - firsts[method].forward_fill() + 1 for name, method in into.items()}
    return rows.select(**ranks).collect(engine="in-memory")


def _put_back(values: pl.Series, at: pl.Series) -> pl.Series:
    """Values of rows in some order, each at the place where its row was before."""
    return pl.zeros(values.len(), values.dtype, eager=True).scatter(at, values).alias(values.name)


def _changes(name: str) -> pl.Expr:
    """Whether a row has another value than the row before it; true of the first one."""
    return (pl.col(name) != pl.col(name).shift(1)).fill_null(value=True)


def _with_following(rows: pl.DataFrame, columns: Mapping[str, str], within: str, order_by: str) -> pl.DataFrame:
    shifted = {into: pl.col(column).shift(-1) for into, column in columns.items()}
    if not rows[order_by].is_sorted():
        return rows.with_columns(each.over(within, order_by=order_by).alias(into) for into, each in shifted.items())
    same = pl.col(within).eq_missing(pl.col(within).shift(-1))
    return rows.with_columns(pl.when(same).then(each).alias(into) for into, each in shifted.items())


def _with_behind(rows: pl.DataFrame, order: Sequence[str], within: str, order_by: str, into: str) -> pl.DataFrame:
    (places, _), group, arrival = _places((Order(name), rows[name]) for name in order), rows[within], rows[order_by]
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


def _places(
    columns: Iterable[tuple[Order, pl.Series]], places: pl.Series | None = None, count: int = 1
) -> tuple[pl.Series, int]:
    """Whole numbers from 0 that order rows as some columns do, compared one after the other, and how many there may be.

    `order_code` bears no nulls, and takes a hundred times as long for texts that all differ.

    Args:
        columns: the columns.
        places: the places by what is compared before these columns; None for nothing.
        count: how many of these there may be.
    """
    for order, values in columns:
        numbers, more = _numbers(values, order, most=_MOST_PLACES // count - 1)
        if places is None:
            places, count = numbers, more
            continue
        if count * more > _MOST_PLACES:
            places, count = _ranks(places), places.len()
        places, count = places * more + numbers, count * more
    assert places is not None
    return places, count


def _numbers(values: pl.Series, order: Order, most: int) -> tuple[pl.Series, int]:
    """Whole numbers from 0 in the order of values, and how many there may be: `most` and one for nulls, or few."""
    numbers, count = _distances(values, max(most, _MOST_NUMBERS)) or (_ranks(values), max(values.len(), 1))
    if order.descending:
        numbers = count - 1 - numbers
    if not values.null_count():
        return numbers, count
    return (numbers.fill_null(count) if order.nulls_last else (numbers + 1).fill_null(0)), count + 1


def _distances(values: pl.Series, most: int) -> tuple[pl.Series, int] | None:
    """The distance of each whole number or time from the lowest one, and how many there may be; None if over `most`."""
    if not (values.dtype.is_integer() or values.dtype.is_temporal()):
        return None
    numbers = values.cast(pl.Int64)
    low, high = numbers.min(), numbers.max()
    if not (isinstance(low, int) and isinstance(high, int) and high - low < most):
        return None
    return numbers - low, high - low + 1


def _ranks(values: pl.Series) -> pl.Series:
    ranks = values.rle_id() if not values.null_count() and values.is_sorted() else values.rank("dense") - 1
    return ranks.cast(pl.Int64)
