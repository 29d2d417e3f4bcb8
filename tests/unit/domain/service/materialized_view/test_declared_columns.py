"""The declared types of a view's columns: which hold all values of the query's types."""

from __future__ import annotations

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
    with pytest.raises(ConfigError, match=r"column 'x' is declared as .*: declare .*, or cast it in the query"):
        check_declared(Schema.parse(f"x {declared}"), no_rows(Schema.parse(f"x {found}")))
