"""Rows behind an earlier one, and ranks, as a comparison with all other rows of the group finds them."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
from attrs import frozen
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.adapters.polars.engine import PolarsEngine
from headwater.adapters.polars.schema import collect, lazy
from headwater.domain.ports import Order

Row = tuple[str | None, int, int, str]

SCHEMA = {"group": pl.String, "file": pl.Int64, "offset": pl.Int64, "text": pl.String, "at": pl.Int64}
SPREADS = [range(3), [0, 1, 2**31 - 2, 2**31 - 1], [-(2**63), -1, 2**31, 2**62, 2**63 - 1]]
"""Numbers of one column: few, as many as are kept as they are, and more."""


@st.composite
def drawn_rows(draw: st.DrawFn) -> list[Row]:
    files, offsets = (st.sampled_from(draw(st.sampled_from(SPREADS))) for _ in range(2))
    return draw(st.lists(st.tuples(st.sampled_from(["a", "b", None]), files, offsets, st.sampled_from("xyz"))))


def is_behind(row: Row, earlier: list[Row]) -> bool:
    return row[0] is not None and any(each[0] == row[0] and each[1:] >= row[1:] for each in earlier)


@example([("a", 2**31 - 1, 2**31 - 1, "y"), ("a", 0, 0, "z"), ("a", 0, 0, "x")], None)
@given(drawn_rows(), st.none() | st.integers(0, 9))
def test_rows_behind_an_earlier_one(given_rows: list[Row], seed: int | None) -> None:
    numbered = [(*row, at) for at, row in enumerate(given_rows)]
    if seed is not None:
        random.Random(seed).shuffle(numbered)
    frame = lazy(pl.DataFrame(numbered, SCHEMA, orient="row"))
    order = ["file", "offset", "text"]
    found = collect(PolarsEngine().behind(frame, order, within="group", order_by="at", into="behind"))
    expected = [is_behind(row, given_rows[:at]) for at, row in enumerate(given_rows)]
    assert found.sort("at")["behind"].to_list() == expected


FAR = [0, (2**63 - 1) // 3 - 1]
"""So many numbers that those of three groups, with one more for nulls, do not fit into 63 bits."""
TYPES: list[tuple[pl.DataType, list[Any]]] = [
    *((pl.Int64(), list(spread)) for spread in SPREADS),
    (pl.Int64(), FAR),
    (pl.String(), ["", "a", "b", "ä"]),
    (pl.Datetime("us", "UTC"), [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)]),
    (pl.Date(), [date.min, date(2026, 1, 1), date.max]),
    (pl.Float64(), [float("-inf"), -1.5, 0.0, 2.5, float("nan")]),
    (pl.Decimal(38, 2), [Decimal("-1.5"), Decimal("1.50"), Decimal(10) ** 30]),
    (pl.Boolean(), [False, True]),
    (pl.Binary(), [b"", b"a", b"\xff"]),
]
"""Types of columns, each with values in their order."""


@frozen
class Ranked:
    """Rows of places in `TYPES`, None for null: the columns of the group, and those of the order.

    Args:
        types: of these columns.
        within: how many of them are the group's.
        order: of the others.
        rows: the rows.
    """

    types: list[tuple[pl.DataType, list[Any]]]
    within: int
    order: list[Order]
    rows: list[tuple[int | None, ...]]

    @property
    def frame(self) -> pl.DataFrame:
        """The rows with their values."""
        return pl.DataFrame(
            [
                pl.Series(str(at), [None if row[at] is None else values[row[at]] for row in self.rows], dtype)
                for at, (dtype, values) in enumerate(self.types)
            ]
        )

    def compare(self, one: tuple[int | None, ...], other: tuple[int | None, ...]) -> int:
        """Below 0 if a row comes before another one of its group."""
        for at, order in enumerate(self.order, self.within):
            mine, theirs = one[at], other[at]
            if mine == theirs:
                continue
            if mine is None or theirs is None:
                return 1 if (mine is None) == order.nulls_last else -1
            return 1 if (mine > theirs) != order.descending else -1
        return 0

    def rank(self, row: tuple[int | None, ...]) -> tuple[int, int, int]:
        """The dense rank of a row, its lowest place and its highest."""
        group = [each for each in self.rows if each[: self.within] == row[: self.within]]
        before = [each for each in group if self.compare(each, row) < 0]
        different = {each[self.within :] for each in before}
        equal = sum(1 for each in group if self.compare(each, row) == 0)
        return len(different) + 1, len(before) + 1, len(before) + equal


@st.composite
def drawn_ranked(draw: st.DrawFn) -> Ranked:
    within, ordered = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    types = [draw(st.sampled_from(TYPES)) for _ in range(within + ordered)]
    orders = [Order(str(at), draw(st.booleans()), draw(st.booleans())) for at in range(within, within + ordered)]
    places = (st.none() | st.integers(0, len(values) - 1) for _, values in types)
    return Ranked(types, within, orders, draw(st.lists(st.tuples(*places), max_size=12)))


@example(Ranked([(pl.Int64(), [0, 1, 2]), (pl.Int64(), FAR)], 1, [Order("1")], [(0, 1), (1, None), (2, 0), (2, 1)]))
@given(drawn_ranked())
def test_ranks_within_a_group(ranked: Ranked) -> None:
    names = [str(at) for at in range(ranked.within)]
    asked = PolarsEngine().ranks(
        lazy(ranked.frame), ranked.order, within=names, into={"dense": "dense", "low": "min", "high": "max"}
    )
    assert collect(asked).select("dense", "low", "high").rows() == [ranked.rank(row) for row in ranked.rows]
