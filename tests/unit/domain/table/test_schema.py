"""Nested column types: how they are written, and what is refused."""

from __future__ import annotations

import narwhals as nw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.domain.errors import ConfigError
from headwater.domain.table.schema import Column, DataType, Schema
from headwater.domain.table.spec import TableSpec

FLAT = [
    "bigint",
    "tinyint",
    "string",
    "decimal(18,2)",
    "timestamp",
    "timestamp_ntz",
    "date",
    "binary",
    "double",
    "boolean",
]
NAMES = st.sampled_from(["a", "City", "select", "_x", "n2"])


def structs(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.dictionaries(NAMES, types, min_size=1)
    return fields.map(lambda found: DataType.struct(Column(name, kind) for name, kind in found.items()))


TYPES = st.recursive(
    st.sampled_from(FLAT).map(DataType.parse), lambda inside: inside.map(DataType.array) | structs(inside), max_leaves=6
)


@given(TYPES)
def test_a_type_is_read_back_from_its_text_and_from_frames(kind: DataType) -> None:
    assert DataType.parse(kind.ddl) == kind
    assert DataType.parse(kind.ddl.replace("<", " < ").replace(">", " > ").replace(",", " , ")) == kind
    assert DataType.of(kind.narwhals) == kind
    assert hash(DataType.of(kind.narwhals)) == hash(kind)


@pytest.mark.parametrize(
    ("ddl", "canonical"),
    [
        ("ARRAY<STRING>", "array<string>"),
        ("array< array<long> >", "array<array<bigint>>"),
        ("struct<a int, `b`: varchar(20) not null>", "struct<a:int,b:string>"),
        ("char(3) NOT NULL", "string"),
        ("struct<order:int,date:date,end:decimal(9, 2)>", "struct<order:int,date:date,end:decimal(9,2)>"),
        ("array<\n  struct<sku: string,\n n: integer>>", "array<struct<sku:string,n:int>>"),
    ],
)
def test_types_may_be_written_as_in_spark(ddl: str, canonical: str) -> None:
    schema = Schema.parse(f"id bigint, x {ddl}, last date")
    assert schema.names == ("id", "x", "last")
    assert schema["x"].ddl == canonical


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("map<date,int>", "keys of a map are strings or integers, not date; declare a string"),
        ("array<map<array<int>,int>>", "keys of a map are strings or integers, not array<int>"),
        ("map<string>", "cannot read type 'map<string>'; write 'map<key type,value type>'"),
        ("map<string,int,int>", "cannot read type"),
        ("array<>", "unknown column type ''"),
        ("array", "unknown column type 'array'; known: .*array<type>"),
        ("array<int", "unknown column type 'array<int'"),
        ("struct<>", "cannot read column ''"),
        ("struct<a>", "cannot read column 'a' of type 'struct<a>'; write 'name:type, name:type'"),
        ("struct<a:int,A:int>", "'A' occurs twice"),
        ("struct<`a b`:int>", "field 'a b' of a struct.*rename it"),
        ("struct<a:money>", "unknown column type 'money'"),
    ],
)
def test_types_that_are_refused(ddl: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        DataType.parse(ddl)


def test_a_map_is_the_array_of_its_entries() -> None:
    kind = DataType.parse("MAP< string, array<map<long,decimal(9,2)>> >")
    assert kind.ddl == "array<struct<key:string,value:array<array<struct<key:bigint,value:decimal(9,2)>>>>>"
    assert kind.declared == "map<string,array<map<bigint,decimal(9,2)>>>"
    assert (
        DataType.parse(f"struct<a:array<int>,m:{kind.declared}>").declared == f"struct<a:array<int>,m:{kind.declared}>"
    )
    stored = DataType.parse(kind.ddl)
    assert (stored, hash(stored), stored.declared) == (kind, hash(kind), kind.ddl)


def test_a_frame_with_a_type_that_no_table_has_names_its_column() -> None:
    with pytest.raises(ConfigError, match="no table has columns of type"):
        DataType.of(nw.List(nw.Struct({"a": nw.Categorical()})))


def test_the_types_inside_have_places() -> None:
    kind = DataType.parse("array<struct<a:int,b:array<date>>>")
    assert [(place, each.ddl) for place, each in kind.leaves("x")] == [("x[].a", "int"), ("x[].b[]", "date")]


def test_no_table_has_a_nested_key() -> None:
    schema = Schema.parse("id bigint, tags array<string>")
    with pytest.raises(ConfigError, match=r"table p\.t: key column 'tags' is a array<string>, and nested values"):
        TableSpec("p.t", schema, ("id", "tags"))
    assert TableSpec("p.t", schema, ("id",)).schema == schema


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("text", "string"),
        ("datetime", "timestamp"),
        ("Int64", "bigint"),
        ("float64", "double"),
        ("tiemstamp", "timestamp"),
    ],
)
def test_a_type_of_another_system_has_its_name_here(word: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        Schema.parse(f"a {word}")
