"""Nested values: the decoder, Arrow rows with types, and JSON that is written and read back."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.polars.engine import PolarsEngine
from headwater.adapters.polars.schema import lazy, polars_schema
from headwater.adapters.records.column_types import check_columns
from headwater.adapters.records.decoder import Record, RecordDecoder
from headwater.adapters.records.json_rows import cell_frames, json_rows
from headwater.adapters.records.text_lines import csv_lines, json_lines
from headwater.adapters.records.typed_rows import decode_rows
from headwater.domain.errors import BadInput
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

ORDERS = Schema.parse(
    "id bigint, tags array<string>, place struct<City:string,at:timestamp,`order`:int>,"
    " lines array<struct<n:bigint,price:decimal(9,2),raw:binary,day:date,wall:timestamp_ntz,w:double,l:array<int>>>"
)
MOMENT = datetime(2024, 3, 1, 8, tzinfo=UTC)
_TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
_LINES = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "price": st.none() | st.decimals(-9999, 9999, places=2),
        "raw": st.none() | st.binary(max_size=3),
        "day": st.none() | st.dates(),
        "wall": st.none() | _TIMES,
        "w": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "l": st.none() | st.lists(st.none() | st.integers(0, 9), max_size=2),
    }
)
_PLACES = st.fixed_dictionaries(
    {
        "City": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
        "at": st.none() | _TIMES.map(lambda at: at.replace(tzinfo=UTC)),
        "order": st.none() | st.integers(0, 9),
    }
)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.none() | st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=3),
        st.none() | _PLACES,
        st.none() | st.lists(st.none() | _LINES, max_size=3),
    ),
    max_size=5,
)


def decoded(text: str, schema: Schema = ORDERS, **more: Any) -> dict[str, Any]:
    (row,) = RecordDecoder(RecordSpec(schema, **more)).batch([Record(text.encode(), 0, "here")]).to_pylist()
    return row


def frame(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, polars_schema(ORDERS), orient="row")


@given(ROWS)
def test_what_is_written_as_json_is_read_back(rows: list[tuple[Any, ...]]) -> None:
    cells = cell_frames(lazy(frame(rows)), ORDERS, PolarsEngine())
    lines = "".join(json_lines(ORDERS.names, cells)).splitlines(keepends=True)
    text = "".join(lines).split("}\n{")  # other separators of lines may be inside texts
    whole = [("{" if at else "") + each + ("}" if at < len(text) - 1 else "") for at, each in enumerate(text)]
    records = [Record(line.encode(), 10_000 * at, "here") for at, line in enumerate(whole if rows else [])]
    batch = RecordDecoder(RecordSpec(ORDERS)).batch(records)
    assert batch.column("_error").to_pylist() == [None] * len(rows)
    assert [tuple(row[name] for name in ORDERS.names) for row in batch.to_pylist()] == rows


def test_each_form_of_output_has_nested_values() -> None:
    rows = [
        (1, ["a", None, '"'], {"City": "x", "at": MOMENT, "order": None}, [{"n": 1, "price": Decimal("2.50")}, None]),
        (2, None, None, None),
        (3, [], dict.fromkeys(("City", "at", "order")), [{"w": float("inf")}]),
    ]
    shown, engine = frame(rows), PolarsEngine()
    first, second, third = json_rows(lazy(shown), ORDERS, engine)
    assert first[1:3] == [["a", None, '"'], {"City": "x", "at": "2024-03-01T08:00:00Z", "order": None}]
    assert second == [2, None, None, None]
    assert (third[1], third[2]) == ([], {"City": None, "at": None, "order": None})
    assert third[3][0]["w"] == "Infinity"  # type: ignore[index,call-overload]
    lines = "".join(json_lines(ORDERS.names, cell_frames(lazy(shown), ORDERS, engine))).splitlines()
    assert [list(json.loads(line).values()) for line in lines] == [first, second, third]
    header, *texts = "".join(csv_lines(ORDERS.names, cell_frames(lazy(shown), ORDERS, engine))).splitlines()
    assert header == "id,tags,place,lines"
    assert texts[1] == "2,,,"
    assert texts[0].startswith('1,"[""a"", null, ""\\""""]","{""City"": ""x"", ')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"tags": "a"}', "column 'tags': array<string> wanted, not 'a'"),
        ('{"tags": {"0": "a"}}', "column 'tags': array<string> wanted, not {'0': 'a'}"),
        ('{"place": []}', "column 'place': struct<City:string,at:timestamp,order:int> wanted, not []"),
        ('{"place": "{}"}', "column 'place': struct<City:string,at:timestamp,order:int> wanted, not '{}'"),
        ('{"place": {"order": 1.5}}', "column 'place.order': int wanted, not 1.5 (not a whole number)"),
        ('{"lines": [null, {"l": [1, "2"]}]}', "column 'lines[1].l[1]': int wanted, not '2'"),
        ('{"lines": [{}, 5]}', "wanted, not 5"),
        (
            '{"lines": [{"price": 1.555}]}',
            "column 'lines[0].price': decimal(9,2) wanted, not 1.555 (more than 2 decimals)",
        ),
    ],
)
def test_what_does_not_fit_is_told_by_its_place(text: str, why: str) -> None:
    error = decoded(text)["_error"]
    assert error.endswith(why)
    assert error.startswith("column '")


MAPS = Schema.parse("id bigint, attributes map<string,decimal(9,2)>, days map<int,struct<n:int,more:map<string,date>>>")


def test_an_object_is_a_map_if_it_is_declared_so() -> None:
    row = decoded('{"attributes": {"z": 1.5, "B": null, "a": 2, "": 0}, "days": {"10": {"n": 1}, "-2": null}}', MAPS)
    assert row["_error"] is None
    assert [tuple(each.values()) for each in row["attributes"]] == [
        ("", 0),
        ("B", None),
        ("a", 2),
        ("z", Decimal("1.50")),
    ]
    assert row["days"] == [{"key": -2, "value": None}, {"key": 10, "value": {"n": 1, "more": None}}]
    assert decoded('{"attributes": {}, "days": null}', MAPS)["attributes"] == []
    shown = decoded('{"days": [{"value": {"more": {"x": "2024-01-02"}}, "key": 3}, {"key": 1, "value": null}]}', MAPS)
    inside = {"n": None, "more": [{"key": "x", "value": date(2024, 1, 2)}]}
    assert shown["days"] == [{"key": 1, "value": None}, {"key": 3, "value": inside}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"attributes": 1}', "column 'attributes': map<string,decimal(9,2)> wanted, not 1"),
        ('{"attributes": [["a", 1]]}', "column 'attributes': map<string,decimal(9,2)> wanted, not [['a', 1]]"),
        ('{"attributes": {"a": 1, "b": 1.555}}', "column 'attributes[b]': decimal(9,2) wanted, not 1.555 (more"),
        ('{"attributes": [{"key": null, "value": 1}]}', "column 'attributes.key': string wanted, not null"),
        ('{"days": {"1": null, "01": null}}', "wanted, not {'1': None, '01': None} (two keys are 1)"),
        ('{"days": {"0": null, "-0": null}}', "wanted, not {'0': None, '-0': None} (two keys are 0)"),
        ('{"attributes": [{"key": "", "value": 1}, {"key": "", "value": 2}]}', "(two keys are )"),
        ('{"days": {"1.0": null}}', "column 'days.key': int wanted, not '1.0'"),
        ('{"days": {"3000000000": null}}', "column 'days.key': int wanted, not 3000000000 (out of range)"),
        ('{"days": {"7": {"n": "x"}}}', "column 'days[7].n': int wanted, not 'x'"),
        ('{"days": {"7": {"more": {"x": 1}}}}', "column 'days[7].more[x]': date wanted, not 1"),
    ],
)
def test_what_does_not_fit_a_map_is_told_by_its_place(text: str, why: str) -> None:
    assert why in decoded(text, MAPS)["_error"]


def maps(*rows: Any, kind: pa.DataType | None = None) -> pa.RecordBatch:
    inside = pa.struct([("n", pa.int8()), ("more", pa.map_(pa.string(), pa.date32()))])
    columns = {
        "id": pa.array(range(len(rows))),
        "attributes": pa.array(rows, kind or pa.map_(pa.string(), pa.float32())),
        "days": pa.array(
            [[(2, {"n": 1, "more": [("x", date(2024, 1, 2))]}), (1, None)]] * len(rows), pa.map_(pa.int8(), inside)
        ),
    }
    return pa.record_batch(list(columns.values()), list(columns))


def test_arrow_maps_become_entries_in_the_order_of_their_keys() -> None:
    schema = Schema.parse("attributes map<string,double>, days map<int,struct<n:int,more:map<string,date>>>")
    spec = RecordSpec(schema, "parquet")
    rows = maps([("b", 1), ("a", None)], None, [], [("z", 1), ("a", 3), ("z", 2)])
    check_columns(rows.schema, "it", spec)
    found = decode_rows(rows, spec, 0, what="it", origin="it").batch.to_pylist()
    assert found[0]["attributes"] == [{"key": "a", "value": None}, {"key": "b", "value": 1.0}]
    assert [row["attributes"] for row in found[1:3]] == [None, []]
    assert found[3]["_error"] == "column 'attributes[z]': the key is there twice"
    inside = {"n": 1, "more": [{"key": "x", "value": date(2024, 1, 2)}]}
    assert found[0]["days"] == [{"key": 1, "value": None}, {"key": 2, "value": inside}]
    again = decoded(found[0]["_raw"], schema)
    assert (again["attributes"], again["days"]) == (found[0]["attributes"], found[0]["days"])


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (
            pa.map_(pa.int32(), pa.float32()),
            r"column 'attributes\.key' is int, which string cannot.*allowed: string; or declare it as int in `schema`",
        ),
        (pa.map_(pa.string(), pa.string()), r"column 'attributes\.value' is string, which double cannot"),
        (
            pa.list_(pa.string()),
            "column 'attributes' is array<string>, which map<string,double> cannot hold.*allowed: maps",
        ),
    ],
)
def test_arrow_maps_that_do_not_fit_are_refused(kind: pa.DataType, why: str) -> None:
    there = pa.schema([("attributes", kind)])
    with pytest.raises(BadInput, match=why):
        check_columns(there, "it", RecordSpec(Schema.parse("attributes map<string,double>"), "parquet"))


def test_missing_null_and_empty_are_three_things() -> None:
    empty = decoded('{"tags": [], "place": {}, "lines": [null, {}]}')
    assert (empty["tags"], empty["place"]) == ([], {"City": None, "at": None, "order": None})
    assert empty["lines"] == [None, dict.fromkeys(("n", "price", "raw", "day", "wall", "w", "l"))]
    for text in ("{}", '{"tags": null, "place": null, "lines": null}'):
        assert [decoded(text)[name] for name in ("tags", "place", "lines")] == [None, None, None]


def test_fields_are_found_by_name_and_others_left_out() -> None:
    row = decoded('{"place": {"order": 1, "extra": {"a": [1]}, "city": "no", "City": "yes"}, "tags": [1.10, [true]]}')
    assert row["place"] == {"City": "yes", "at": None, "order": 1}
    assert row["tags"] == ["1.10", "[true]"]


def test_times_inside_have_the_zone_of_the_source() -> None:
    row = decoded('{"place": {"at": "2024-03-01 09:00:00"}}', time_zone="Europe/Berlin")
    assert row["place"]["at"] == MOMENT


LINES = pa.large_list(
    pa.struct([("extra", pa.int8()), ("l", pa.list_(pa.uint8(), 2)), ("day", pa.date32()), ("n", pa.int32())])
)
TYPED = Schema.parse(
    "id bigint, place struct<at:timestamp,City:string>, lines array<struct<n:bigint,day:date,l:array<int>>>"
)
PLACE = pa.struct([("City", pa.dictionary(pa.int32(), pa.string())), ("at", pa.timestamp("ns"))])


def batch(*rows: tuple[Any, Any], place: pa.DataType = PLACE) -> pa.RecordBatch:
    places, lines = ([row[at] for row in rows] for at in (0, 1))
    columns = {"id": pa.array(range(len(rows))), "place": pa.array(places, place), "lines": pa.array(lines, LINES)}
    return pa.record_batch(list(columns.values()), list(columns))


@pytest.mark.parametrize("first", [0, 1, 2])
def test_arrow_values_are_widened_at_every_depth(first: int) -> None:
    spec, wall = RecordSpec(TYPED, "parquet", time_zone="Europe/Berlin"), datetime(2024, 3, 1, 9)
    lines = [{"extra": 1, "l": [1, 2], "day": date(2024, 1, 2), "n": 7}, None, {"l": None, "n": None}]
    rows = batch(
        ({"City": "x", "at": wall}, lines), (None, None), ({}, []), ({"City": "y"}, [{"l": [3, None], "n": 1}])
    )
    check_columns(rows.schema, "it", spec)
    found = decode_rows(rows.slice(first), spec, 0, what="it", origin="it").batch.to_pylist()
    empty = {"n": None, "day": None, "l": None}
    expected = [
        (
            {"at": MOMENT, "City": "x"},
            [{"n": 7, "day": date(2024, 1, 2), "l": [1, 2]}, None, empty],
        ),
        (None, None),
        ({"at": None, "City": None}, []),
        ({"at": None, "City": "y"}, [{"n": 1, "day": None, "l": [3, None]}]),
    ]
    assert [(row["place"], row["lines"]) for row in found] == expected[first:]
    assert {row["_error"] for row in found} == {None}
    assert json.loads(found[-1]["_raw"])["lines"] == [{"n": 1, "day": None, "l": [3, None]}]


def test_an_arrow_time_out_of_range_inside_makes_a_dead_letter() -> None:
    spec, place = RecordSpec(TYPED, "parquet"), pa.struct([("City", pa.string()), ("at", pa.timestamp("s"))])
    rows = batch(
        ({"at": 10**12, "City": "x"}, []), ({"at": 0}, [None, {"day": 5_000_000}]), ({"at": 1}, None), place=place
    )
    late, day, good = decode_rows(rows, spec, 0, what="it", origin="it").batch.to_pylist()
    assert late["_error"].startswith(
        "column 'place.at': timestamp wanted, not '<value out of range: 1000000000000>' (out of range: 0001"
    )
    assert day["_error"].startswith("column 'lines[1].day': date wanted, not '15659-07-15' (out of range")
    assert (late["place"], day["lines"]) == (None, None)
    assert json.loads(late["_raw"])["place"] == {"City": "x", "at": "<value out of range: 1000000000000>"}
    assert good["_error"] is None


def test_an_arrow_time_finer_than_a_microsecond_is_refused() -> None:
    rows = batch(({"at": 1}, None))
    with pytest.raises(BadInput, match="it: column 'place' has times finer than a microsecond"):
        decode_rows(rows, RecordSpec(TYPED, "parquet"), 0, what="it", origin="it")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (pa.struct([("City", pa.string())]), r"column 'place\.at' is missing; its struct has: City"),
        (
            pa.struct([("City", pa.int8()), ("at", pa.timestamp("us"))]),
            r"column 'place\.City' is tinyint, which string cannot",
        ),
        (pa.string(), "column 'place' is string, which struct<at:timestamp,City:string> cannot hold.*allowed: structs"),
        (pa.list_(pa.string()), "column 'place' is array<string>, which"),
    ],
)
def test_arrow_types_that_do_not_fit_are_refused(place: pa.DataType, why: str) -> None:
    there = pa.schema([("id", pa.int64()), ("place", place), ("lines", LINES)])
    with pytest.raises(BadInput, match=why):
        check_columns(there, "it", RecordSpec(TYPED, "parquet"))
