"""The declared types of a view's columns: which hold all values of the query's types."""

from __future__ import annotations

import narwhals as nw
import polars as pl
import pytest

from headwater.app.services.shapes import no_rows
from headwater.domain.errors import ConfigError
from headwater.domain.service.materialized_view import check_declared
from headwater.domain.table.schema import Schema


@pytest.mark.parametrize(
    ("found", "declared"),
    [
        ("string", "varchar(3)"),
        ("tinyint", "smallint"),
        ("int", "bigint"),
        ("int", "decimal(10,0)"),
        ("bigint", "decimal(19,0)"),
        ("decimal(9,2)", "decimal(11,4)"),
        ("smallint", "float"),
        ("int", "double"),
        ("float", "double"),
        ("date", "timestamp"),
        ("date", "timestamp_ntz"),
        ("array<int>", "array<bigint>"),
        ("struct<a:int,b:string>", "struct<a:bigint,b:string>"),
    ],
)
def test_wider_types(found: str, declared: str) -> None:
    check_declared(Schema.parse(f"x {declared}"), no_rows(Schema.parse(f"X {found}")))


@pytest.mark.parametrize(
    ("found", "declared"),
    [
        ("bigint", "int"),
        ("int", "decimal(10,1)"),
        ("decimal(9,0)", "bigint"),
        ("decimal(9,2)", "decimal(9,1)"),
        ("decimal(9,2)", "decimal(9,3)"),
        ("decimal(9,2)", "double"),
        ("int", "float"),
        ("bigint", "double"),
        ("double", "float"),
        ("double", "bigint"),
        ("string", "int"),
        ("timestamp", "date"),
        ("timestamp_ntz", "timestamp"),
        ("array<bigint>", "array<int>"),
        ("array<int>", "int"),
        ("struct<a:int>", "struct<a:int,b:int>"),
        ("struct<a:int>", "struct<b:int>"),
    ],
)
def test_types_that_may_change_a_value(found: str, declared: str) -> None:
    with pytest.raises(ConfigError, match=r"column 'x' is declared as .*: write CAST\(… AS .*\) in .*, or declare "):
        check_declared(Schema.parse(f"x {declared}"), no_rows(Schema.parse(f"x {found}")))


@pytest.mark.parametrize(
    ("found", "declared"),
    [
        (pl.Null(), "struct<a:int>"),
        (pl.List(pl.Null()), "array<string>"),
        (pl.List(pl.Null()), "array<struct<a:int>>"),
        (pl.List(pl.Null()), "map<string,int>"),
        (pl.Struct({"a": pl.Null(), "b": pl.Int32()}), "struct<a:string,b:bigint>"),
        (pl.List(pl.Struct({"a": pl.List(pl.Null())})), "array<struct<a:array<date>>>"),
    ],
)
def test_values_without_a_type_may_have_any(found: pl.DataType, declared: str) -> None:
    check_declared(Schema.parse(f"x {declared}"), nw.from_native(pl.LazyFrame(schema={"x": found})))


@pytest.mark.parametrize(
    ("found", "declared", "told"),
    [
        (pl.Duration(), "bigint", r"column 'x': no table has columns of type Duration.*; write CAST\(… AS bigint\) in"),
        (pl.List(pl.Null()), "string", r"column 'x': .*; write CAST\(… AS string\) in the query"),
        (
            pl.Struct({"a": pl.Int64(), "b": pl.Null()}),
            "struct<a:int,b:int>",
            "column 'x' is declared as struct<a:int,",
        ),
    ],
)
def test_types_that_no_table_has(found: pl.DataType, declared: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        check_declared(Schema.parse(f"x {declared}"), nw.from_native(pl.LazyFrame(schema={"x": found})))
