"""Rows are found by key as a group-by of all rows finds them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.polars.key_index import Fold, KeyIndex

if TYPE_CHECKING:
    import pytest

KEY = ("page", "day", "visitor")
FOLDS = {"times": Fold.SUM, "most": Fold.MAX}
SCHEMA = {"page": pl.String, "day": pl.Int64, "visitor": pl.String, "times": pl.Int64, "most": pl.Int64}
KEYS = st.tuples(st.sampled_from("ab"), st.integers(1, 2), st.text("xyzé", max_size=2))
ROWS = st.lists(st.tuples(KEYS, st.integers(-3, 3), st.integers(0, 3)), max_size=12)


def frame(rows: list[tuple[tuple[str, int, str], int, int]]) -> pl.DataFrame:
    return pl.DataFrame([(*key, *amounts) for key, *amounts in rows], SCHEMA, orient="row")


@given(st.lists(ROWS, max_size=6), st.lists(KEYS, max_size=12))
def test_what_is_found_is_the_fold_of_all_rows(parts: list[list], asked: list[tuple[str, int, str]]) -> None:
    index = KeyIndex.of(frame([]), KEY, FOLDS)
    for part in parts:
        index.add(frame(part))
    keys = pl.DataFrame(asked, {name: SCHEMA[name] for name in KEY}, orient="row")
    everything = frame([row for part in parts for row in part]).group_by(KEY).agg(pl.sum("times"), pl.max("most"))
    expected = everything.join(keys, on=KEY, how="semi")
    found = index.find(keys)
    assert found.schema == SCHEMA
    assert sorted(found.rows()) == sorted(expected.rows())


def test_keys_of_the_same_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.DataFrame, "hash_rows", lambda rows: pl.repeat(7, rows.height, dtype=pl.UInt64, eager=True))
    index = KeyIndex.of(frame([(("a", 1, "x"), 1, 1), (("a", 1, "y"), 2, 2)]), KEY, FOLDS)
    assert index.find(frame([(("a", 1, "z"), 0, 0)]).select(KEY)).is_empty()
    index.add(frame([(("b", 1, "z"), 3, 3), (("a", 1, "x"), 1, 1)]))
    found = index.find(frame([((page, 1, name), 0, 0) for page in "ab" for name in "xyz"]).select(KEY))
    assert sorted(found.rows()) == [("a", 1, "x", 2, 1), ("a", 1, "y", 2, 2), ("b", 1, "z", 3, 3)]


def test_an_index_that_grows() -> None:
    index = KeyIndex.of(frame([]), KEY, FOLDS)
    rows = [(("a", number % 7, str(number)), number, 1) for number in range(5000)]
    for start in range(0, len(rows), 400):
        index.add(frame(rows[start : start + 400]))
    assert sorted(index.find(frame(rows).select(KEY)).rows()) == sorted((*key, *amounts) for key, *amounts in rows)


def test_the_last_value_counts() -> None:
    times = [datetime(2024, 1, day) for day in range(1, 5)]
    schema = {"page": pl.String, "visitor": pl.Int64, "at": pl.Datetime("us")}

    def rows(*them: tuple[str, int, datetime | None]) -> pl.DataFrame:
        return pl.DataFrame(them, schema, orient="row")

    index = KeyIndex.of(rows(("a", 1, times[3]), ("a", 2, times[0])), ("page", "visitor"), {"at": Fold.LAST})
    index.add(rows(("a", 1, times[1]), ("b", 1, times[0]), ("b", 1, times[2]), ("b", 1, times[1])))
    index.add(rows(("a", 2, None)))
    keys = rows(("b", 1, None), ("a", 3, None), ("a", 2, None), ("a", 1, None), ("c", 1, None))
    assert index.attach(keys.drop("at"))["at"].to_list() == [times[1], None, None, times[1], None]
    assert sorted(index.find(keys.drop("at")).rows()) == [("a", 1, times[1]), ("a", 2, None), ("b", 1, times[1])]
