"""The contract of every frame engine, for rows in an order: running sums, neighbours, ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import narwhals as nw
import pytest

from ..domain.ports import FrameEngine, Order
from ..domain.table.schema import Schema

MOST = 2**63 - 1
LARGE, LEAST = (Decimal(f"{sign}999999999999999999999999999999999999.99") for sign in ("", "-"))
SUMMED = Schema.parse("g string, at bigint, _rows bigint, _sum_n bigint, _sum_d decimal(38,2), _sum_e decimal(28,2)")
ORDERED = Schema.parse("g string, at bigint, of string")
RATE = Decimal("1.25")


class FrameOrderContract(ABC):
    """Tests of all methods of `FrameOrder`."""

    @pytest.fixture
    @abstractmethod
    def engine(self) -> FrameEngine:
        """The engine under test."""

    @abstractmethod
    def frame(self, rows: Sequence[tuple[Any, ...]], schema: Schema) -> nw.LazyFrame[Any]:
        """A frame of the engine, from rows: tuples of values in the order of the schema's columns."""

    def test_running_sums_are_exact(self, engine: FrameEngine) -> None:
        rows = [
            ("a", 3, 1, 1, LARGE, RATE),
            ("a", 1, 1, MOST, LARGE, RATE),
            ("b", 1, 1, 5, Decimal(5), RATE),
            ("a", 2, 1, -MOST, LEAST, RATE),
        ]
        found = engine.running(self.frame(rows, SUMMED), SUMMED.names[2:], ["g"], "at")
        assert sorted(found.collect(backend="polars").rows()) == [
            ("a", 1, 1, MOST, LARGE, RATE),
            ("a", 2, 2, 0, Decimal(0), 2 * RATE),
            ("a", 3, 3, 1, LARGE, 3 * RATE),
            ("b", 1, 1, 5, Decimal(5), RATE),
        ]
        assert found.collect_schema()["_sum_e"] == nw.Decimal(28, 2)

    @pytest.mark.parametrize("shuffled", [False, True])
    def test_the_following_row_of_a_group(self, engine: FrameEngine, *, shuffled: bool) -> None:
        rows = [("a", 1, "x"), ("a", 2, "y"), ("b", 4, "z"), (None, 5, "u"), (None, 6, None)]
        frame = self.frame([rows[at] for at in (3, 1, 4, 0, 2)] if shuffled else rows, ORDERED)
        found = engine.following(frame, {"next": "of", "then": "at"}, within="g", order_by="at")
        expected = [("y", 2), (None, None), (None, None), (None, 6), (None, None)]
        assert found.sort("at").collect(backend="polars").rows() == [
            (*row, *more) for row, more in zip(rows, expected, strict=True)
        ]

    @pytest.mark.parametrize(
        ("rows", "behind"),
        [
            ([("a", 1, "x"), ("a", 2, "y"), ("b", 3, "x"), ("b", 4, "y")], []),
            ([("a", 1, "x"), ("b", 2, "y"), ("a", 3, "y"), ("b", 4, "z")], []),
            ([("a", 1, "y"), ("b", 2, "x"), ("a", 3, "x"), ("a", 4, "y"), ("a", 5, "z")], [3, 4]),
            ([("a", 1, "x"), (None, 2, None), ("a", 3, "x"), (None, 4, None), ("a", 5, "y")], [3]),
            ([("a", 2, "x"), ("a", 1, "y"), ("a", 3, "z")], [2]),
            ([(None, 1, None)], []),
            ([], []),
        ],
        ids=["rising", "groups take turns", "falling", "not in a group", "not sorted", "no group", "no rows"],
    )
    def test_rows_behind_an_earlier_row(
        self, engine: FrameEngine, rows: list[tuple[Any, ...]], behind: list[int]
    ) -> None:
        found = engine.behind(self.frame(rows, ORDERED), ["of"], within="g", order_by="at", into="behind")
        expected = [(*row, row[1] in behind) for row in rows]
        assert sorted(found.collect(backend="polars").rows(), key=str) == sorted(expected, key=str)

    def test_rows_are_behind_by_several_columns(self, engine: FrameEngine) -> None:
        rows = [("a", 1, 1, "y"), ("a", 2, 2, "x"), ("a", 3, 1, "z"), ("a", 4, 2, "x"), ("a", 5, 10, "a")]
        frame = self.frame(rows, Schema.parse("g string, at bigint, n bigint, of string"))
        found = engine.behind(frame, ["n", "of"], within="g", order_by="at", into="behind")
        flags = found.sort("at").collect(backend="polars")["behind"].to_list()
        assert flags == [False, False, True, True, False]

    def test_ranks_within_groups(self, engine: FrameEngine) -> None:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        times = [("a", 2), ("b", 1), ("a", 1), ("a", 2), ("a", 3), (None, 5), (None, 5), ("c", None), ("c", None)]
        rows = [(g, n, None if hour is None else at + timedelta(hours=hour)) for n, (g, hour) in enumerate(times)]
        frame = self.frame(rows, Schema.parse("g string, n bigint, at timestamp"))
        found = engine.ranks(frame, [Order("at")], within=["g"], into={"dense": "dense", "low": "min", "high": "max"})
        assert found.sort("n").collect(backend="polars").select("dense", "low", "high").rows() == [
            *[(2, 2, 3), (1, 1, 1), (1, 1, 1), (2, 2, 3), (3, 4, 4)],
            *[(1, 1, 2), (1, 1, 2), (1, 1, 2), (1, 1, 2)],
        ]
        assert found.collect_schema()["dense"] == nw.Int64()

    @pytest.mark.parametrize("values", [[], [1.5, -0.0, 0.0, -7.25], [Decimal("1.50"), Decimal("1.5"), Decimal(-1)]])
    def test_ranks_without_groups_to_tell_apart(self, engine: FrameEngine, values: list[Any]) -> None:
        ddl = "double" if values and isinstance(values[0], float) else "decimal(5,2)"
        frame = self.frame([(1, value) for value in values], Schema.parse(f"g bigint, v {ddl}"))
        found = engine.ranks(frame, [Order("v")], within=["g"], into={"rank": "dense"}).collect(backend="polars")
        different = sorted(set(values))
        assert sorted(found.select("v", "rank").rows()) == sorted(
            (value, different.index(value) + 1) for value in values
        )

    @pytest.mark.parametrize("nulls_last", [False, True])
    @pytest.mark.parametrize("descending", [False, True])
    def test_ranks_by_several_columns(self, engine: FrameEngine, *, descending: bool, nulls_last: bool) -> None:
        nan = float("nan")
        values = [(-0.0, 2), (0.0, 1), (nan, 1), (nan, 2), (None, 1), (None, 2), (2.5, None), (2.5, 3)]
        frame = self.frame([("a", *value) for value in values], Schema.parse("g string, v double, n bigint"))
        order = [Order("v", descending, nulls_last), Order("n", nulls_last=True)]
        found = engine.ranks(frame, order, within=["g"], into={"rank": "min"}).sort("rank").collect(backend="polars")
        some: list[list[tuple[float | None, int | None]]] = [
            [(0.0, 1), (-0.0, 2)],
            [(2.5, 3), (2.5, None)],
            [(nan, 1), (nan, 2)],
        ]
        nulls = [(None, 1), (None, 2)]
        ordered = [pair for pairs in (some[::-1] if descending else some) for pair in pairs]
        wanted = [*ordered, *nulls] if nulls_last else [*nulls, *ordered]
        assert str(found.select("v", "n").rows()) == str(wanted)
        assert found["rank"].to_list() == list(range(1, 9))

    def test_the_highest_row_of_each_group(self, engine: FrameEngine) -> None:
        rows = [("a", 2, "x"), ("a", 2, "y"), ("a", 1, "z"), ("b", 1, "x"), ("b", 1, "x")]
        found = engine.highest(self.frame(rows, ORDERED), "g", ["at", "of"])
        assert sorted(found.collect(backend="polars").rows()) == [("a", 2, "y"), ("b", 1, "x")]
        assert found.collect_schema().names() == ["g", "at", "of"]
