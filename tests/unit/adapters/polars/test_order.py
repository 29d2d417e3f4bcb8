"""Rows that are behind an earlier row of their group, as a comparison with all earlier rows finds them."""

from __future__ import annotations

import random

import polars as pl
from hypothesis import example, given
from hypothesis import strategies as st

from headwater.adapters.polars.engine import PolarsEngine
from headwater.adapters.polars.schema import collect, lazy

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
