"""The reference fold, one rule at a time."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import polars as pl
import pytest

from headwater.domain.table.merge import ColumnRule, KeepFirst, LastNonNull, Latest, Max, Min, Replace, Sum, fold


def frame(rows: list[tuple[Any, ...]], columns: list[str]) -> nw.LazyFrame[Any]:
    """Rows of integers, numbered as they arrive in `nr`."""
    numbered = [(*row, at) for at, row in enumerate(rows)]
    return nw.from_native(
        pl.DataFrame(numbered, schema=[*columns, "nr"], orient="row", infer_schema_length=None).lazy()
    )


def folded(rows: nw.LazyFrame[Any], **how: Any) -> list[tuple[Any, ...]]:
    return sorted(fold(rows, arrival="nr", **how).collect(backend="polars").rows())


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        (Replace(), [1, 2], 2),
        (Replace(), [1, None], None),
        (KeepFirst(), [1, 2], 1),
        (KeepFirst(), [None, 2], None),
        (Sum(), [1, None, 2], 3),
        (Sum(), [1, -1], 0),
        (Sum(), [None, None], None),
        (Min(), [2, None, 1, 3], 1),
        (Min(), [None], None),
        (Max(), [2, None, 3, 1], 3),
        (LastNonNull(), [1, 2, None], 2),
        (LastNonNull(), [None, None], None),
    ],
    ids=repr,
)
def test_a_rule_folds_the_rows_of_a_key(rule: ColumnRule, values: list[int | None], expected: int | None) -> None:
    rows = frame([(1, value, 0) for value in values], ["id", "n", "other"])
    rows = rows.with_columns(nw.col("n").cast(nw.Int64))
    assert folded(rows, key=["id"], rules={"n": rule, "other": Max()}) == [(1, expected, 0, len(values) - 1)]


def test_arrival_decides_not_the_order_of_the_rows() -> None:
    rows = frame([(1, 10), (1, 20), (2, 30)], ["id", "n"]).sort("nr", descending=True)
    assert folded(rows, key=["id"], rules={"n": Replace()}) == [(1, 20, 1), (2, 30, 2)]
    assert folded(rows, key=["id"], rules={"n": KeepFirst()}) == [(1, 10, 1), (2, 30, 2)]


def test_columns_come_as_key_rules_groups_arrival() -> None:
    rows = frame([(1, 2, 3, 4, 5)], ["x", "seq", "total", "k2", "k1"])
    found = fold(rows, key=["k1", "k2"], rules={"total": Sum()}, groups=[Latest(["seq"], ["x"])], arrival="nr")
    assert found.collect_schema().names() == ["k1", "k2", "total", "seq", "x", "nr"]


def test_keys_are_compared_whole() -> None:
    rows = frame([(1, 1, 10), (1, 2, 20), (1, 1, 30)], ["a", "b", "n"])
    assert folded(rows, key=["a", "b"], rules={"n": Sum()}) == [(1, 1, 40, 2), (1, 2, 20, 1)]


@pytest.mark.parametrize(
    ("rows", "winner"),
    [
        ([(1, 1, 10), (1, 2, 20)], (1, 2, 20)),
        ([(2, 0, 10), (1, 9, 20)], (2, 0, 10)),
        ([(1, 1, 10), (1, 1, None)], (1, 1, None)),
        ([(1, None, 10), (1, 0, 20)], (1, 0, 20)),
        ([(None, 9, 10), (0, None, 20)], (0, None, 20)),
        ([(0, 0, 10), (None, None, 20)], (0, 0, 10)),
        ([(None, None, 10)], (None, None, None)),
        ([(None, 0, 10), (None, None, 20)], (None, 0, 10)),
    ],
    ids=str,
)
def test_a_group_comes_whole_from_its_highest_sequence(
    rows: list[tuple[int | None, ...]], winner: tuple[int | None, ...]
) -> None:
    typed = frame([(1, *row) for row in rows], ["id", "a", "b", "x"]).with_columns(nw.col("a", "b", "x").cast(nw.Int64))
    found = folded(typed, key=["id"], rules={}, groups=[Latest(["a", "b"], ["x"])])
    assert found == [(1, *winner, len(rows) - 1)]
