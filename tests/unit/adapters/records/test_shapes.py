"""Shapes: which records they cover, and what they leave to the strict decoder. The rows are the same in any case."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from headwater.adapters.records.decoder import Record, RecordDecoder
from headwater.adapters.records.shapes import template
from headwater.adapters.records.shapes.decoder import ShapeDecoder
from headwater.domain.source.changelog.settings import CANAL, DEBEZIUM, MAXWELL, ChangeSpec
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

SPEC = RecordSpec(Schema.parse("id bigint, name string, price decimal(10,2), share double, at timestamp"))
RECORD = '{"id": %d, "name": "one", "price": 1.50, "share": 0.5, "at": "2026-01-01 00:00:00"}'
COMMON = [RECORD % at for at in range(50)]


@pytest.fixture(autouse=True, params=["native", "patterns"])
def _matcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without compiled code."""
    if request.param == "patterns":
        monkeypatch.setattr(template, "native_matcher", lambda _holes, _tail: None)


def decoded(spec: RecordSpec, texts: Sequence[str | bytes | None]) -> tuple[list[dict[str, Any]], int]:
    """The rows of records, and how many records had no shape; the strict decoder gives the same rows."""
    raws = (text.encode() if isinstance(text, str) else text for text in texts)
    records = [Record(raw, 1000 * at, f"orders/0@{at}") for at, raw in enumerate(raws)]
    decoder = ShapeDecoder(spec, least=1, few=10)
    left = Counter[str]()
    strictly = decoder._strict.batches

    def counted(records: Any) -> Any:
        some = list(records)
        left["records"] += len(some)
        return strictly(some)

    decoder._strict = _Counted(counted)  # type: ignore[assignment]
    rows = decoder.batch(records).to_pylist()
    assert rows == RecordDecoder(spec).batch(records).to_pylist()
    return rows, left["records"]


class _Counted:
    def __init__(self, batches: Any) -> None:
        self.batches = batches


def test_records_of_one_form_have_a_shape() -> None:
    rows, left = decoded(SPEC, COMMON)
    assert (len(rows), left) == (50, 0)
    assert [row["id"] for row in rows] == list(range(50))


@pytest.mark.parametrize(
    "name", ["plain", r"a \"quoted\" one", r"c:\\n and a line\n", r"a\/b\t", "né中😀", "", "\u2028", "a\x7fb"]
)
def test_texts_that_shapes_cover(name: str) -> None:
    texts = [*COMMON, RECORD.replace('"one"', f'"{name}"') % 50]
    rows, left = decoded(SPEC, texts)
    assert left == 0
    assert rows[-1]["name"] == json.loads(f'"{name}"')


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"one"', r'"\u0041"'),
        ('"one"', r'"\ud800"'),
        ('"one"', '{"k": 1.10}'),
        ('"one"', '"__debezium_unavailable_value"'),
        ('"one"', r'"{\"__debezium_unavailable_value\":\"__debezium_unavailable_value\"}"'),
        ("1.50", "1.500"),
        ("1.50", "1.505"),
        ("1.50", "1e2"),
        ("1.50", "123456789.00"),
        ("0.5", "1e400"),
        ("0.5", "NaN"),
        ("0.5", "-0"),
        ('"id": 50', '"id": 9223372036854775808'),
        ('"id": 50', '"id": 1.0'),
        ('"id": 50', '"id": 007'),
        ('"id": 50', '"id": 50, "id": 51'),
        ('"id": 50, ', ""),
        ("{", "{ "),
        ("}", ",}"),
        ("}", "} x"),
        ("00:00:00", "24:00:00"),
        ("00:00:00", "00:00:60"),
        ("2026-01-01", "2026-02-29"),
        ("2026-01-01", "0000-01-01"),
        ("2026-01-01", "\uff12026-01-01"),
    ],
)
def test_what_shapes_leave_to_the_strict_decoder(old: str, new: str) -> None:
    odd = (RECORD % 50).replace(old, new)
    rows, left = decoded(SPEC, [*COMMON[:20], odd, None, b'{"id": "\xff"}', *COMMON[20:]])
    assert left == 3
    assert rows[20]["_raw"] == odd
    assert [row["_position"] for row in rows] == [1000 * at for at in range(53)]


def test_a_number_with_more_digits_than_python_reads() -> None:
    extra = [text.replace('{"id"', '{"extra": 1, "id"') for text in COMMON]
    _, left = decoded(SPEC, [*extra, extra[0].replace('"extra": 1', f'"extra": {"1" * 5000}')])
    assert left == 1


@pytest.mark.parametrize(
    ("type_", "left"), [("varchar(9)", 0), ("enum('sad','ok')", 20), ("set('a')", 20), ("enum", 20)]
)
def test_the_numbers_of_labels_are_left_to_the_strict_decoder(type_: str, left: int) -> None:
    spec = RecordSpec(Schema.parse("id bigint, n string"), "canal-json")
    text = '{"data":[{"id":"%d","n":"1"}],"mysqlType":{"id":"bigint","n":"%s"},"type":"INSERT"}'
    common = [text % (at, "varchar(9)") for at in range(30)]
    rows, found = decoded(spec, [*common, *(text % (at, type_) for at in range(30, 50))])
    assert (len(rows), found) == (50, left)


def test_numbers_that_round_to_the_largest_float_have_a_shape_and_larger_ones_are_left() -> None:
    spec = RecordSpec(Schema.parse("f float"))
    digits = ["1.5", "340282350000000000000000000000000000000", "-340282350000000000000000000000000000000"]
    texts = [f'{{"f": {each}}}' for each in (*["0.5"] * 50, *digits, 2**128 - 2**103, "3.4028235E38")]
    rows, left = decoded(spec, texts)
    largest = (2 - 2**-23) * 2.0**127
    assert [row["f"] for row in rows[50:]] == [1.5, largest, -largest, None, largest]
    assert left == 2


def test_an_hour_with_two_offsets_is_left() -> None:
    spec = RecordSpec(SPEC.schema, time_zone="Europe/Berlin")
    times = ["2026-03-29 01:30:00", "2026-03-29 02:30:00", "2026-10-25 02:30:00", "2026-07-01 00:00:00"]
    rows, left = decoded(spec, [*COMMON, *(COMMON[0].replace("2026-01-01 00:00:00", time) for time in times)])
    assert left == 2
    assert rows[0]["at"].isoformat() == "2025-12-31T23:00:00+00:00"


def test_nulls_before_the_first_value() -> None:
    nulls = [text.replace('"one"', "null") for text in COMMON]
    rows, left = decoded(SPEC, [*nulls, *COMMON])
    assert left == 0
    assert [row["name"] for row in rows] == [None] * 50 + ["one"] * 50


def test_null_and_absent_are_told_apart() -> None:
    spec = RecordSpec(SPEC.schema, tells_absent=True)
    absent = [text.replace('"name": "one", ', "") for text in COMMON]
    null = COMMON[0].replace('"one"', "null")
    rows, left = decoded(spec, [*COMMON, null, *absent])
    assert left == 0
    assert [row["_absent"] for row in rows] == [None] * 51 + ["`name`"] * 50


def test_a_message_of_another_table_is_counted() -> None:
    spec = RecordSpec(SPEC.schema, MAXWELL, changes=ChangeSpec([r"shop\.orders"]))
    message = '{"database": "shop", "table": "%s", "type": "insert", "data": %s}'
    texts = [message % ("orders" if at % 2 else "carts", text) for at, text in enumerate(COMMON)]
    passed_over = Counter[str]()
    decoder = ShapeDecoder(spec, passed_over, least=1, few=1)
    batch = decoder.batch([Record(text.encode(), 1000 * at, "o") for at, text in enumerate(texts)])
    assert batch.num_rows == 25
    assert passed_over == {"shop.carts": 25}


def test_the_images_of_an_update_come_in_order() -> None:
    spec = RecordSpec(SPEC.schema, MAXWELL)
    message = '{"database": "shop", "table": "orders", "type": "update", "data": %s, "old": {"name": null}}'
    rows, left = decoded(spec, [message % text for text in COMMON])
    assert left == 0
    assert [row["_row_kind"] for row in rows] == ["-U", "+U"] * 50
    assert [row["name"] for row in rows] == [None, "one"] * 50
    assert [row["_position"] for row in rows[:4]] == [0, 1, 1000, 1001]


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        (MAXWELL, '{"type": "table-alter"}'),
        (CANAL, '{"type": "QUERY"}'),
        (DEBEZIUM, '{"ts_ms": 5}'),
        (DEBEZIUM, None),
        (MAXWELL, "null"),
    ],
    ids=["maxwell", "canal", "debezium", "tombstones", "nulls"],
)
def test_messages_none_of_which_has_a_row(format_: str, text: str | None) -> None:
    assert decoded(RecordSpec(Schema.parse("id bigint"), format_), [text] * 50) == ([], 50)


def test_several_rows_in_a_message_are_left() -> None:
    spec = RecordSpec(SPEC.schema, CANAL)
    message = '{"data": [%s], "database": "shop", "table": "orders", "type": "INSERT", "isDdl": false, "es": 1}'
    rows, left = decoded(spec, [message % text for text in COMMON] + [message % f"{COMMON[0]}, {COMMON[1]}"])
    assert (len(rows), left) == (52, 1)


@pytest.mark.parametrize("enveloped", [False, True])
def test_debezium(*, enveloped: bool) -> None:
    spec = RecordSpec(Schema.parse("id bigint, at timestamp, day date"), DEBEZIUM)
    described = [
        {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
    ]
    schema = json.dumps({"fields": [{"field": side, "fields": described} for side in ("before", "after")]})
    number = 1_767_225_600_000_000 if enveloped else 1_767_225_600_000
    image = f'{{"id": 1, "at": {number}, "day": 20454}}'
    message = f'{{"before": {image}, "after": {image}, "source": {{"db": "shop", "table": "orders"}}, "op": "u"}}'
    text = f'{{"schema": {schema}, "payload": {message}}}' if enveloped else message
    rows, left = decoded(spec, [text] * 30)
    assert (len(rows), left) == (60, 0)
    assert (rows[0]["at"].isoformat(), rows[0]["day"].isoformat()) == ("2026-01-01T00:00:00+00:00", "2026-01-01")


def test_a_z_that_is_not_an_offset_is_left() -> None:
    spec = RecordSpec(Schema.parse("at timestamp"), DEBEZIUM, time_zone="Asia/Shanghai")
    described = [{"field": "at", "type": "string", "name": "io.debezium.time.IsoTimestamp"}]
    message = {"before": None, "after": {"at": "2026-01-01T00:00:00Z"}, "source": {"db": "d", "table": "t"}, "op": "c"}
    text = json.dumps({"schema": {"fields": [{"field": "after", "fields": described}]}, "payload": message})
    rows, left = decoded(spec, [text] * 30)
    assert (rows[0]["at"].isoformat(), left) == ("2025-12-31T16:00:00+00:00", 30)


def test_a_field_of_which_one_column_takes_all_and_another_a_part_is_left() -> None:
    """The transaction's name is the whole GTID; the server in it names the log, if there is one."""
    metadata, added = {"tx": "transaction"}, Schema.parse("id bigint, tx string")
    spec = RecordSpec(added, DEBEZIUM, changes=ChangeSpec(key=("id",), metadata=metadata), tells_log=True)
    source = {"db": "shop", "table": "orders", "ts_ms": 1, "server_id": 1, "file": "bin.1", "pos": 4, "row": 0}
    gtids = [*["none"] * 30, *(f"3e11fa47-71ca-11e1:{at}" for at in range(30))]
    sources = ({**source, "gtid": each} for each in gtids)
    texts = [json.dumps({"before": None, "after": {"id": 1}, "source": each, "op": "c"}) for each in sources]
    rows, left = decoded(spec, texts)
    assert ({row["_log"] for row in rows}, left) == ({"bin 1", "bin 1 3e11fa47-71ca-11e1"}, 60)


@pytest.mark.parametrize("format_", [DEBEZIUM, MAXWELL])
def test_the_next_file_of_a_log_has_the_same_shape(format_: str) -> None:
    key = {"key": ("id",)} if format_ == DEBEZIUM else {}
    changes = ChangeSpec(metadata={"file": "log_file"}, **key)  # type: ignore[arg-type]
    spec = RecordSpec(Schema.parse("id bigint, file string"), format_, changes=changes, tells_log=True)
    files = [f"bin.{at // 10:06}" for at in range(60)]
    if format_ == DEBEZIUM:
        source = {"db": "shop", "table": "orders", "ts_ms": 1, "pos": 4, "row": 0}
        messages = [
            {"before": None, "after": {"id": 1}, "source": source | {"file": each}, "op": "c"} for each in files
        ]
    else:
        head = {"database": "shop", "table": "orders", "type": "insert", "ts": 1, "xid": 1, "xoffset": 3}
        messages = [head | {"position": f"{each}:4", "data": {"id": 1}} for each in files]
    rows, left = decoded(spec, [json.dumps(each) for each in messages])
    assert (rows[-1]["_log"], rows[-1]["_log_file"], rows[-1]["file"], left) == ("bin", 5, "bin.000005", 0)


def test_a_schema_with_a_number_that_its_parser_does_not_read_is_left() -> None:
    spec = RecordSpec(Schema.parse("id bigint"), DEBEZIUM, changes=ChangeSpec(key=("id",)))
    schema = '{"type": "struct", "fields": [], "version": 1e400}'
    payload = '{"before": null, "after": {"id": %d}, "source": {"db": "shop", "table": "orders"}, "op": "c"}'
    rows, left = decoded(spec, [f'{{"schema":{schema},"payload":{payload % at}}}' for at in range(30)])
    assert (len(rows), left) == (30, 30)


def test_records_without_any_form_in_common_go_to_the_strict_decoder() -> None:
    texts = [json.dumps({f"key {at}": at, "id": at}) for at in range(200)]
    rows, left = decoded(SPEC, texts)
    assert [row["id"] for row in rows] == list(range(200))
    assert left >= 150


@pytest.mark.parametrize("columns", [1, 40])
def test_wide_rows(columns: int) -> None:
    spec = RecordSpec(Schema.parse(", ".join(f"c{at} int" for at in range(columns))))
    texts = [json.dumps({f"c{at}": at * row for at in range(columns)}) for row in range(30)]
    assert decoded(spec, texts)[1] == 0


def test_records_that_no_shape_covers_are_not_tried_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text.replace('"one"', r'"\u0041"') for text in COMMON]
    records = [Record(text.encode(), 1000 * at, "o") for at, text in enumerate(texts)]
    decoder, tried = ShapeDecoder(SPEC, least=1, few=1), Counter[str]()
    decoded_by_shapes = ShapeDecoder._decoded

    def counted(self: ShapeDecoder, chunk: Any) -> Any:
        tried["chunks"] += 1
        return decoded_by_shapes(self, chunk)

    monkeypatch.setattr(ShapeDecoder, "_decoded", counted)
    expected = RecordDecoder(SPEC).batch(records)
    assert all(decoder.batch(records) == expected for _ in range(24))
    assert 4 < tried["chunks"] < 12


@pytest.mark.parametrize(
    ("unit", "zone", "left"), [("ms", "UTC", 0), ("s", "UTC", 0), ("ns", "UTC", 41), ("ms", "Asia/Tokyo", 41)]
)
def test_numeric_times_of_plain_json(unit: str, zone: str, left: int) -> None:
    spec = RecordSpec(Schema.parse("id bigint, at timestamp"), time_zone=zone, changes=ChangeSpec(time_unit=unit))
    one = 1_709_164_800 * {"s": 1, "ms": 1_000, "ns": 1_000_000_000}[unit]
    texts = [f'{{"id": {at}, "at": {one}}}' for at in range(40)]
    rows, found = decoded(spec, [*texts, '{"id": 40, "at": null}'])
    assert {str(row["at"]) for row in rows} == {"2024-02-29 00:00:00+00:00", "None"}
    assert found == left
    rows, found = decoded(spec, [*texts, '{"id": 40, "at": 9223372036854775807}', '{"id": 41, "at": 1.5}'])
    assert ["out of range" in str(rows[40]["_error"]), "not 1.5" in str(rows[41]["_error"])] == [unit != "ns", True]
