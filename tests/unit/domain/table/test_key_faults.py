"""What is wrong with a key."""

from __future__ import annotations

from datetime import date

import narwhals as nw
import polars as pl

from headwater.domain.table.key_faults import KeyFaults, key_faults

DAY = date(2024, 3, 1)


def faults(rows: list[tuple[str | None, date]]) -> KeyFaults:
    return key_faults(nw.from_native(pl.LazyFrame(rows, {"p": pl.String, "day": pl.Date}, orient="row")), ["p", "day"])


def test_a_key_of_one_row_each_has_no_fault() -> None:
    assert faults([("a", DAY), ("b", DAY)]) == faults([]) == KeyFaults(nulls=False, shared="")


def test_the_first_key_of_several_rows_is_shown_with_their_number() -> None:
    assert faults([("c", DAY), ("b", DAY), ("c", DAY), ("b", DAY), ("b", DAY)]).shared == (
        "p = 'b', day = 2024-03-01 in 3 rows"
    )


def test_nulls_are_told() -> None:
    assert faults([(None, DAY), ("b", DAY)]) == KeyFaults(nulls=True, shared="")
