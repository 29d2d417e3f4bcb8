"""Rows of a table of sequence groups, folded by the local engine, next to a plain look at the rows of each key."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.delta.local.rows import fold_rows
from headwater.adapters.delta.stored import DELETED, MERGED, OPERATION, SEQUENCE
from headwater.adapters.polars.schema import polars_schema
from headwater.domain.table.merge import Latest
from headwater.domain.table.schema import Schema
from headwater.domain.table.spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

Row = dict[str, Any]

KEY = ("region", "id")
PRICE = Latest(by=("price_at", "price_day"), columns=("price",))
STOCK = Latest(by=("stock_at",), columns=("stock", "places"))
SPEC = TableSpec(
    "wide",
    Schema.parse(
        "region string, id bigint, price_at bigint, price_day date, price string, stock_at bigint, stock double,"
        " places array<bigint>"
    ),
    key=KEY,
    groups=(PRICE, STOCK),
)
STORED = pl.Schema({**polars_schema(SPEC.schema), SEQUENCE: pl.Int64(), OPERATION: pl.Int8()})

few = st.none() | st.integers(0, 2)
drawn_row = st.fixed_dictionaries(
    {
        "region": st.sampled_from("ab"),
        "id": st.integers(0, 2),
        "price_at": few,
        "price_day": st.none() | st.just(date(2024, 1, 1)) | st.just(date(2024, 1, 2)),
        "price": st.none() | st.sampled_from("xyz"),
        "stock_at": few,
        "stock": st.none() | st.sampled_from([0.5, 1.5]),
        "places": st.none() | st.lists(few, max_size=2),
        OPERATION: st.sampled_from([MERGED, MERGED, MERGED, DELETED]),
    }
)


def newest(rows: list[Row], group: Latest) -> Row:
    """The columns of a group, of rows in their order of arrival."""
    names, found, highest = (*group.by, *group.columns), None, ()
    for row in rows:
        order = tuple((row[name] is not None, row[name]) for name in group.by)
        if any(given for given, _ in order) and not (found and is_lower(order, highest)):
            found, highest = row, order
    return {name: found[name] if found else None for name in names}


def is_lower(order: Sequence[tuple[bool, Any]], than: Sequence[tuple[bool, Any]]) -> bool:
    different = [(mine, other) for mine, other in zip(order, than, strict=True) if mine != other]
    return bool(different) and (not different[0][0][0] or (different[0][1][0] and different[0][0] < different[0][1]))


def folded(rows: list[Row]) -> Row | None:
    """What is left of the rows of a key."""
    deleted = [at for at, row in enumerate(rows) if row[OPERATION] == DELETED]
    left = rows[deleted[-1] + 1 :] if deleted else rows
    if not left:
        return None
    key = {name: left[0][name] for name in (*KEY, "code")}
    return key | newest(left, PRICE) | newest(left, STOCK) | {SEQUENCE: left[-1][SEQUENCE]}


@pytest.mark.parametrize("key", [KEY, ("code",)])
@given(st.lists(drawn_row), st.randoms(use_true_random=False))
def test_each_group_is_of_its_newest_row(key: tuple[str, ...], drawn: list[Row], random: Random) -> None:
    rows = [row | {SEQUENCE: at, "code": "ab".index(row["region"]) * 3 + row["id"]} for at, row in enumerate(drawn)]
    of_keys = [[row for row in rows if row["code"] == code] for code in range(6)]
    random.shuffle(rows)
    found = fold_rows(pl.LazyFrame(rows, {**STORED, "code": pl.Int64}), SPEC, key).collect()
    expected = [left for each in of_keys if each and (left := folded(each))]
    by_key = found.with_columns(
        code=pl.col("region").replace_strict({"a": 0, "b": 3}, return_dtype=pl.Int64) + pl.col("id")
    ).sort("code")
    assert by_key.select(*SPEC.schema.names, SEQUENCE, "code").to_dicts() == [
        {name: row[name] for name in (*SPEC.schema.names, SEQUENCE, "code")} for row in expected
    ]
