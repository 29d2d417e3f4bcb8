"""Debezium's messages, as its MySQL and PostgreSQL connectors write them, with and without a schema."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from headwater.adapters.records.parsing import parser
from headwater.domain.source.changelog.settings import ChangeSpec
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

from .decoding import Decoding

CUSTOMERS = Decoding("debezium-json", "id int, name string, email string")
MYSQL = {
    "version": "2.7.3.Final",
    "connector": "mysql",
    "name": "dbserver1",
    "ts_ms": 1465491411000,
    "snapshot": "false",
    "db": "inventory",
    "sequence": None,
    "table": "customers",
    "server_id": 223344,
    "gtid": None,
    "file": "mysql-bin.000003",
    "pos": 484,
    "row": 2,
    "thread": 7,
    "query": None,
}
POSTGRES = {
    "version": "2.7.3.Final",
    "connector": "postgresql",
    "name": "PostgreSQL_server",
    "ts_ms": 1559033904863,
    "snapshot": "false",
    "db": "postgres",
    "sequence": '["24023119","24023128"]',
    "schema": "public",
    "table": "customers",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}
ANNE = {"id": 1004, "name": "Anne", "email": "annek@noanswer.org"}
MARIE = {**ANNE, "name": "Anne Marie"}
FULL = "in PostgreSQL set REPLICA IDENTITY FULL"


MANY_DIGITS = b64encode(b"\x01" * 2000).decode()
"""An unscaled number of 4,814 digits."""


def change(op: str, before: Any, after: Any, source: dict[str, Any] = MYSQL, **more: Any) -> str:
    return json.dumps(
        {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1465491411815, "transaction": None}
        | more
    )


def envelope(message: str, *fields: dict[str, Any]) -> str:
    """A message as Kafka Connect's JSON converter writes it, with a schema of the row's fields."""
    row = {"type": "struct", "fields": list(fields), "optional": True, "name": "dbserver1.inventory.customers.Value"}
    schema = {
        "type": "struct",
        "fields": [
            row | {"field": "before"},
            row | {"field": "after"},
            {"type": "struct", "fields": [], "optional": False, "name": "source", "field": "source"},
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
        "optional": False,
        "name": "dbserver1.inventory.customers.Envelope",
    }
    return json.dumps({"schema": schema, "payload": json.loads(message)}, separators=(",", ":"))


def columns(*names: str) -> list[dict[str, Any]]:
    return [{"type": "string", "optional": True, "field": name} for name in names]


LIFE = [
    change("r", None, ANNE),
    change("c", None, ANNE),
    change("u", ANNE, MARIE),
    change("d", MARIE, None),
]
LIFE_ROWS = [
    ("+I", *ANNE.values()),
    ("+I", *ANNE.values()),
    ("-U", *ANNE.values()),
    ("+U", *MARIE.values()),
    ("-D", *MARIE.values()),
]


def test_a_rows_life() -> None:
    assert CUSTOMERS.rows(*LIFE, None) == LIFE_ROWS


@pytest.mark.parametrize("spaced", [False, True])
def test_a_rows_life_in_envelopes(*, spaced: bool) -> None:
    wrapped = [envelope(each, *columns("id", "name", "email")) for each in LIFE]
    if spaced:
        wrapped = [json.dumps(json.loads(each), indent=1) for each in wrapped]
    assert CUSTOMERS.rows(*wrapped, '{"schema":null,"payload":null}') == LIFE_ROWS


@pytest.mark.parametrize("changes", [ChangeSpec(), ChangeSpec(metadata={"name": "database"})])
def test_the_schema_of_an_envelope_is_parsed_once(changes: ChangeSpec) -> None:
    parse = parser(RecordSpec(Schema.parse("id bigint, name string"), "debezium-json", changes=changes))
    first, second = (parse(envelope(each, *columns("id", "name")).encode()) for each in LIFE[:2])
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first["schema"] is second["schema"]


def test_a_tombstone_in_a_file_is_a_line_that_says_null() -> None:
    assert CUSTOMERS.rows(LIFE[0], "null", *LIFE[1:], " null ") == LIFE_ROWS


def test_an_envelope_whose_schema_is_null() -> None:
    assert CUSTOMERS.rows(f'{{"schema":null,"payload":{LIFE[1]}}}') == LIFE_ROWS[1:2]


def test_a_change_of_the_key_comes_as_a_delete_a_tombstone_and_an_insert() -> None:
    moved = {**ANNE, "id": 1005}
    assert CUSTOMERS.rows(change("d", ANNE, None), None, change("c", None, moved)) == [
        ("-D", *ANNE.values()),
        ("+I", *moved.values()),
    ]


def test_nulls_and_values_in_both_directions() -> None:
    nothing = {"id": 1, "name": None, "email": None}
    something = {"id": 1, "name": "", "email": "x"}
    assert CUSTOMERS.rows(change("u", nothing, something), change("u", something, nothing)) == [
        ("-U", 1, None, None),
        ("+U", 1, "", "x"),
        ("-U", 1, "", "x"),
        ("+U", 1, None, None),
    ]


def test_equal_numbers_keep_their_own_digits_and_types() -> None:
    decoding = Decoding("debezium-json", "x string")
    message = '{"op":"u","before":{"x":%s},"after":{"x":%s}}'
    assert decoding.rows(message % ("1.0", "1.00"), message % ("true", "1"), message % ("[1.0]", "[1.00]")) == [
        ("-U", "1.0"),
        ("+U", "1.00"),
        ("-U", "true"),
        ("+U", "1"),
        ("-U", "[1.0]"),
        ("+U", "[1.00]"),
    ]


def test_names_inside_a_value_and_around_the_row_are_no_columns() -> None:
    decoding = Decoding("debezium-json", "id bigint, op string, source string, payload string")
    row = {"id": 1, "op": "x", "source": '{"id":7}', "payload": {"id": 8, "op": "d"}}
    assert decoding.rows(change("c", None, row)) == [("+I", 1, "x", '{"id":7}', '{"id":8,"op":"d"}')]


@pytest.mark.parametrize(
    "message",
    [
        '{"ts_ms":1465491411815}',
        '{"ts_ms":1465491411815,"ts_us":1465491411815000,"ts_ns":1465491411815000000}',
        '{"status":"BEGIN","id":"571:53195829","ts_ms":1486500577125,"event_count":null,"data_collections":null}',
        '{"status":"END","id":"571:53195832","ts_ms":1486500577691,"event_count":2,"data_collections":[]}',
        '{"source":{"db":"inventory"},"ts_ms":1,"databaseName":"inventory","ddl":"ALTER TABLE customers ADD x int",'
        '"tableChanges":[]}',
        change("m", None, None, POSTGRES, message={"prefix": "p", "content": "aGVsbG8="}),
        None,
    ],
)
def test_what_is_no_row(message: str | None) -> None:
    assert CUSTOMERS.lines(message, message and f'{{"schema":{{"type":"struct"}},"payload":{message}}}') == []


def test_an_update_without_its_old_image_is_refused() -> None:
    message = change("u", None, MARIE, POSTGRES)
    assert CUSTOMERS.refusal(message) == f"before: an update without its whole old image; {FULL}"
    message = change("u", {"id": 1004}, MARIE, POSTGRES)
    assert CUSTOMERS.refusal(message) == f"before: an update without its whole old image; {FULL}"


def test_an_update_without_its_old_image_where_that_is_welcome() -> None:
    decoding = Decoding("debezium-json", CUSTOMERS.ddl, changes=ChangeSpec(before="optional", key=["id"]))
    updates = [change("u", None, MARIE, POSTGRES), change("u", {"id": 1004}, MARIE, POSTGRES)]
    assert decoding.rows(*updates, change("d", {"id": 1004}, None, POSTGRES)) == [
        ("+U", *MARIE.values()),
        ("+U", *MARIE.values()),
        ("-D", 1004, None, None),
    ]


def test_a_delete_that_tells_the_key_alone_is_refused() -> None:
    decoding = Decoding("debezium-json", CUSTOMERS.ddl, changes=ChangeSpec(key=["id"]))
    why = decoding.refusal(change("d", {"id": 1004}, None, POSTGRES))
    assert why == f"before: a delete that has only the key; {FULL}"


@pytest.mark.parametrize(
    ("key", "remedy"), [([], ". If the table did not have that column yet, declare the source's key"), (["id"], "")]
)
@pytest.mark.parametrize("before", [{"email": "annek@noanswer.org"}, {}])
def test_a_delete_that_tells_another_index_is_refused_where_rows_are_subtracted(
    before: dict[str, str], key: list[str], remedy: str
) -> None:
    decoding = Decoding("debezium-json", CUSTOMERS.ddl, changes=ChangeSpec(key=key), needs_whole_rows=True)
    reasons = {
        f"before: a delete without its whole old image: id is missing; {FULL}{remedy}",
        f"before: a delete that has only the key; {FULL}",
    }
    assert decoding.refusal(change("d", before, None, POSTGRES)) in reasons


def test_without_a_known_key_a_delete_that_may_be_the_key_alone_is_refused_where_rows_are_subtracted() -> None:
    decoding = Decoding("debezium-json", CUSTOMERS.ddl, needs_whole_rows=True)
    why = decoding.refusal(change("d", {"id": 1004}, None, POSTGRES))
    assert why.startswith(f"before: a delete without its whole old image: email is missing; {FULL}.")
    assert CUSTOMERS.rows(change("d", {"id": 1004}, None, POSTGRES)) == [("-D", 1004, None, None)]


def test_with_a_known_key_a_column_that_the_table_did_not_have_yet_is_null() -> None:
    changes = ChangeSpec(key=["id"], metadata={"base": "database"})
    decoding = Decoding("debezium-json", f"{CUSTOMERS.ddl}, base string", changes=changes, needs_whole_rows=True)
    rows = decoding.rows(change("d", {"id": 1004, "name": "Anne"}, None))
    assert rows == [("-D", 1004, "Anne", None, "inventory")]
    assert decoding.rows(change("d", ANNE, None)) == [("-D", *ANNE.values(), "inventory")]


UNSENT = "__debezium_unavailable_value"


def test_a_large_value_that_was_not_sent_is_the_old_one() -> None:
    decoding = Decoding("debezium-json", "id int, name string, bytes binary")
    before = {"id": 1, "name": "long", "bytes": "AP8=", "more": 1}
    unsent = {"id": 2, "name": UNSENT, "bytes": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", "more": UNSENT}
    assert decoding.rows(change("u", before, unsent, POSTGRES)) == [
        ("-U", 1, "long", b"\x00\xff"),
        ("+U", 2, "long", b"\x00\xff"),
    ]


@pytest.mark.parametrize("before", [None, {**ANNE, "email": UNSENT}])
def test_a_large_value_that_nobody_sent_is_refused(before: dict[str, Any] | None) -> None:
    decoding = Decoding("debezium-json", CUSTOMERS.ddl, changes=ChangeSpec(before="optional"))
    why = decoding.refusal(change("u", before, {**MARIE, "email": UNSENT}, POSTGRES))
    assert why == f"column 'email': its unchanged value was not sent; {FULL}"


@pytest.mark.parametrize("op", ["c", "r"])
def test_a_large_value_that_an_insert_does_not_send_is_refused(op: str) -> None:
    """PostgreSQL changes a key by a delete and an insert; the insert may be without the large value."""
    why = CUSTOMERS.refusal(change(op, None, {**MARIE, "email": UNSENT}, POSTGRES))
    assert why == f"column 'email': its unchanged value was not sent; {FULL}"


def test_a_column_that_only_the_old_image_has_is_null_afterwards() -> None:
    decoding = Decoding("debezium-json", "id int, name string, email string")
    assert decoding.rows(change("u", {"id": 1, "name": "a", "email": "e"}, {"id": 1, "name": "b"})) == [
        ("-U", 1, "a", "e"),
        ("+U", 1, "b", None),
    ]


@pytest.mark.parametrize(
    "message",
    [
        change("u", {**ANNE, "email": UNSENT}, MARIE, POSTGRES),
        change("d", {**ANNE, "email": UNSENT}, None, POSTGRES),
    ],
)
def test_an_old_image_without_a_large_value_is_refused(message: str) -> None:
    assert CUSTOMERS.refusal(message) == f"column 'email': its unchanged value was not sent; {FULL}"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("7", "message: a JSON object wanted, not 7"),
        ('{"id":1,"name":"x"}', "op: one of Debezium's wanted (rows without an envelope are json), not null"),
        (change("x", None, ANNE), "op: one of Debezium's wanted (rows without an envelope are json), not 'x'"),
        (change("c", None, None), "after: a JSON object wanted, not null"),
        (change("d", None, None), "before: a JSON object wanted, not null"),
        (change("t", None, None), "the table was emptied, and its rows are not listed: build the pipeline again"),
        (change("c", None, {"id": 1.5}), "column 'id': int wanted, not 1.5 (not a whole number)"),
        ('{"schema":{},"payload":3}', "payload: a JSON object wanted, not 3"),
        ('{"schema":{},"payload":{"op":"c","after":{}}}', "schema: that of Debezium's envelope wanted, not {}"),
        ('{"schema":1,"payload":{"op":"c","after":{}}}', "schema: that of Debezium's envelope wanted, not 1"),
        ('{"op":"c","after":{"id":1}', "not JSON: Input data was truncated"),
    ],
)
def test_refuses(message: str, why: str) -> None:
    assert CUSTOMERS.refusal(message) == why


SMALL = "days, or a time of a day? declare the column as date or bigint, or set time_unit"
ISO = datetime(2024, 2, 29, 16, 30, 0, 100_000)


def written(decoding: Decoding, value: str, *described: dict[str, Any]) -> Any:
    """What a column x of a written value becomes."""
    message = change("c", None, {"x": 0}).replace('"x": 0', f'"x": {value}')
    return decoding.value(envelope(message, *described) if described else message)


@pytest.mark.parametrize(
    ("ddl", "value", "becomes"),
    [
        ("date", "19782", date(2024, 2, 29)),
        ("date", "-1", date(1969, 12, 31)),
        ("date", '"2024-02-29"', date(2024, 2, 29)),
        ("timestamp", "1709224200123", datetime(2024, 2, 29, 8, 30, 0, 123_000, UTC)),
        ("timestamp", "1709224200123456", datetime(2024, 2, 29, 8, 30, 0, 123_456, UTC)),
        ("timestamp", "1709224200123456000", datetime(2024, 2, 29, 8, 30, 0, 123_456, UTC)),
        ("timestamp", "-100000000", datetime(1969, 12, 30, 12, 13, 20, tzinfo=UTC)),
        ("timestamp_ntz", "100000000", datetime(1970, 1, 2, 3, 46, 40)),
        ("timestamp_ntz", "0", datetime(1970, 1, 1)),
        ("timestamp", '"2024-02-29T16:30:00.123456Z"', datetime(2024, 2, 29, 16, 30, 0, 123_456, UTC)),
        ("timestamp_ntz", "1709224200123456", datetime(2024, 2, 29, 16, 30, 0, 123_456)),
        ("decimal(5,2)", '"-12.30"', Decimal("-12.30")),
        ("decimal(5,2)", "12.3", Decimal("12.30")),
        ("decimal(5,2)", '{"scale":3,"value":"MAw="}', Decimal("12.30")),
        ("bigint", '"18"', 18),
        ("boolean", "1", True),
        ("binary", '"AP8="', b"\x00\xff"),
    ],
)
def test_values_without_a_schema(ddl: str, value: str, becomes: object) -> None:
    """Numbers are wall times of the source's zone; texts with an offset are instants."""
    found = written(Decoding("debezium-json", f"x {ddl}", "Asia/Shanghai"), value)
    assert (found, type(found)) == (becomes, type(becomes))


@pytest.mark.parametrize(
    ("ddl", "value", "why"),
    [
        ("date", "2932897", "date wanted, not 2932897 (out of range)"),
        ("timestamp", "253402300800000001", "timestamp wanted, not 253402300800000001 (finer than a microsecond)"),
        ("timestamp", "1.5", "timestamp wanted, not 1.5"),
        ("timestamp", "20454", f"timestamp wanted, not 20454 ({SMALL})"),
        ("timestamp_ntz", "-99999999", f"timestamp_ntz wanted, not -99999999 ({SMALL})"),
        ("timestamp", "true", "timestamp wanted, not True"),
        (
            "decimal(5,2)",
            '"BM4="',
            "decimal(5,2) wanted, not 'BM4=' (if it is bytes, send the schema or set decimal.handling.mode=string)",
        ),
        ("decimal(5,2)", '{"scale":2}', "decimal(5,2) wanted, not null"),
        ("decimal(5,2)", '"1234.5"', "decimal(5,2) wanted, not 1234.5 (more than 3 digits before the point)"),
    ],
)
def test_values_that_are_refused(ddl: str, value: str, why: str) -> None:
    message = change("c", None, {"x": 0}).replace('"x": 0', f'"x": {value}')
    assert Decoding("debezium-json", f"x {ddl}").refusal(message) == f"column 'x': {why}"


@pytest.mark.parametrize("ddl", ["timestamp", "timestamp_ntz", "array<timestamp>"])
@pytest.mark.parametrize(
    "value", ["9223372036825200000", "-9223372036832400000", "9223372036825200", "-9223372036832400"]
)
def test_an_infinite_time_is_refused(ddl: str, value: str) -> None:
    """By its size alone it would be a time in 1677 or 2262."""
    message = change("c", None, {"x": 0}).replace('"x": 0', f'"x": {f"[{value}]" if "<" in ddl else value}')
    assert "PostgreSQL's infinity" in Decoding("debezium-json", f"x {ddl}").refusal(message)


@pytest.mark.parametrize(
    ("unit", "at"),
    [
        ("ms", datetime(1970, 1, 3, 2, 46, 40, tzinfo=UTC)),
        ("us", datetime(1970, 1, 1, 0, 3, 2, 800_000, tzinfo=UTC)),
        ("ns", datetime(1970, 1, 1, 0, 0, 0, 182_800, tzinfo=UTC)),
    ],
)
def test_a_unit_that_is_told(unit: str, at: datetime) -> None:
    decoding = Decoding("debezium-json", "x timestamp", changes=ChangeSpec(time_unit=unit))
    number = {"ms": 182_800_000}.get(unit, 182_800_000)
    assert written(decoding, str(number)) == at


@pytest.mark.parametrize(
    ("ddl", "described", "value", "becomes"),
    [
        ("timestamp", {"name": "io.debezium.time.Timestamp"}, "1", datetime(1970, 1, 1, 0, 0, 0, 1_000, UTC)),
        ("timestamp", {"name": "io.debezium.time.MicroTimestamp"}, "1", datetime(1970, 1, 1, 0, 0, 0, 1, UTC)),
        ("timestamp", {"name": "io.debezium.time.NanoTimestamp"}, "2000", datetime(1970, 1, 1, 0, 0, 0, 2, UTC)),
        ("timestamp", {"name": "org.apache.kafka.connect.data.Timestamp"}, "0", datetime(1970, 1, 1, tzinfo=UTC)),
        (
            "timestamp",
            {"name": "io.debezium.time.ZonedTimestamp"},
            '"2024-02-29T16:30:00+08:00"',
            datetime(2024, 2, 29, 8, 30, tzinfo=UTC),
        ),
        ("date", {"name": "io.debezium.time.Date"}, "19782", date(2024, 2, 29)),
        ("date", {"name": "org.apache.kafka.connect.data.Date"}, "0", date(1970, 1, 1)),
        (
            "decimal(5,2)",
            {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "1"}},
            '"ew=="',
            Decimal("12.30"),
        ),
        (
            "string",
            {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
            '"+zI="',
            "-12.30",
        ),
        ("decimal(5,2)", {"name": "io.debezium.data.VariableScaleDecimal"}, '{"scale":0,"value":"DA=="}', Decimal(12)),
        ("bigint", {"name": "io.debezium.time.MicroTimestamp"}, "5", 5),
        ("date", {"name": "io.debezium.time.IsoDate"}, '"2024-02-29Z"', date(2024, 2, 29)),
        ("timestamp_ntz", {"name": "io.debezium.time.IsoTimestamp"}, '"2024-02-29T16:30:00.1Z"', ISO),
        ("string", {"name": "io.debezium.time.IsoTimestamp"}, '"2024-02-29T16:30:00Z"', "2024-02-29T16:30:00Z"),
    ],
)
def test_values_that_a_schema_describes(ddl: str, described: dict[str, Any], value: str, becomes: object) -> None:
    found = written(Decoding("debezium-json", f"x {ddl}"), value, {"field": "x", "type": "?"} | described)
    assert (found, type(found)) == (becomes, type(becomes))


def test_the_z_of_an_iso_timestamp_is_not_its_offset() -> None:
    """As all times of Debezium without a zone, it is a wall time of the source's zone; inside an array, too."""
    described = {"field": "x", "type": "string", "name": "io.debezium.time.IsoTimestamp"}
    decoding, moment = (
        Decoding("debezium-json", "x timestamp", "Asia/Shanghai"),
        datetime(2024, 2, 29, 8, 30, tzinfo=UTC),
    )
    assert written(decoding, '"2024-02-29T16:30:00Z"', described) == moment
    several = Decoding("debezium-json", "x array<timestamp>", "Asia/Shanghai")
    items = {"field": "x", "type": "array", "items": described}
    assert written(several, '["2024-02-29T16:30:00Z"]', items) == [moment]


@pytest.mark.parametrize(
    ("ddl", "described", "value"),
    [
        ("string", {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}, MANY_DIGITS),
        ("decimal(5,2)", {"name": "io.debezium.data.VariableScaleDecimal"}, {"scale": 0, "value": MANY_DIGITS}),
        ("decimal(5,2)", {"name": "io.debezium.data.VariableScaleDecimal"}, {"scale": 2**70, "value": "DA=="}),
    ],
)
def test_a_decimal_beyond_what_python_reads_is_refused(ddl: str, described: dict[str, Any], value: object) -> None:
    message = envelope(change("c", None, {"x": value}), {"field": "x", "type": "?"} | described)
    refusal = Decoding("debezium-json", f"x {ddl}").refusal(message)
    assert refusal.startswith(f"column 'x': {ddl} wanted, not ")
    assert refusal.endswith("(too many digits, or a scale out of range)")


@pytest.mark.parametrize(
    ("ddl", "described"),
    [
        ("timestamp", {"name": "io.debezium.time.Date"}),
        ("timestamp", {"name": ["io.debezium.time.Timestamp"]}),
        ("timestamp", {}),
        ("date", {"name": "io.debezium.time.Timestamp"}),
        ("decimal(5,2)", {"name": "org.apache.kafka.connect.data.Decimal"}),
    ],
)
def test_numbers_that_the_schema_says_are_something_else(ddl: str, described: dict[str, Any]) -> None:
    message = envelope(change("c", None, {"x": 19782}), {"field": "x", "type": "int32"} | described)
    refusal = Decoding("debezium-json", f"x {ddl}").refusal(message)
    assert refusal.startswith(f"column 'x': {ddl} wanted, not 19782")
    assert refusal.endswith("(a number; write it as text, or declare the column as bigint)") is (
        ddl in {"timestamp", "date"}
    )


def test_two_schemas_in_turn() -> None:
    decoding = Decoding("debezium-json", "x timestamp")
    millis, micros = (
        envelope(change("c", None, {"x": 1}), {"field": "x", "type": "int64", "name": f"io.debezium.time.{name}"})
        for name in ("Timestamp", "MicroTimestamp")
    )
    assert [row[1].microsecond for row in decoding.rows(millis, micros, millis, micros)] == [1000, 1, 1000, 1]


def test_tables_are_told_apart_as_the_connectors_name_them() -> None:
    mysql, postgres = change("c", None, ANNE), change("c", None, MARIE, POSTGRES)
    for pattern, row in (("inventory.customers", ANNE), ("public.customers", MARIE)):
        decoding = Decoding("debezium-json", CUSTOMERS.ddl, changes=ChangeSpec([pattern]))
        assert decoding.rows(mysql, postgres, change("t", None, None, {"db": "a", "table": "b"})) == [
            ("+I", *row.values())
        ]


def test_metadata() -> None:
    ddl = "id int, db string, sch string, tab string, at timestamp, tx string, file string, pos bigint, nr bigint"
    metadata = {"db": "database", "sch": "schema", "tab": "table", "at": "commit_time", "tx": "transaction"}
    log = {"file": "log_file", "pos": "log_position", "nr": "row"}
    decoding = Decoding("debezium-json", ddl, "Asia/Shanghai", ChangeSpec(metadata=metadata | log))
    mysql = change("c", None, {"id": 1}, transaction={"id": "file=b,pos=4", "total_order": 1})
    plain = change("c", None, {"id": 1})
    postgres = change("c", None, {"id": 2}, POSTGRES)
    at = datetime(2016, 6, 9, 16, 56, 51, tzinfo=UTC)
    log_of_mysql = ("mysql-bin.000003", 484, 2)
    expected = [
        ("+I", 1, "inventory", None, "customers", at, "file=b,pos=4", *log_of_mysql),
        ("+I", 1, "inventory", None, "customers", at, None, *log_of_mysql),
        (
            *("+I", 2, "postgres", "public", "customers", datetime(2019, 5, 28, 8, 58, 24, 863_000, UTC), "555"),
            *(None, 24023128, None),
        ),
    ]
    assert decoding.rows(mysql, plain, postgres) == expected
    assert decoding.rows(*(envelope(each, *columns("id")) for each in (mysql, plain, postgres))) == expected


@pytest.mark.parametrize("op", ["r", "c", "u", "d"])
def test_positions_of_changes_are_refused_where_those_of_commits_are_needed(op: str) -> None:
    changes = ChangeSpec(tables=["inventory.customers", "public.customers"], metadata={"pos": "log_position"})
    decoding = Decoding("debezium-json", "id int, pos bigint", changes=changes, needs_commit_order=True)
    images = (None if op in "rc" else {"id": 1}, None if op == "d" else {"id": 2})
    oracle = {"schema": "public", "table": "customers", "scn": "2122185", "commit_scn": "2122190"}
    for name, source in (("lsn", POSTGRES), ("scn", oracle)):
        refusal = decoding.refusal(change(op, *images, source))
        assert refusal.startswith(f"source.{name}: the position of a change, which does not increase in the order of")
        assert refusal.endswith(
            "load the database's table with position_query, or leave `position` out and set `delay`"
        )
    assert decoding.rows(change("m", None, None, POSTGRES), change(op, *images, {**POSTGRES, "table": "other"})) == []
    assert {row[-1] for row in decoding.rows(change(op, *images))} == {484}


def test_a_row_of_a_snapshot_has_no_number() -> None:
    decoding = Decoding(
        "debezium-json",
        "id int, pos bigint, nr bigint",
        changes=ChangeSpec(metadata={"pos": "log_position", "nr": "row"}),
    )
    assert decoding.rows(change("r", None, {"id": 1}), change("c", None, {"id": 1})) == [
        ("+I", 1, 484, None),
        ("+I", 1, 484, 2),
    ]


ARRAYS = Decoding("debezium-json", "tags array<string>, ns array<int>, place struct<city:string,n:int,at:timestamp>")


def test_nested_values_are_arrays_objects_or_the_text_of_json() -> None:
    written = {"tags": ["a", None], "ns": [1, "2"], "place": {"n": "7", "city": "x", "at": 1465491411000}}
    as_text = {name: json.dumps(value) for name, value in written.items()}
    expected = (["a", None], [1, 2], {"city": "x", "n": 7, "at": datetime(2016, 6, 9, 16, 56, 51, tzinfo=UTC)})
    assert ARRAYS.rows(change("c", None, written), change("c", None, as_text)) == [("+I", *expected)] * 2
    assert ARRAYS.rows(change("c", None, dict.fromkeys(written, "null"))) == [("+I", None, None, None)]
    for text in ("[1", '"\\ud800"', "[1e99999999999999999999]", "NaN]"):
        assert ARRAYS.refusal(change("c", None, {"ns": text})).endswith("(not JSON)")
    assert ARRAYS.refusal(change("c", None, {"ns": "{}"})) == "column 'ns': array<int> wanted, not {}"
    assert ARRAYS.refusal(change("c", None, {"ns": "[1, true]"})) == "column 'ns[1]': int wanted, not True"


def test_a_schema_describes_what_is_inside() -> None:
    nested = Decoding("debezium-json", "days array<date>, at struct<m:timestamp,d:decimal(9,2),plain:timestamp>")
    micros = {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "m"}
    number = {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2"},
        "field": "d",
    }
    fields = [
        {"type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}, "field": "days"},
        {"type": "struct", "fields": [micros, number, {"type": "int64", "field": "plain"}], "field": "at"},
    ]
    row = {"days": [0, None, 1], "at": {"m": 1_465_491_411_000_001, "d": "AM0="}}
    (found,) = nested.rows(envelope(change("c", None, row), *fields))
    at = datetime(2016, 6, 9, 16, 56, 51, 1, tzinfo=UTC)
    assert found == ("+I", [date(1970, 1, 1), None, date(1970, 1, 2)], {"m": at, "d": Decimal("2.05"), "plain": None})
    refused = nested.refusal(envelope(change("c", None, {"at": {"plain": 5}}), *fields))
    assert refused.startswith("column 'at.plain': timestamp wanted, not 5 (a number; ")


def test_a_map_is_an_object_the_text_of_json_or_described_by_a_schema() -> None:
    maps = Decoding("debezium-json", "seen map<string,date>, paid map<int,decimal(9,2)>")
    written = {"seen": {"b": 1, "a": None}, "paid": {"7": "1.5", "-1": "2"}}
    seen = [{"key": "a", "value": None}, {"key": "b", "value": date(1970, 1, 2)}]
    paid = [{"key": -1, "value": Decimal("2.00")}, {"key": 7, "value": Decimal("1.50")}]
    as_text = {name: json.dumps(value) for name, value in written.items()}
    assert maps.rows(change("c", None, written), change("c", None, as_text)) == [("+I", seen, paid)] * 2
    number = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    fields = [
        {"type": "map", "values": {"type": "int32", "name": "io.debezium.time.Date"}, "field": "seen"},
        {"type": "map", "keys": {"type": "string"}, "values": number, "field": "paid"},
    ]
    row = {"seen": {"b": 1, "a": None}, "paid": {"7": "AM0="}}
    (found,) = maps.rows(envelope(change("c", None, row), *fields))
    assert found == ("+I", seen, [{"key": 7, "value": Decimal("2.05")}])


@pytest.mark.parametrize(
    "unsent", [[UNSENT], [*UNSENT.encode()], ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], {UNSENT: UNSENT}]
)
def test_an_array_that_was_not_sent_is_taken_from_before(unsent: list[Any]) -> None:
    whole = {"tags": ["a"], "ns": [1], "place": None}
    for name in ("tags", "ns"):
        (_, new) = ARRAYS.rows(change("u", whole, {**whole, name: unsent}))
        assert new == ("+U", ["a"], [1], None)
        unknown = {**whole, name: unsent}
        assert (
            ARRAYS.refusal(change("u", unknown, unknown))
            == f"column '{name}': its unchanged value was not sent; {FULL}"
        )


@pytest.mark.parametrize("ddl", ["string", "map<string,string>"])
@pytest.mark.parametrize(
    "unsent", [{UNSENT: UNSENT}, f'{{"{UNSENT}":"{UNSENT}"}}', [UNSENT], [*UNSENT.encode()]], ids=repr
)
def test_an_hstore_or_an_array_in_any_column_that_was_not_sent(ddl: str, unsent: Any) -> None:
    decoding = Decoding("debezium-json", f"id int, x {ddl}", changes=ChangeSpec(before="optional"))
    message = change("u", None, {"id": 1, "x": unsent})
    assert decoding.refusal(message) == f"column 'x': its unchanged value was not sent; {FULL}"
