"""Texts that are compared by the number at their end: the same in a frame and one by one."""

from __future__ import annotations

import narwhals as nw
import polars as pl
import pytest

from headwater.domain.table.natural_order import natural, natural_value

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("mysql-bin.999999", "mysql-bin.1000000"),
        ("mysql8-bin.999999", "mysql8-bin.1000000"),
        ("db-10-bin.9", "db-10-bin.10"),
        (f"{SERVER}:9", f"{SERVER}:10"),
        ("9", "10"),
        ("binlog.000009:99", "binlog.000009:150"),
        ("mysql8-bin.999999:7", "mysql8-bin.1000000:4"),
        ("v1-9", "v1-10"),
        ("db1/9", "db1/10"),
        ("host1_bin_9", "host1_bin_10"),
        ("host1-bin-9:99", "host1-bin-10:7"),
        ("2024-03-01T09:00:00", "2024-03-01T09:00:00.5"),
        ("2024-03-01T09:00", "2024-03-01T09:00:01"),
        ("2024-03-01T23", "2024-03-02"),
        ("09:30", "09:30:15"),
        ("T09:30:15", "T09:30:15.5"),
        ("2024-03-01T09:00:00.25", "2024-03-01T09:00:00.5"),
        ("2024-03-01", "2024-03-02"),
        ("12.25", "12.5"),
        ("v1.10", "v1.9"),
        ("", "a"),
    ],
)
def test_the_higher_comes_behind_the_lower(lower: str, higher: str) -> None:
    assert natural_value(lower) < natural_value(higher)
    frame = nw.from_native(pl.LazyFrame({"text": [higher, lower, None]})).with_columns(
        natural(nw.col("text")).alias("by")
    )
    assert frame.collect().get_column("by").to_list() == [natural_value(higher), natural_value(lower), None]
