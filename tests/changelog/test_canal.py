"""Canal's flat messages, as it writes them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from headwater.adapters.records.decoder import Record, RecordDecoder
from headwater.domain.source.changelog.settings import ChangeSpec
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

from .decoding import Decoding

PRODUCTS = Decoding("canal-json", "id int, name string, weight decimal(5,2)")
HEAD = '"database":"shop","es":1589373560000,"id":9,"isDdl":false,'
TYPES = (
    '"mysqlType":{"id":"int(11)","name":"varchar(255)","weight":"decimal(5,2)"},'
    '"pkNames":["id"],"sql":"","sqlType":{"id":4,"name":12,"weight":3},"table":"products","ts":1589373560798,'
)
INSERT = (
    '{"data":[{"id":"101","name":"scooter","weight":"3.14"},{"id":"102","name":null,"weight":"8.10"}],'
    + HEAD + TYPES + '"old":null,"type":"INSERT"}'
)  # fmt: skip
UPDATE = (
    '{"data":[{"id":"101","name":"scooter","weight":"5.15"},{"id":"102","name":"battery","weight":"5.15"}],'
    + HEAD + TYPES + '"old":[{"weight":"3.14"},{"name":null,"weight":"8.10"}],"type":"UPDATE"}'
)  # fmt: skip


def test_every_row_of_a_message_with_its_own_old_values() -> None:
    """Flink lets the old values of one row stand in for another's that did not change."""
    assert PRODUCTS.rows(UPDATE) == [
        ("-U", 101, "scooter", Decimal("3.14")),
        ("+U", 101, "scooter", Decimal("5.15")),
        ("-U", 102, None, Decimal("8.10")),
        ("+U", 102, "battery", Decimal("5.15")),
    ]


def test_inserts_and_deletes_of_several_rows() -> None:
    rows = [(101, "scooter", Decimal("3.14")), (102, None, Decimal("8.10"))]
    assert PRODUCTS.rows(INSERT) == [("+I", *row) for row in rows]
    assert PRODUCTS.rows(INSERT.replace("INSERT", "DELETE")) == [("-D", *row) for row in rows]


def test_a_row_of_several_is_shown_alone_and_decodes_to_itself() -> None:
    lines = PRODUCTS.lines(INSERT, UPDATE)
    assert [line["_position"] for line in lines] == [0, 1, 10_000, 10_001, 10_002, 10_003]
    assert lines[1]["_raw"] == (
        '{"data":[{"id":"102","name":null,"weight":"8.10"}],' + HEAD + TYPES + '"old":null,"type":"INSERT"}'
    )
    assert lines[4]["_raw"] == lines[5]["_raw"]
    assert PRODUCTS.rows(lines[5]["_raw"]) == PRODUCTS.rows(UPDATE)[2:]


def test_a_message_whose_rows_cannot_be_shown_alone_is_a_dead_letter() -> None:
    """The SQL is not decoded, so only the text of each row alone meets the byte that is no UTF-8."""
    raw = INSERT.encode().replace(b'"sql":""', b'"sql":"\xff"')
    decoder = RecordDecoder(RecordSpec(Schema.parse(PRODUCTS.ddl), PRODUCTS.format))
    (line,) = decoder.batch([Record(raw, 0, "log")]).to_pylist()
    assert (line["id"], line["_bytes"]) == (None, raw)
    assert line["_error"].startswith("not JSON: ")


def test_a_message_of_one_row_keeps_its_bytes() -> None:
    message = '{"data":[{"id":"1"}],"type":"INSERT","unknown":1}'
    (line,) = PRODUCTS.lines(message)
    assert line["_raw"] == message


def test_names_inside_a_value_are_no_columns() -> None:
    decoding = Decoding("canal-json", "id bigint, details string, old string")
    message = (
        '{"data":[{"id":"1","details":"{\\"id\\":7,\\"old\\":1}","old":"b"}],'
        '"old":[{"details":"{\\"id\\":6,\\"old\\":2}"}],"type":"UPDATE","isDdl":false}'
    )
    assert decoding.rows(message) == [("-U", 1, '{"id":6,"old":2}', "b"), ("+U", 1, '{"id":7,"old":1}', "b")]


@pytest.mark.parametrize("kind", ["CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY", "NEW"])
def test_ddl_gives_no_rows(kind: str) -> None:
    message = (
        '{"data":null,"database":"shop","es":1589373515000,"id":3,"isDdl":true,"mysqlType":null,"old":null,'
        '"pkNames":null,"sql":"ALTER TABLE products ADD COLUMN x int","sqlType":null,"table":"products",'
        '"ts":1589373515477,"type":"KIND"}'
    )
    assert PRODUCTS.lines(message.replace("KIND", kind), None) == []


def test_an_emptied_table_is_told_not_passed_over() -> None:
    message = '{"data":null,"database":"shop","table":"products","isDdl":true,"type":"TRUNCATE","sql":"truncate"}'
    why = PRODUCTS.refusal(message)
    assert why == "the table was emptied, and its rows are not listed: build the pipeline again"
    assert Decoding("canal-json", "id int", changes=ChangeSpec(["shop.users"])).lines(message) == []


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("1", "message: a JSON object wanted, not 1"),
        ('{"data":[{"id":"1"}]}', "type: one of Canal's wanted, not null"),
        ('{"data":[{"id":"1"}],"type":"UPSERT"}', "type: one of Canal's wanted, not 'UPSERT'"),
        ('{"data":null,"type":"INSERT","isDdl":false}', "data: a list of rows wanted, not null"),
        ('{"data":[1],"type":"INSERT"}', "data: a JSON object wanted, not 1"),
        ('{"data":[{"id":"1"}],"old":null,"type":"UPDATE"}', "old: a list of rows wanted, not null"),
        ('{"data":[{"id":"1"}],"old":[null],"type":"UPDATE"}', "old: a JSON object wanted, not null"),
        ('{"data":[{"id":"1"}],"old":[{},{}],"type":"UPDATE"}', "old: as many rows as in data wanted, 1, not 2"),
        ('{"data":[{"id":"1"},{"id":"1.5"}],"type":"INSERT"}', "column 'id': int wanted, not 1.5 (not a whole number)"),
        ('{"data":[{"id":"1"}],"type":"INSERT"', "not JSON: Input data was truncated"),
    ],
)
def test_refuses_the_whole_message(message: str, why: str) -> None:
    assert PRODUCTS.refusal(message) == why


@pytest.mark.parametrize(
    ("ddl", "written", "value"),
    [
        ("tinyint", "-128", -128),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("double", "1.5e3", 1500.0),
        ("decimal(38,20)", "0.12345678901234567890", Decimal("0.12345678901234567890")),
        ("boolean", "1", True),
        ("boolean", "0", False),
        ("string", "", ""),
        ("binary", "\\u0000\\u00ffA", b"\x00\xffA"),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("timestamp", "2024-03-01 00:30:00", datetime(2024, 2, 29, 16, 30, tzinfo=UTC)),
        ("timestamp_ntz", "2024-03-01 00:30:00.5", datetime(2024, 3, 1, 0, 30, 0, 500_000)),
    ],
)
def test_texts_become_what_the_schema_declares(ddl: str, written: str, value: object) -> None:
    decoding = Decoding("canal-json", f"x {ddl}", "Asia/Shanghai")
    found = decoding.value('{"data":[{"x":"VALUE"}],"type":"INSERT"}'.replace("VALUE", written))
    assert (found, type(found)) == (value, type(value))


LABELLED = '{"data":[{"x":VALUE}],"mysqlType":{"x":"TYPE"},"type":"INSERT"}'


def labelled(type_: str, value: str) -> str:
    return LABELLED.replace("VALUE", value).replace("TYPE", type_)


@pytest.mark.parametrize(
    ("type_", "value", "label"),
    [
        ("enum('sad','ok')", '"2"', "ok"),
        ("enum('sad','ok')", "1", "sad"),
        ("enum('sad','ok')", '"0"', ""),
        ("enum('sad','ok')", "null", None),
        ("enum('0','1')", '"1"', "0"),
        ("ENUM( 'a,b' , 'it''s', ''', ''' )", '"1"', "a,b"),
        ("ENUM( 'a,b' , 'it''s', ''', ''' )", '"2"', "it's"),
        ("ENUM( 'a,b' , 'it''s', ''', ''' )", '"3"', "', '"),
        ("enum('','é') charset utf8mb4", '"2"', "é"),
        ("enum('a','b') COLLATE 'latin1_bin'", '"2"', "b"),
        ("enum('sad','ok')", '"sad"', "sad"),
        ("set('a','b','c')", '"5"', "a,c"),
        ("set('a','b','c')", '"0"', ""),
        ("varchar(9)", '"2"', "2"),
        ("settings", '"2"', "2"),
    ],
)
def test_the_numbers_of_enums_and_sets_become_their_labels(type_: str, value: str, label: str | None) -> None:
    assert Decoding("canal-json", "x string").value(labelled(type_, value)) == label


def test_a_set_may_have_64_labels() -> None:
    type_ = f"set({','.join(map(repr, map(str, range(64))))})"
    assert Decoding("canal-json", "x string").value(labelled(type_, f'"{2**63 + 1}"')) == "0,63"


def test_a_column_of_integers_keeps_the_numbers_of_an_enum() -> None:
    assert Decoding("canal-json", "x int").value(labelled("enum('sad','ok')", '"2"')) == 2


def test_each_message_has_its_own_labels() -> None:
    types = ("enum('a')", "enum('b')", "enum('b')", "int", "enum('a')")
    found = Decoding("canal-json", "x string").rows(*(labelled(each, '"1"') for each in types))
    assert [value for _, value in found] == ["a", "b", "b", "1", "a"]


def test_the_old_value_of_an_enum_becomes_its_label() -> None:
    message = (
        '{"data":[{"id":"1","x":"2"},{"id":"2","x":"1"}],"old":[{"x":"1"},{"x":null}],'
        '"mysqlType":{"id":"int","x":"enum(\'sad\',\'ok\')"},"type":"UPDATE"}'
    )
    decoding = Decoding("canal-json", "id int, x string")
    rows = [("-U", 1, "sad"), ("+U", 1, "ok"), ("-U", 2, None), ("+U", 2, "sad")]
    assert decoding.rows(message) == rows
    assert decoding.rows(str(decoding.lines(message)[2]["_raw"])) == rows[2:]


@pytest.mark.parametrize(
    ("type_", "value", "why"),
    [
        ("enum('sad','ok')", "3", "it has no such label: enum('sad','ok')"),
        ("set('a','b')", "4", "it has no such label: set('a','b')"),
        ("set('a','b') COMMENT 'c'", "4", "it has no such label: set('a','b') COMMENT 'c'"),
        ("enum('a') COLLATE 'c','d'", "2", "it has no such label: enum('a') COLLATE 'c','d'"),
        ("enum", "1", "its labels are not known: enum; declare the column as bigint"),
        (r"enum('a\\b')", "1", r"its labels are not known: enum('a\b'); declare the column as bigint"),
        ("set('a ','b')", "1", "its labels are not known: set('a ','b'); declare the column as bigint"),
        ("enum('a', b)", "1", "its labels are not known: enum('a', b); declare the column as bigint"),
    ],
)
def test_refuses_a_number_whose_label_is_not_known(type_: str, value: str, why: str) -> None:
    found = Decoding("canal-json", "x string").refusal(labelled(type_, f'"{value}"'))
    assert found == f"column 'x': string wanted, not '{value}' ({why})"


@pytest.mark.parametrize("value", ['"5"', "5"])
def test_bits_are_a_number_and_not_bytes(value: str) -> None:
    """The text of the number would be the bytes of its digits."""
    why = "the number of the bits of a bit(8); declare the column as bigint or decimal(20,0)"
    found = Decoding("canal-json", "x binary").refusal(labelled("bit(8)", value))
    assert found == f"column 'x': binary wanted, not {value.replace(chr(34), chr(39))} ({why})"
    assert Decoding("canal-json", "x binary").value(labelled("bit(8)", "null")) is None
    assert Decoding("canal-json", "x bigint").value(labelled("bit(8)", value)) == 5
    assert Decoding("canal-json", "x binary").value(labelled("binary(1)", '"5"')) == b"5"


def test_characters_that_are_no_bytes() -> None:
    why = Decoding("canal-json", "x binary").refusal('{"data":[{"x":"\u20ac"}],"type":"INSERT"}')
    assert why == "column 'x': binary wanted, not '€' (characters that are not bytes)"


def test_metadata() -> None:
    metadata = {"db": "database", "tab": "table", "at": "commit_time", "tx": "transaction", "nr": "row"}
    decoding = Decoding(
        "canal-json",
        "id int, db string, tab string, at timestamp, tx string, nr bigint",
        changes=ChangeSpec(metadata=metadata),
    )
    at = datetime(2020, 5, 13, 12, 39, 20, tzinfo=UTC)
    assert decoding.rows(UPDATE.replace('"es"', '"gtid":"3e11:23","es"')) == [
        (kind, 101 + nr, "shop", "products", at, "3e11:23", nr) for nr in (0, 1) for kind in ("-U", "+U")
    ]
