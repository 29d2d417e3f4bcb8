"""Rows as JSON values."""

from __future__ import annotations

import narwhals as nw
import polars as pl
import pytest

from headwater.adapters.polars.engine import PolarsEngine
from headwater.adapters.records.json_rows import json_rows
from headwater.domain.table.schema import Schema

pytestmark = pytest.mark.local


def test_negative_zero_is_zero_also_inside() -> None:
    """Equal values must be one text: it is the key of a record, and a reader finds a row again by it."""
    schema = Schema.parse("d double, f float, l array<double>, s struct<a:float, b:array<struct<c:double>>>, n double")
    types = [pl.Float64, pl.Float32, pl.List(pl.Float64)]
    types += [pl.Struct({"a": pl.Float32, "b": pl.List(pl.Struct({"c": pl.Float64}))}), pl.Float64]
    rows = [
        (-0.0, -0.0, [-0.0, -1.5, None], {"a": -0.0, "b": [{"c": -0.0}]}, None),
        (-1.5, 0.5, [], None, float("-inf")),
    ]
    frame = pl.DataFrame(rows, dict(zip(schema.names, types, strict=True)), orient="row")
    found = list(map(str, json_rows(nw.from_native(frame.lazy()), schema, PolarsEngine())))
    assert found == [
        "[0.0, 0.0, [0.0, -1.5, None], {'a': 0.0, 'b': [{'c': 0.0}]}, None]",
        "[-1.5, 0.5, [], None, '-Infinity']",
    ]
