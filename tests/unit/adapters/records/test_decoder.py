"""The decoder: what each type takes, and the reason for what it does not."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.records import csv as csv_text
from headwater.adapters.records.decoder import Record, RecordDecoder, to_json
from headwater.adapters.records.parsing import parse_json
from headwater.adapters.records.shapes.decoder import ShapeDecoder
from headwater.adapters.records.typed_rows import decode_rows
from headwater.domain.errors import ConfigError
from headwater.domain.source.changelog.settings import ChangeSpec
from headwater.domain.source.conversion import Undecodable
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.source.row_decoder import RowDecoder
from headwater.domain.table.schema import Schema

FORMS = "write YYYY-MM-DD HH:MM[:SS[.ffffff]], with a space or T, and Z or +HH:MM at the end if it has an offset"
NUMBER = "a number; write it as text, or declare the column as bigint"
TIME = "a number; set time_unit to its unit, or declare the column as bigint"
LONG = "x" * 200


def from_json(ddl: str, text: str, zone: str = "UTC") -> Any:
    decoder = RowDecoder(RecordSpec(Schema.parse(f"x {ddl}"), time_zone=zone), to_json)
    return decoder.row(parse_json(f'{{"x": {text}}}'.encode()))[1][0]


def from_csv(ddl: str, text: str | None) -> Any:
    decoder = RowDecoder(RecordSpec(Schema.parse(f"x {ddl}"), format="csv"), to_json)
    return decoder.row({"x": text})[1][0]


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("ddl", "text", "value"),
    [
        ("tinyint", "-128", -128),
        ("smallint", "32767", 32767),
        ("int", "1.0", 1),
        ("int", "2e3", 2000),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("double", "1", 1.0),
        ("double", "0.1", 0.1),
        ("float", "3.4e38", 3.4e38),
        ("float", "3.4028235E38", 3.4028235e38),
        ("float", "-3.4028235E38", -3.4028235e38),
        ("decimal(4,2)", "12.34", Decimal("12.34")),
        ("decimal(4,2)", "12.3400", Decimal("12.34")),
        ("decimal(4,2)", '"-1.5"', Decimal("-1.50")),
        ("decimal(4,2)", "1e1", Decimal("10.00")),
        ("decimal(38,0)", "99999999999999999999999999999999999999", Decimal(99999999999999999999999999999999999999)),
        ("decimal(38,20)", "0.12345678901234567890", Decimal("0.12345678901234567890")),
        ("string", '"a\\u00e9"', "aé"),
        ("string", "1.10", "1.10"),
        ("string", "true", "true"),
        ("string", '{"a": [1.50, null, "b"]}', '{"a":[1.50,null,"b"]}'),
        ("boolean", "false", False),
        ("binary", '"AP8="', b"\x00\xff"),
        ("date", '"2024-02-29"', date(2024, 2, 29)),
        ("timestamp", '"2024-02-29T12:34:56Z"', at(2024, 2, 29, 12, 34, 56)),
        ("timestamp", '"2024-02-29 12:34:56.5"', at(2024, 2, 29, 12, 34, 56, 500_000)),
        ("timestamp", '"2024-02-29T12:34:56.123456+08:00"', at(2024, 2, 29, 4, 34, 56, 123_456)),
        ("timestamp", '"2024-02-29T12:34-0130"', at(2024, 2, 29, 14, 4)),
        ("timestamp_ntz", '"2024-02-29 12:34:56"', datetime(2024, 2, 29, 12, 34, 56)),
        ("bigint", "null", None),
        ("string", "null", None),
    ],
)
def test_takes(ddl: str, text: str, value: object) -> None:
    found = from_json(ddl, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("ddl", "text", "why"),
    [
        ("tinyint", "128", "tinyint wanted, not 128 (out of range)"),
        ("smallint", "-32769", "smallint wanted, not -32769 (out of range)"),
        ("int", "2147483648", "int wanted, not 2147483648 (out of range)"),
        ("bigint", "9223372036854775808", "bigint wanted, not 9223372036854775808 (out of range)"),
        ("bigint", "1e999999999", "bigint wanted, not 1E+999999999 (out of range)"),
        ("int", "1.5", "int wanted, not 1.5 (not a whole number)"),
        ("int", "true", "int wanted, not True"),
        ("int", '"1"', "int wanted, not '1'"),
        ("int", "[1]", "int wanted, not [1]"),
        ("double", '"1"', "double wanted, not '1'"),
        ("double", "true", "double wanted, not True"),
        ("double", "1e400", "double wanted, not 1E+400 (out of range)"),
        ("float", "3.5e38", "float wanted, not 3.5E+38 (out of range)"),
        ("float", f"{2**128 - 2**103}", f"float wanted, not {2**128 - 2**103} (out of range)"),
        ("decimal(4,2)", "12.345", "decimal(4,2) wanted, not 12.345 (more than 2 decimals)"),
        ("decimal(4,2)", "100", "decimal(4,2) wanted, not 100 (more than 2 digits before the point)"),
        ("decimal(4,2)", "1e999999", "decimal(4,2) wanted, not 1E+999999 (more than 2 digits before the point)"),
        ("decimal(4,2)", "1e-999999", "decimal(4,2) wanted, not 1E-999999 (more than 2 decimals)"),
        ("decimal(4,2)", '"NaN"', "decimal(4,2) wanted, not 'NaN'"),
        ("decimal(4,2)", '" 1"', "decimal(4,2) wanted, not ' 1'"),
        ("decimal(4,2)", '"1_0"', "decimal(4,2) wanted, not '1_0'"),
        ("decimal(4,2)", "false", "decimal(4,2) wanted, not False"),
        ("boolean", "1", "boolean wanted, not 1"),
        ("boolean", '"true"', "boolean wanted, not 'true'"),
        ("binary", '"a?"', "binary wanted, not 'a?' (no base64)"),
        ("binary", "1", "binary wanted, not 1"),
        ("date", '"2024-02-30"', "date wanted, not '2024-02-30' (no such day)"),
        ("date", '"2024-02-29T00:00:00"', "date wanted, not '2024-02-29T00:00:00' (write YYYY-MM-DD)"),
        ("date", '"20240229"', "date wanted, not '20240229' (write YYYY-MM-DD)"),
        ("date", "19782", f"date wanted, not 19782 ({NUMBER})"),
        ("timestamp", '"2024-02-30T00:00:00"', "timestamp wanted, not '2024-02-30T00:00:00' (no such time)"),
        ("timestamp", '"2024-02-29T24:00:00"', "timestamp wanted, not '2024-02-29T24:00:00' (no such time)"),
        *(
            (
                "timestamp",
                f'"2024-02-29T00:00:00{offset}"',
                f"timestamp wanted, not '2024-02-29T00:00:00{offset}' ({FORMS})",
            )
            for offset in ("+01:60", "-01:99", "+0160")
        ),
        (
            "timestamp",
            '"2024-02-29T00:00:00+24:00"',
            "timestamp wanted, not '2024-02-29T00:00:00+24:00' (no such time)",
        ),
        (
            "timestamp",
            '"0001-01-01T00:00:00+01:00"',
            "not '0001-01-01T00:00:00+01:00' (out of range: 0001-01-01 to 9999-12-31 in UTC)",
        ),
        (
            "timestamp",
            '"2024-02-29T00:00:00.1234567"',
            f"timestamp wanted, not '2024-02-29T00:00:00.1234567' ({FORMS})",
        ),
        ("timestamp", '"2024-02-29"', f"timestamp wanted, not '2024-02-29' ({FORMS})"),
        ("timestamp", '"2024-02-29Tnoon"', f"timestamp wanted, not '2024-02-29Tnoon' ({FORMS})"),
        ("timestamp", '"٢٠٢٤-02-29T00:00:00"', f"timestamp wanted, not '٢٠٢٤-02-29T00:00:00' ({FORMS})"),
        (
            "timestamp",
            '"9999-12-31T23:59:59-00:01"',
            "not '9999-12-31T23:59:59-00:01' (out of range: 0001-01-01 to 9999-12-31 in UTC)",
        ),
        ("timestamp", "1709164800", f"timestamp wanted, not 1709164800 ({TIME})"),
        ("timestamp_ntz", "1709164800", f"timestamp_ntz wanted, not 1709164800 ({TIME})"),
        ("timestamp", '"1709164800"', f"timestamp wanted, not '1709164800' ({TIME})"),
        ("timestamp_ntz", '"2024-02-29T00:00:00Z"', "not '2024-02-29T00:00:00Z' (an offset is not allowed here)"),
        ("int", f'"{LONG}"', f"int wanted, not '{LONG[:59]}…"),
    ],
)
def test_refuses(ddl: str, text: str, why: str) -> None:
    with pytest.raises(Undecodable) as error:
        from_json(ddl, text)
    assert str(error.value).startswith("column 'x': ")
    assert str(error.value).endswith(why)


@pytest.mark.parametrize(
    ("ddl", "text", "value"),
    [
        ("bigint", "-9223372036854775808", -(2**63)),
        ("int", "+7", 7),
        ("double", "1.5e3", 1500.0),
        ("decimal(4,2)", ".5", Decimal("0.50")),
        ("decimal(4,2)", ".50", Decimal("0.50")),
        ("decimal(4,2)", "1.50", Decimal("1.50")),
        ("decimal(4,2)", "99.99", Decimal("99.99")),
        ("decimal(4,2)", "-1.50", Decimal("-1.50")),
        ("decimal(4,0)", "12", Decimal(12)),
        ("boolean", "True", True),
        ("string", "", ""),
        ("string", " 1 ", " 1 "),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("int", None, None),
    ],
)
def test_takes_csv_text(ddl: str, text: str | None, value: object) -> None:
    found = from_csv(ddl, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("ddl", "text", "why"),
    [
        ("int", "", "int wanted, not ''"),
        ("int", "1.5", "int wanted, not 1.5 (not a whole number)"),
        ("int", " 1", "int wanted, not ' 1'"),
        ("int", "9" * 5000, "(out of range)"),
        ("double", "nan", "double wanted, not 'nan'"),
        ("decimal(4,2)", "100.00", "decimal(4,2) wanted, not 100.00 (more than 2 digits before the point)"),
        ("decimal(9,2)", "1.2.50", "decimal(9,2) wanted, not '1.2.50'"),
        ("decimal(9,2)", "\u0661.50", "decimal(9,2) wanted, not '\u0661.50'"),
        ("boolean", "yes", "boolean wanted, not 'yes'"),
    ],
)
def test_refuses_csv_text(ddl: str, text: str, why: str) -> None:
    with pytest.raises(Undecodable) as error:
        from_csv(ddl, text)
    assert str(error.value).endswith(why)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-07-01T12:00:00", at(2024, 7, 1, 10)),
        ("2024-07-01T12:00:00Z", at(2024, 7, 1, 12)),
        ("2024-10-27T02:30:00", at(2024, 10, 27, 0, 30)),  # twice: the earlier
        ("2024-03-31T02:30:00", at(2024, 3, 31, 1, 30)),  # never: as before the gap
    ],
)
def test_times_without_an_offset_are_read_in_the_zone(text: str, moment: datetime) -> None:
    assert from_json("timestamp", f'"{text}"', "Europe/Berlin") == moment


def test_an_unknown_zone_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="unknown time_zone 'Mars/Base'"):
        RecordSpec(Schema.parse("x int"), time_zone="Mars/Base")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"[1]", "a JSON object wanted, not [1]"),
        (b"null", "a JSON object wanted, not null"),
        (b"", "not JSON: "),
        (b'{"x": 1', "not JSON: "),
        (b'{"x": 1} {"x": 2}', "not JSON: "),
        (b'{"x": NaN}', "not JSON: "),
        (b'{"x": "\xff"}', "not JSON: "),
        (b'{"x": "\\ud800"}', "not JSON: "),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"x": ' + b"9" * 10_000 + b"}", ""),
        (None, "no value"),
    ],
)
def test_what_is_no_object_keeps_its_bytes_and_a_reason(raw: bytes | None, why: str) -> None:
    spec = RecordSpec(Schema.parse("x int, y string"))
    (row,) = RecordDecoder(spec).batch([Record(raw, 7, "here")]).to_pylist()
    assert row["_error"].startswith(why)
    assert row["_raw"] == (None if raw is None else raw.decode("utf-8", "backslashreplace"))
    assert (row["_bytes"] or (row["_raw"] or "").encode()) == (raw or b"")
    assert (row["x"], row["y"], row["_row_kind"], row["_position"], row["_origin"]) == (None, None, None, 7, "here")


def test_absent_and_unknown_fields() -> None:
    spec = RecordSpec(Schema.parse("x int, y string"))
    assert RowDecoder(spec, to_json).row({"y": "a", "z": 1}) == ("+I", [None, "a"])


def test_a_row_in_the_envelope_of_kafka_connect_is_refused() -> None:
    """Its columns would all be null."""
    record = {"schema": {"type": "struct", "fields": []}, "payload": {"x": 1}}
    why = "set value.converter.schemas.enable=false there"
    with pytest.raises(Undecodable, match=why):
        RowDecoder(RecordSpec(Schema.parse("x int")), to_json).row(record)
    records = [Record(json.dumps(record).encode(), 1000 * at, "it") for at in range(20)]
    shaped = ShapeDecoder(RecordSpec(Schema.parse("x int")), least=1, few=1).batch(records).to_pylist()
    assert all(why in row["_error"] for row in shaped)
    declared = RecordSpec(Schema.parse("payload struct<x: int>"))
    assert RowDecoder(declared, to_json).row(record) == ("+I", [{"x": 1}])
    assert RowDecoder(RecordSpec(Schema.parse("x int")), to_json).row(record | {"x": 2}) == ("+I", [2])


@pytest.mark.parametrize(("word", "kind"), [("+I", "+I"), ("-u", "-U"), ("u", "+U"), ("R", "+I"), ("delete", "-D")])
def test_row_kinds(word: str, kind: str) -> None:
    spec = RecordSpec(Schema.parse("x int, op string"), row_kind="op")
    assert RowDecoder(spec, to_json).row({"x": 1, "op": word}) == (kind, [1])


@pytest.mark.parametrize("word", [None, "", "x", 1, ["c"]])
def test_unknown_row_kinds(word: object) -> None:
    spec = RecordSpec(Schema.parse("x int, op string"), row_kind="op")
    with pytest.raises(Undecodable, match=r"column 'op': a row kind \(\+I -U \+U -D, or c r u d\) wanted, not "):
        RowDecoder(spec, to_json).row({"x": 1, "op": word})


@pytest.mark.parametrize("word", ["u", "U", "update"])
def test_an_update_without_its_old_row_is_refused_where_that_is_subtracted(word: str) -> None:
    """Rows of a file with types, and rows by their shapes, are refused as the strict decoder refuses them."""
    spec = RecordSpec(Schema.parse("x int, op string"), row_kind="op", needs_old_rows=True)
    why = spec.row_kinds.refusal("op") + repr(word)
    assert "send it as -U before +U" in why
    with pytest.raises(Undecodable, match=re.escape(why)):
        RowDecoder(spec, to_json).row({"x": 1, "op": word})
    assert RowDecoder(spec, to_json).row({"x": 1, "op": "+U"}) == ("+U", [1])
    rows = pa.RecordBatch.from_pylist([{"x": 1, "op": word}])
    assert decode_rows(rows, spec, 0, what="it", origin="it").batch.to_pylist()[0]["_error"] == why
    records = [Record(json.dumps({"x": 1, "op": word}).encode(), 1000 * at, "it") for at in range(20)]
    shaped = ShapeDecoder(spec, least=1, few=1).batch(records).to_pylist()
    assert {(row["_row_kind"], row["_error"]) for row in shaped} == {(None, why)}


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        ("a,b", ["a", "b"]),
        (",", [None, None]),
        ('"",', ["", None]),
        (',""', [None, ""]),
        ('"a,b","c""d"', ["a,b", 'c"d']),
        ('"a\r\nb",c', ["a\r\nb", "c"]),
        ('5" pipe,x', ['5" pipe', "x"]),
        (" a , b ", [" a ", " b "]),
    ],
)
def test_csv_fields(record: str, fields: list[str | None]) -> None:
    assert csv_text.fields(record) == fields


@pytest.mark.parametrize(("record", "number"), [('"a', 1), ('a,"b"c,d', 2), ('a,"', 2)])
def test_csv_quotes_that_do_not_close(record: str, number: int) -> None:
    with pytest.raises(Undecodable, match=f"quotes of field {number} are not closed, or text follows them"):
        csv_text.fields(record)


def records_of(text: bytes) -> list[tuple[int, bytes]]:
    lines, offset = [], 0
    for line in text.splitlines(keepends=True):
        lines.append((offset, line))
        offset += len(line)
    return list(csv_text.records(lines))


def test_csv_records_keep_breaks_inside_quotes() -> None:
    assert records_of(b'a,b\n\n"x\n\n y",1\r\n5" pipe,2\n"un""closed\nend') == [
        (0, b"a,b"),
        (5, b'"x\n\n y",1'),
        (16, b'5" pipe,2'),
        (26, b'"un""closed\nend'),
    ]


@given(st.lists(st.lists(st.none() | st.text(st.characters(codec="ascii")), min_size=2, max_size=3), min_size=1))
def test_csv_that_was_written_is_read_back(table: list[list[str | None]]) -> None:
    def written(value: str | None) -> str:
        return "" if value is None else '"' + value.replace('"', '""') + '"'

    text = "".join(",".join(map(written, row)) + "\r\n" for row in table).encode()
    lines = [line + b"\n" for line in text.split(b"\n")[:-1]]
    assert [csv_text.fields(raw.decode()) for _, raw in csv_text.records((0, line) for line in lines)] == table


@pytest.mark.parametrize("ddl", ["d decimal(5,2)", "d array<decimal(5,2)>", "d string"])
def test_a_number_beyond_any_exponent_is_a_dead_letter(ddl: str) -> None:
    value = "[1e99999999999999999999]" if "array" in ddl else "1e99999999999999999999"
    batch = RecordDecoder(RecordSpec(Schema.parse(ddl))).batch([Record(f'{{"d": {value}}}'.encode(), 0, "x")])
    assert batch.column("_error").to_pylist() == ["a number with an exponent out of range"]


def test_a_text_of_a_number_beyond_any_exponent_is_a_dead_letter() -> None:
    record = Record(b'{"d": "1e99999999999999999999"}', 0, "x")
    (error,) = RecordDecoder(RecordSpec(Schema.parse("d decimal(5,2)"))).batch([record]).column("_error").to_pylist()
    assert "an exponent out of range" in error


@pytest.mark.parametrize("depth", [5_000, 100_000])
def test_a_record_that_is_nested_too_deeply_is_a_dead_letter(depth: int) -> None:
    """How deep is too deep depends on the version of Python."""
    deep = b'{"k": 1, "doc": ' + b'{"a":' * depth + b"null" + b"}" * (depth + 1)
    records = [Record(deep, 0, "x"), Record(b'{"k": 2, "doc": "y"}', 1000, "x")]
    refused, good = RecordDecoder(RecordSpec(Schema.parse("k int, doc string"))).batch(records).to_pylist()
    assert (refused["_error"], refused["_raw"]) == ("nested too deeply", deep.decode())
    assert (good["k"], good["doc"], good["_error"]) == (2, "y", None)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("s", "1709164800"),
        ("ms", "1709164800000"),
        ("us", "1709164800000000"),
        ("ns", "1709164800000000000"),
        ("ms", '"1709164800000"'),
        ("ms", '"2024-02-29T00:00:00Z"'),
    ],
)
def test_whole_numbers_are_times_in_a_unit_and_in_utc(unit: str, text: str, zone: str) -> None:
    def read(ddl: str, value: str, *, csv: bool = False) -> Any:
        spec = RecordSpec(
            Schema.parse(f"x {ddl}"),
            format="csv" if csv else "json",
            time_zone=zone,
            changes=ChangeSpec(time_unit=unit),
        )
        record = f"x\n{value}" if csv else f'{{"x": {value}}}'
        batch = RecordDecoder(spec, parse=lambda _: {"x": value}) if csv else RecordDecoder(spec)
        (row,) = batch.batch([Record(record.encode(), 0, "")]).to_pylist()
        return row["x"] or row["_error"]

    moment = datetime(2024, 2, 29, tzinfo=UTC)
    assert read("timestamp", text) == moment
    assert read("timestamp", text.strip('"'), csv=True) == moment
    assert read("array<timestamp>", f"[{text}]") == [moment]
    if "T" not in text:
        assert read("timestamp_ntz", text) == moment.replace(tzinfo=None)
    assert read("timestamp", "1.5").endswith("timestamp wanted, not 1.5")
    assert read("timestamp", "9" * 19) == f"column 'x': timestamp wanted, not {'9' * 19} (out of range)" or unit == "ns"
