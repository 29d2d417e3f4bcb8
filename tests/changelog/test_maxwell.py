"""Maxwell's messages, as it writes them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from headwater.domain.source.changelog.settings import ChangeSpec

from .decoding import Decoding

ORDERS = Decoding("maxwell-json", "id bigint, state string, amount decimal(18,2)")
INSERT = (
    '{"database":"shop","table":"orders","type":"insert","ts":1477053217,"xid":23396,"commit":true,'
    '"data":{"id":1,"state":"new","amount":12.30}}'
)
UPDATE = (
    '{"database":"shop","table":"orders","type":"update","ts":1477053218,"xid":23397,"xoffset":3,'
    '"position":"binlog.000003:4711","data":{"id":1,"state":"paid","amount":12.30},"old":{"state":"new"}}'
)
DELETE = (
    '{"database":"shop","table":"orders","type":"delete","ts":1477053219,"xid":23398,"commit":true,'
    '"data":{"id":1,"state":"paid","amount":12.30}}'
)
AMOUNT = Decimal("12.30")


def test_a_rows_life() -> None:
    assert ORDERS.rows(INSERT, UPDATE, DELETE) == [
        ("+I", 1, "new", AMOUNT),
        ("-U", 1, "new", AMOUNT),
        ("+U", 1, "paid", AMOUNT),
        ("-D", 1, "paid", AMOUNT),
    ]


def test_rows_of_a_record_follow_its_position() -> None:
    lines = ORDERS.lines(INSERT, UPDATE, DELETE)
    assert [line["_position"] for line in lines] == [0, 10_000, 10_001, 20_000]
    assert [line["_raw"] for line in lines] == [INSERT, UPDATE, UPDATE, DELETE]


def test_old_tells_what_was_null_and_leaves_out_what_did_not_change() -> None:
    update = '{"database":"shop","table":"orders","type":"update","ts":1,"data":%s,"old":%s}'
    became = update % ('{"id":1,"state":"paid","amount":12.30}', '{"state":null}')
    went = update % ('{"id":1,"state":null,"amount":12.30}', '{"state":"paid"}')
    moved = update % ('{"id":2,"state":null,"amount":null}', '{"id":1}')
    assert ORDERS.rows(became, went, moved) == [
        ("-U", 1, None, AMOUNT),
        ("+U", 1, "paid", AMOUNT),
        ("-U", 1, "paid", AMOUNT),
        ("+U", 1, None, AMOUNT),
        ("-U", 1, None, None),
        ("+U", 2, None, None),
    ]


def test_an_update_that_changed_no_column_has_no_old() -> None:
    row = (1, "paid", AMOUNT)
    update = '{"type":"update","data":{"id":1,"state":"paid","amount":12.30}}'
    assert ORDERS.rows(update) == [("-U", *row), ("+U", *row)]


def test_names_inside_a_value_and_around_the_row_are_no_columns() -> None:
    decoding = Decoding("maxwell-json", "id bigint, details string, ts bigint, type string")
    update = (
        '{"database":"shop","table":"orders","type":"update","ts":1477053218,'
        '"data":{"id":1,"details":{"id":7,"type":"gift","old":{"id":8}},"ts":5,"type":"b"},'
        '"old":{"details":{"id":6,"type":"x"}}}'
    )
    assert decoding.rows(update) == [
        ("-U", 1, '{"id":6,"type":"x"}', 5, "b"),
        ("+U", 1, '{"id":7,"type":"gift","old":{"id":8}}', 5, "b"),
    ]


def test_a_bootstrap_gives_rows_and_its_course_none() -> None:
    start = '{"database":"shop","table":"orders","type":"bootstrap-start","ts":1450557744,"data":{}}'
    row = (
        '{"database":"shop","table":"orders","type":"bootstrap-insert","ts":1450557744,'
        '"data":{"id":1,"state":"new","amount":null}}'
    )
    assert ORDERS.rows(start, row, start.replace("start", "complete")) == [("+I", 1, "new", None)]


@pytest.mark.parametrize(
    "message",
    [
        '{"type":"table-create","database":"shop","table":"orders","def":{"database":"shop","charset":"utf8mb4",'
        '"table":"orders","primary-key":["id"],"columns":[{"type":"bigint","name":"id","signed":true}]},'
        '"ts":1477053126000,"sql":"create table orders (id bigint primary key)"}',
        '{"type":"table-alter","database":"shop","table":"orders","old":{},"def":{},"ts":1477053308000,"sql":"alter"}',
        '{"type":"table-drop","database":"shop","table":"orders","ts":1477053308000,"sql":"drop table orders"}',
        '{"type":"database-create","database":"shop","charset":"utf8mb4","ts":1477053126000,"sql":"create"}',
        None,
    ],
)
def test_what_is_no_row(message: str | None) -> None:
    assert ORDERS.lines(message) == []


NULLS = "old: columns are missing here or in data, as null values are left out; set output_nulls=true in Maxwell"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("[]", "message: a JSON object wanted, not []"),
        ("{}", "type: one of Maxwell's wanted, not null"),
        ('{"type":["insert"]}', "type: one of Maxwell's wanted, not ['insert']"),
        ('{"type":"upsert","data":{}}', "type: one of Maxwell's wanted, not 'upsert'"),
        ('{"type":"insert","data":null}', "data: a JSON object wanted, not null"),
        ('{"type":"update","data":{"id":1},"old":null}', "old: a JSON object wanted, not null"),
        ('{"type":"update","data":{"id":1,"state":"paid"},"old":{}}', NULLS),
        ('{"type":"update","data":{"id":1},"old":{"state":"paid"}}', NULLS),
        ('{"type":"insert","data":{"id":"x"}}', "column 'id': bigint wanted, not 'x'"),
        (
            '{"type":"update","data":{"id":1,"amount":1},"old":{"amount":1.001}}',
            "column 'amount': decimal(18,2) wanted, not 1.001 (more than 2 decimals)",
        ),
    ],
)
def test_refuses(message: str, why: str) -> None:
    assert ORDERS.refusal(message) == why


@pytest.mark.parametrize(
    ("ddl", "written", "value"),
    [
        ("decimal(38,20)", "0.12345678901234567890", Decimal("0.12345678901234567890")),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("double", '"0.5"', 0.5),
        ("boolean", "1", True),
        ("boolean", '"0"', False),
        ("binary", '"AP8="', b"\x00\xff"),
        ("string", '["a","b"]', '["a","b"]'),
        ("date", '"2024-02-29"', date(2024, 2, 29)),
        ("timestamp", '"2024-03-01 00:30:00.000123"', datetime(2024, 2, 29, 16, 30, 0, 123, UTC)),
        ("timestamp_ntz", '"2024-03-01 00:30:00"', datetime(2024, 3, 1, 0, 30)),
    ],
)
def test_values_as_mysql_has_them(ddl: str, written: str, value: object) -> None:
    decoding = Decoding("maxwell-json", f"x {ddl}", "Asia/Shanghai")
    found = decoding.value('{"type":"insert","data":{"x":VALUE}}'.replace("VALUE", written))
    assert (found, type(found)) == (value, type(value))


def test_a_day_that_never_was_is_refused() -> None:
    why = Decoding("maxwell-json", "x timestamp").refusal('{"type":"insert","data":{"x":"0000-00-00 00:00:00"}}')
    assert why == "column 'x': timestamp wanted, not '0000-00-00 00:00:00' (no such time)"


def test_tables_are_told_apart_by_their_whole_name() -> None:
    def ids(*tables: str) -> list[int]:
        decoding = Decoding("maxwell-json", "id bigint", changes=ChangeSpec(tables))
        message = '{"database":"%s","table":"%s","type":"insert","data":{"id":%d}}'
        names = [("shop", "orders"), ("shop", "orders_old"), ("shop_2", "orders"), ("shop", "users")]
        return [row[1] for row in decoding.rows(*(message % (*name, at) for at, name in enumerate(names)))]

    assert ids() == [0, 1, 2, 3]
    assert ids("shop.orders") == [0]
    assert ids("shop.orders", "shop.users") == [0, 3]
    assert ids(r"shop(_\d+)?\.orders") == [0, 2]


def test_other_tables_are_not_looked_into() -> None:
    decoding = Decoding("maxwell-json", "id bigint", changes=ChangeSpec(["shop.orders"]))
    assert decoding.lines('{"database":"shop","table":"users","type":"insert","data":{"id":"x"}}') == []
    why = decoding.refusal('{"type":"insert","data":{"id":1}}')
    assert why == "it does not say of which table it is, so `tables` cannot choose"


def test_metadata() -> None:
    metadata = {"db": "database", "tab": "table", "at": "commit_time", "tx": "transaction", "last": "commit"}
    log = {"file": "log_file", "pos": "log_position", "nr": "row"}
    decoding = Decoding(
        "maxwell-json",
        "id bigint, db string, tab string, at timestamp, tx string, last boolean, file string, pos bigint, nr bigint",
        "Asia/Shanghai",
        ChangeSpec(metadata=metadata | log),
    )
    first = ("shop", "orders", datetime(2016, 10, 21, 12, 33, 37, tzinfo=UTC), "23396", True, None, None, 2**63 - 1)
    then = ("shop", "orders", datetime(2016, 10, 21, 12, 33, 38, tzinfo=UTC), "23397", False, "binlog.000003", 4711, 3)
    assert decoding.rows(INSERT, UPDATE) == [("+I", 1, *first), ("-U", 1, *then), ("+U", 1, *then)]


def test_a_row_cannot_pretend_to_be_metadata() -> None:
    decoding = Decoding("maxwell-json", "id bigint, tx string", changes=ChangeSpec(metadata={"tx": "transaction"}))
    message = '{"type":"update","xid":5,"data":{"id":1,"tx":"mine"},"old":{"tx":"old"}}'
    assert decoding.rows(message) == [("-U", 1, "5"), ("+U", 1, "5")]


def test_metadata_of_another_type_is_refused() -> None:
    decoding = Decoding("maxwell-json", "id bigint, at timestamp", changes=ChangeSpec(metadata={"at": "commit_time"}))
    message = '{"type":"insert","ts":"soon","data":{"id":1}}'
    assert (decoding.refusal(message) or "").startswith("column 'at': timestamp wanted, not 'soon' (write YYYY-MM-DD")
