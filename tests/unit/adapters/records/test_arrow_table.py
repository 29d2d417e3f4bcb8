"""Frames that programs hand over, as Arrow tables: no value is changed without a word."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from headwater.adapters.records.arrow_table import arrow_table
from headwater.adapters.records.column_types import check_columns
from headwater.adapters.records.program_frames import hold
from headwater.domain.errors import BadInput
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

pd = pytest.importorskip("pandas", reason="the extra dev is not installed")
WALL = datetime(2024, 3, 1, 9)
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)
EAST = NOON.astimezone(timezone(timedelta(hours=8)))
FINE = pd.Timestamp("2024-03-01 09:00:00.123456789Z")
DAY = date(2024, 3, 1)


def converted(values: list[Any], declared: str) -> list[Any]:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    found: list[Any] = arrow_table(frame, Schema.parse(f"x {declared}"))["x"].to_pylist()
    return found


@pytest.mark.parametrize("declared", ["timestamp", "timestamp_ntz", "date"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([WALL, NOON], "column 'x' has a time without a zone in row 0 and a time with a zone in row 1"),
        ([None, NOON, pd.NaT, WALL], "column 'x' has a time with a zone in row 1 and a time without a zone in row 3"),
        ([DAY, WALL], "column 'x' has a date in row 0 and a time without a zone in row 1"),
        ([NOON, DAY], "column 'x' has a time with a zone in row 0 and a date in row 1"),
        ([NOON, FINE], "column 'x' has times finer than a microsecond: 2024.* in row 1 .*; round them first"),
    ],
)
def test_values_that_arrow_would_change_are_refused(values: list[Any], declared: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        converted(values, declared)


@pytest.mark.parametrize(
    ("values", "declared", "place"),
    [
        ([[WALL], (NOON,)], "array<timestamp>", r"x\[\]"),
        ([[DAY, WALL]], "array<date>", r"x\[\]"),
        ([{"t": NOON}, {"t": FINE}], "struct<t:timestamp>", "x.t"),
        ([[{"t": WALL}, None, {"t": NOON}]], "array<struct<t:timestamp>>", r"x\[\].t"),
    ],
)
def test_they_are_refused_inside_of_nested_values(values: list[Any], declared: str, place: str) -> None:
    with pytest.raises(BadInput, match=f"column '{place}' has .* in row"):
        converted(values, declared)


def test_they_are_refused_as_categories() -> None:
    with pytest.raises(BadInput, match="a time without a zone in row 0 and a time with a zone in row 1"):
        arrow_table(pd.DataFrame({"x": pd.Categorical([WALL, NOON])}), Schema.parse("x timestamp"))


@pytest.mark.parametrize(
    ("values", "declared"),
    [
        ([NOON, None, EAST], "timestamp"),
        ([WALL, None], "timestamp"),
        ([DAY, None], "date"),
        ([{"t": NOON, "d": DAY}, {"t": None, "d": None}], "struct<t:timestamp,d:date>"),
    ],
)
def test_values_of_one_kind_are_kept(values: list[Any], declared: str) -> None:
    assert converted(values, declared) == values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", "\ud800"], r"column 'x' has '\\ud800' in row 1 .*: 'utf-8' codec"),
        ([Decimal(1), Decimal("Infinity")], "column 'x' has Infinity in row 1 "),
        ([1, 2**70], f"column 'x' has {2**70} in row 1 "),
        (["a", 5], "column 'x': .*Expected bytes"),
    ],
)
def test_a_column_that_arrow_cannot_hold_is_named(values: list[Any], message: str) -> None:
    with pytest.raises(BadInput, match=f"{message}.*; give it values of one type"):
        converted(values, "string")


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ([1, None, 3], 'give the column the type "Int64" before the push'),
        ([2**53, None], 'give the column the type "Int64" where it is read or made, as such large numbers have lost'),
    ],
)
def test_whole_numbers_that_pandas_has_made_doubles_have_their_remedy(values: list[Any], remedy: str) -> None:
    frame = pd.DataFrame({"x": values})
    with pytest.raises(BadInput, match=f"column 'x' is double, which bigint cannot hold without loss; .* {remedy}"):
        arrow_table(frame, Schema.parse("x bigint"))
    assert arrow_table(frame, Schema.parse("x double"))["x"].to_pylist() == values
    assert arrow_table(frame.astype("Int64"), Schema.parse("x bigint"))["x"].to_pylist() == values


def test_whole_numbers_in_half_floats_are_told() -> None:
    frame = pd.DataFrame({"x": [1.0, None]}, dtype="float16")
    with pytest.raises(BadInput, match='give the column the type "Int64" before the push'):
        arrow_table(frame, Schema.parse("x bigint"))
    assert arrow_table(frame * 1.5, Schema.parse("x bigint")).num_rows == 2


@pytest.mark.parametrize("values", [[], [None], [float("nan")] * 2])
@pytest.mark.parametrize("dtype", [object, float])
def test_columns_of_pandas_without_a_value_fit_each_type(values: list[Any], dtype: type) -> None:
    declared = Schema.parse("x bigint, y string, z timestamp")
    frame = pd.DataFrame({name: pd.Series(values, dtype=dtype) for name in declared.names})
    table = arrow_table(frame, declared)
    check_columns(table.schema, "it", RecordSpec(declared))
    assert table.num_rows == len(values)
    assert {each.null_count for each in table.columns} == {len(values)}


def test_rows_that_can_be_read_only_once_are_refused() -> None:
    reader = pa.table({"x": [1]}).to_reader()
    with pytest.raises(BadInput, match=r"is a RecordBatchReader, .* push a table: its `.read_all\(\)`"):
        arrow_table(reader, Schema.parse("x bigint"))
    assert reader.read_all().num_rows == 1


def test_a_column_of_polars_that_arrow_does_not_know_is_named() -> None:
    with pytest.raises(BadInput, match="column 'x': Invalid or unsupported format string: '_pli128'"):
        arrow_table(pl.DataFrame({"x": pl.Series([1], dtype=pl.Int128)}), Schema.parse("x bigint"))


def test_a_lazy_frame_that_cannot_be_computed_is_refused() -> None:
    rows = pl.LazyFrame({"x": [1]}).with_columns(pl.col("nope"))
    with pytest.raises(BadInput, match=r'is lazy, and cannot be computed: unable to find column "nope".*; correct'):
        arrow_table(rows, Schema.parse("x bigint"))
    with pytest.raises(BadInput, match="is lazy, and cannot be computed"), hold(rows):
        pass


def test_decimals_of_polars_fit_if_their_values_do() -> None:
    values = [Decimal("1.50"), None, Decimal("-99999999.99")]
    frame = pl.DataFrame({"x": values})
    assert frame.schema["x"] == pl.Decimal(38, 2)
    found = arrow_table(frame, Schema.parse("x decimal(12,4)"))
    assert found["x"].to_pylist() == [value and value.quantize(Decimal("0.0001")) for value in values]
    with pytest.raises(BadInput, match=r"column 'x' has -99999999.99 in row 2 .*, which decimal\(9,2\) cannot hold"):
        arrow_table(frame, Schema.parse("x decimal(9,2)"))


def test_decimals_with_more_digits_after_the_point_stay_as_they_are() -> None:
    frame = pl.DataFrame({"x": [Decimal("1.50")]})
    assert arrow_table(frame, Schema.parse("x decimal(10,1)")).schema.field("x").type == pa.decimal128(38, 2)
