"""Avro in Confluent's wire format: what becomes of its types, of schemas that change, and of registries that fail."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from headwater.adapters.kafka.decoder import RegistryDeadLetters, registry_decoder
from headwater.adapters.kafka.registry import Registry
from headwater.adapters.kafka.settings import KafkaSettings
from headwater.adapters.records.decoder import Record
from headwater.domain.errors import ConfigError, SourceUnavailable
from headwater.domain.source.changelog.settings import DEBEZIUM, ChangeSpec
from headwater.domain.source.record_spec import AVRO, RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW
from tests.schema_registry import SchemaRegistry, schema_registry

from .conftest import Engine, read_explained, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headwater.testing.kafka_broker import KafkaBroker


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def record(*fields: tuple[str, Any], name: str = "Order") -> dict[str, Any]:
    named = [{"name": each, "type": type_} for each, type_ in fields]
    return {"type": "record", "name": name, "namespace": "shop", "fields": named}


def spec(ddl: str, **more: Any) -> RecordSpec:
    return RecordSpec(Schema.parse(ddl), encoding=AVRO, **more)


def decoded(registry: SchemaRegistry, declared: RecordSpec, *messages: bytes | None) -> list[dict[str, Any]]:
    records = [Record(raw, at, "here") for at, raw in enumerate(messages)]
    return list(registry_decoder(declared, Registry(registry.url)).batch(records).to_pylist())


def logical(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **more}


ORDER = record(
    ("id", "int"),
    ("name", ["null", "string"]),
    ("paid", "boolean"),
    ("weight", "float"),
    ("score", "double"),
    ("amount", logical("bytes", "decimal", precision=12, scale=2)),
    ("day", ["null", logical("int", "date")]),
    ("millis", logical("long", "timestamp-millis")),
    ("micros", logical("long", "timestamp-micros")),
    ("local", logical("long", "local-timestamp-micros")),
    ("uuid", logical("string", "uuid")),
    ("state", {"type": "enum", "name": "State", "symbols": ["new", "paid"]}),
    ("data", {"type": "fixed", "name": "Two", "size": 2}),
    ("more", {"type": "map", "values": {"type": "array", "items": "long"}}),
    ("left_out", "string"),
)
VALUES = {
    "id": 7,
    "name": "né",
    "paid": True,
    "weight": 1.5,
    "score": float("nan"),
    "amount": Decimal("-12.30"),
    "day": date(2024, 5, 1),
    "millis": datetime(2024, 5, 1, 12, 0, 0, 123_000, UTC),
    "micros": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    "local": datetime(2024, 5, 1, 12),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "state": "paid",
    "data": b"\xff\x00",
    "more": {"a": [1, 2]},
    "left_out": "x",
}
COLUMNS = (
    "id bigint, name string, paid boolean, weight float, score double, amount decimal(18,4), day date, millis timestamp,"
    " micros timestamp, local timestamp_ntz, uuid string, state string, data binary, more string, absent int"
)


def test_every_type_and_its_text(registry: SchemaRegistry) -> None:
    registry.add(258, ORDER)
    whole, nulls = decoded(
        registry,
        spec(COLUMNS),
        registry.message(258, VALUES),
        registry.message(258, {**VALUES, "name": None, "day": None, "score": 1.0}),
    )
    values = {name: whole[name] for name in Schema.parse(COLUMNS).names}
    assert str(values.pop("score")) == "nan"
    assert values == {
        **{name: value for name, value in VALUES.items() if name not in {"left_out", "score"}},
        "amount": Decimal("-12.3000"),
        "uuid": str(VALUES["uuid"]),
        "more": '{"a":[1,2]}',
        "absent": None,
    }
    assert (nulls["name"], nulls["day"], nulls["score"]) == (None, None, 1.0)
    assert (whole["_row_kind"], whole["_error"], whole["_bytes"]) == ("+I", None, registry.message(258, VALUES))
    shown = json.loads(whole["_raw"])
    assert (shown["millis"], shown["amount"], shown["left_out"]) == ("2024-05-01T12:00:00.123000Z", -12.3, "x")
    assert registry.asked == ["/schemas/ids/258"]


@pytest.mark.parametrize(
    ("kind", "column", "number", "shown"),
    [
        ("date", "date", 2_932_897, "+10000-01-01"),
        ("date", "date", -719_163, "+0000-12-31"),
        ("timestamp-millis", "timestamp", 253_402_300_800_001, "+10000-01-01T00:00:00.001000Z"),
        ("timestamp-micros", "timestamp", 2**62, "+148108-07-06T14:00:27.387904Z"),
        ("local-timestamp-millis", "timestamp_ntz", -(2**62), "-146136543-09-08T08:23:32.096000"),
        ("local-timestamp-micros", "timestamp_ntz", -62_135_596_800_000_001, "+0000-12-31T23:59:59.999999"),
    ],
)
def test_a_time_that_does_not_exist_is_refused_by_its_column_alone(
    registry: SchemaRegistry, kind: str, column: str, number: int, shown: str
) -> None:
    type_ = "int" if kind == "date" else "long"
    registry.add(1, record(("id", "int"), ("at", logical(type_, kind))))
    registry.add(2, record(("id", "int"), ("at", type_)))
    message = b"\0\0\0\0\1" + registry.message(2, {"id": 7, "at": number})[5:]
    (refused,) = decoded(registry, spec(f"id int, at {column}"), message)
    assert refused["_error"].startswith(f"column 'at': {column} wanted, not '{shown}'")
    (whole,) = decoded(registry, spec("id int, at string"), message)
    assert (whole["id"], whole["at"], whole["_error"]) == (7, shown, None)


@pytest.mark.parametrize(
    ("kind", "type_", "second", "shown"),
    [("time-millis", "int", 1_000, "23:59:59.999000"), ("time-micros", "long", 1_000_000, "23:59:59.999999")],
)
def test_a_time_of_a_day(registry: SchemaRegistry, kind: str, type_: str, second: int, shown: str) -> None:
    registry.add(1, record(("at", logical(type_, kind))))
    registry.add(2, record(("at", type_)))
    numbers = (0, 86_400 * second - 1, -1, -second, 86_400 * second, -90_061 * second)
    messages = [b"\0\0\0\0\1" + registry.message(2, {"at": number})[5:] for number in numbers]
    first, last, tiny, *beyond = (row["at"] for row in decoded(registry, spec("at string"), *messages))
    assert (first, last) == ("00:00:00", shown)
    assert tiny == f"-00:00:00.{1_000_000 // second:06}"
    assert beyond == ["-00:00:01", "24:00:00", "-25:01:01"]


def test_each_message_is_read_with_the_schema_it_was_written_with(registry: SchemaRegistry) -> None:
    registry.add(1, record(("id", "int")))
    registry.add(2, record(("name", "string"), ("id", "long"), ("at", logical("long", "timestamp-millis"))))
    registry.add(3, record(("id", ["null", "string"])))
    found = decoded(
        registry,
        spec("id bigint, name string, at timestamp_ntz"),
        registry.message(1, {"id": 1}),
        registry.message(2, {"id": 2**40, "name": "n", "at": 0}),
        registry.message(3, {"id": "x"}),
        registry.message(3, {"id": None}),
        registry.message(1, {"id": 2}),
    )
    assert [(row["id"], row["name"]) for row in found] == [
        (1, None),
        (None, None),
        (None, None),
        (None, None),
        (2, None),
    ]
    assert [row["_error"] and row["_error"][:40] for row in found] == [
        None,
        "column 'at': timestamp_ntz wanted, not '",
        "column 'id': bigint wanted, not 'x'",
        None,
        None,
    ]


def test_bytes_are_never_a_text_and_a_text_is_never_bytes(registry: SchemaRegistry) -> None:
    """A text may look like Base64; Avro's own rules allow a field to change from the one to the other."""
    declared = spec("data binary, name string, parts array<binary>, words array<string>, all string")
    texts, several = {"type": "array", "items": "string"}, {"type": "array", "items": "bytes"}
    right = (("data", "bytes"), ("name", "string"), ("parts", several), ("words", texts), ("all", several))
    registry.add(1, record(*right))
    for number, changed in enumerate((("data", "string"), ("name", "bytes"), ("parts", texts), ("words", several)), 2):
        registry.add(number, record(*{**dict(right), **dict([changed])}.items()))
    values = {"data": b"abcd", "name": "abcd", "parts": [b"\xff", b""], "words": ["YWJj"], "all": [b"\xff"]}
    found = decoded(
        registry,
        declared,
        registry.message(1, values),
        registry.message(2, values | {"data": "abcd"}),
        registry.message(3, values | {"name": b"abcd"}),
        registry.message(4, values | {"parts": ["abcd"]}),
        registry.message(5, values | {"words": [b"\xff"]}),
    )
    assert {name: found[0][name] for name in values} == values | {"all": '["/w=="]'}
    assert [row["_error"] for row in found] == [
        None,
        "column 'data': binary wanted, not 'abcd' (a text; declare the column as string)",
        "column 'name': string wanted, not b'abcd' (bytes; declare the column as binary)",
        "column 'parts[0]': binary wanted, not 'abcd' (a text; declare the column as string)",
        "column 'words[0]': string wanted, not b'\\xff' (bytes; declare the column as binary)",
    ]
    assert json.loads(found[2]["_raw"])["name"] == "YWJjZA=="


def test_a_number_that_would_lose_value_is_a_dead_letter(registry: SchemaRegistry) -> None:
    types = {"i": "int", "l": "long", "f": "float", "d": "double", "u": ["null", "long", "double"]}
    registry.add(1, record(*types.items()))
    exact = {"i": 2**24, "l": -(2**53), "f": 0.5, "d": -(2.0**-149), "u": 2**60}
    odd = {"f": float("nan"), "d": float("-inf"), "u": 0.1}
    declared = spec("i float, l double, f double, d float, u double")
    found = decoded(registry, declared, registry.message(1, exact), registry.message(1, exact | odd))
    assert [row["_error"] for row in found] == [None, None]
    assert {name: found[0][name] for name in exact} == exact
    assert [str(found[1][name]) for name in "fdu"] == ["nan", "-inf", "0.1"]
    lost = {"i": 2**24 + 1, "l": 2**53 + 1, "d": 0.1, "u": 2**63 - 1}
    refused = decoded(registry, declared, *(registry.message(1, exact | {name: lost[name]}) for name in lost))
    rounded = "it would become {}; declare a type that has all its digits"
    assert [row["_error"] for row in refused] == [
        f"column 'i': float wanted, not 16777217 ({rounded.format('16777216.0')})",
        f"column 'l': double wanted, not 9007199254740993 ({rounded.format('9007199254740992.0')})",
        f"column 'd': float wanted, not 0.1 ({rounded.format('0.10000000149011612')})",
        f"column 'u': double wanted, not 9223372036854775807 ({rounded.format('9.223372036854776e+18')})",
    ]


def test_numbers_that_json_lacks_are_texts_of_their_own(registry: SchemaRegistry) -> None:
    numbers = [float("nan"), float("inf"), float("-inf"), 1.5]
    item = record(("x", "double"), ("y", ["null", "int"]), name="Item")
    registry.add(
        1,
        record(*((name, "double") for name in "abcd"), ("list", {"type": "array", "items": "double"}), ("item", item)),
    )
    values = {**dict(zip("abcd", numbers, strict=True)), "list": numbers, "item": {"x": numbers[0], "y": None}}
    (text,) = decoded(
        registry, spec("a string, b string, c string, d string, list string, item string"), registry.message(1, values)
    )
    assert [text[name] for name in "abcd"] == ["NaN", "Infinity", "-Infinity", "1.5"]
    assert (text["list"], text["item"]) == ('["NaN","Infinity","-Infinity",1.5]', '{"x":"NaN","y":null}')
    (inside,) = decoded(registry, spec("list array<string>"), registry.message(1, values))
    assert inside["list"] == ["NaN", "Infinity", "-Infinity", "1.5"]


def test_a_schema_may_refer_to_others(registry: SchemaRegistry) -> None:
    place = record(("city", "string"), name="Place")
    order = record(("id", "int"), ("place", "shop.Place"))
    registry.add(1, order, references=[{"name": "shop.Place", "subject": "a/b", "version": 3}])
    registry.answers["/subjects/a%2Fb/versions/3"] = {"schema": json.dumps(place)}
    message = registry.message(1, {"id": 1, "place": {"city": "x"}}, record(("id", "int"), ("place", place)))
    (row,) = decoded(registry, spec("id int, place string"), message)
    assert (row["id"], row["place"]) == (1, '{"city":"x"}')


def test_a_decimal_has_all_its_digits_whatever_the_precision_says(registry: SchemaRegistry) -> None:
    def order(precision: int, type_: Any) -> Any:
        return record(("d", logical(type_, "decimal", precision=precision, scale=2)))

    fixed = {"type": "fixed", "name": "Nine", "size": 9}
    registry.add(1, order(4, "bytes"))
    registry.add(2, record(("d", {**fixed, "logicalType": "decimal", "precision": 4, "scale": 2})))
    registry.add(3, order(1000, "bytes"))
    digits = Decimal("123456.78")
    wide = record(("d", {**fixed, "logicalType": "decimal", "precision": 20, "scale": 2}))
    exact = [registry.message(1, {"d": digits}, order(20, "bytes")), registry.message(2, {"d": -digits}, wide)]
    long = registry.message(3, {"d": Decimal("1" * 39 + ".11")})
    found = decoded(registry, spec("d decimal(18,2)"), *exact, long)
    assert [row["d"] for row in found] == [digits, -digits, None]
    assert found[2]["_error"].startswith("column 'd': decimal(18,2) wanted, not 1111")


@pytest.mark.parametrize(
    "text", ["0123456789ABCDEF0123456789ABCDEF", "{6F9619FF-8B86-D011-B42D-00C04FC964FF}", "a", ""]
)
def test_the_text_of_a_uuid_is_as_it_was_sent(registry: SchemaRegistry, text: str) -> None:
    registry.add(1, record(("u", ["null", logical("string", "uuid")])))
    (row,) = decoded(registry, spec("u string"), registry.message(1, {"u": text}, record(("u", ["null", "string"]))))
    assert (row["u"], row["_error"], json.loads(row["_raw"])) == (text, None, {"u": text})


def test_a_uuid_may_be_16_bytes(registry: SchemaRegistry) -> None:
    def order(size: int) -> Any:
        return record(
            ("u", {"type": "fixed", "name": "Id", "size": size}), ("many", {"type": "array", "items": "shop.Id"})
        )

    def with_uuids(size: int) -> Any:
        made = order(size)
        made["fields"][0]["type"]["logicalType"] = "uuid"
        return made

    registry.add(1, with_uuids(16))
    registry.add(2, with_uuids(2))
    uuid = uuid4()
    message = registry.message(1, {"u": uuid.bytes, "many": [uuid.bytes]}, order(16))
    (row,) = decoded(registry, spec("u string, many array<string>"), message)
    assert (row["u"], row["many"]) == (str(uuid), [str(uuid)])
    (short,) = decoded(registry, spec("u binary"), registry.message(2, {"u": b"ab", "many": []}, order(2)))
    assert short["u"] == b"ab"


def test_a_schema_may_be_a_name_or_a_union_of_names(registry: SchemaRegistry) -> None:
    """Confluent's way to have several types of events in a topic is a union of references."""
    person, place = record(("name", "string"), name="Person"), record(("city", "string"), name="Place")
    for name, each in (("Person", person), ("Place", place)):
        registry.answers[f"/subjects/{name}/versions/1"] = {"schema": json.dumps(each)}
    references = [{"name": f"shop.{name}", "subject": name, "version": 1} for name in ("Person", "Place")]
    registry.add(1, ["shop.Person", "shop.Place"], references=references)
    registry.add(2, "shop.Person", references=references[:1])
    registry.add(3, [person, place])
    found = decoded(
        registry,
        spec("name string, city string"),
        registry.message(1, {"name": "Ann"}, [person, place]),
        registry.message(1, {"city": "Ulm"}, [person, place]),
        registry.message(2, {"name": "Bob"}, person),
        registry.message(3, {"city": "Bern"}),
    )
    assert [(row["name"], row["city"], row["_error"]) for row in found] == [
        ("Ann", None, None),
        (None, "Ulm", None),
        ("Bob", None, None),
        (None, "Bern", None),
    ]


def test_a_message_that_contains_itself_too_often_is_a_dead_letter(registry: SchemaRegistry) -> None:
    item = record(
        ("id", "int"), ("amount", logical("bytes", "decimal", precision=5, scale=2)), ("next", ["null", "Order"])
    )
    registry.add(1, item)
    registry.add(2, record(("item", "shop.Order"), name="Box"), references=[{"subject": "item", "version": 1}])
    registry.answers["/subjects/item/versions/1"] = {"schema": json.dumps(item)}
    registry.add(3, record(("next", "Order")))
    short, long = (b"\x02\x02\x01\x02" * levels + b"\x02\x02\x01\x00" for levels in (2, 50_000))
    header = [b"\0\0\0\0" + bytes([number]) for number in (1, 2, 3)]
    declared = spec("id int, amount decimal(5,2), next string, item string")
    fine, *deep, without_end = decoded(
        registry, declared, header[0] + short, header[0] + long, header[1] + long, header[2] + b"x"
    )
    assert (fine["id"], fine["amount"], fine["_error"]) == (1, Decimal("0.01"), None)
    assert json.loads(fine["next"])["next"] == {"id": 1, "amount": 0.01, "next": None}
    for row in (*deep, without_end):
        assert row["_error"] == "nested too deeply"
        assert row["_bytes"]


def test_what_cannot_be_decoded_is_a_dead_letter_and_is_read_again(registry: SchemaRegistry) -> None:
    registry.add(1, ORDER)
    registry.add(2, record(("id", "int")), schemaType="PROTOBUF")
    registry.add(3, {"type": "nonsense"})
    registry.add(4, "int")
    good, late = registry.message(1, VALUES), registry.message(1, VALUES | {"millis": 2**60})
    wrong = [good[:-1], good + b"x", late, *(b"\0\0\0\0" + bytes([id_]) + b"\2" for id_ in (2, 3, 4))]
    declared = spec("id bigint, name int")
    found = decoded(registry, declared, b'{"id": 1}', b"\0\0", b"", None, *wrong, good)
    header = "not Avro in Confluent's wire format, which begins with a zero byte and the id of a schema"
    told = [row["_error"] for row in found]
    assert told[:4] == [header, header, header, "no value: a tombstone says nothing in plain json"]
    assert [each.split(":")[0] for each in told[4:6]] == ["not a record of schema 1"] * 2
    assert told[6] == "column 'name': int wanted, not 'né'"
    assert told[5].endswith(": 1 bytes are left")
    assert told[7:9] == [
        "schema 2: it is of type PROTOBUF, not AVRO",
        "schema 3: it is not a valid Avro schema: {'type': 'nonsense'}",
    ]
    assert told[9:] == ["schema 4 is not that of a record", "column 'name': int wanted, not 'né'"]
    letters = registry_decoder(declared, Registry(registry.url)).batch(
        [Record(good, 0, "here"), Record(wrong[0], 9, "there")]
    )
    chosen = letters.select(["_row_kind", "_origin", "_raw", "_bytes"]).rename_columns(
        ["row_kind", "origin", "raw", "bytes"]
    )
    (again,) = RegistryDeadLetters(spec("id bigint, name string"), Registry(registry.url))([chosen], 5)
    fixed, broken = again.to_pylist()
    assert (fixed["id"], fixed["name"], fixed["_position"], fixed["_origin"]) == (7, "né", 5, "here")
    assert broken["_error"].startswith("not a record of schema 1")


def test_a_registry_that_fails_is_told_and_asked_again(registry: SchemaRegistry) -> None:
    order = record(("id", "int"))
    message, declared = registry.message(9, {"id": 1}, order), spec("id int")
    with pytest.raises(SourceUnavailable, match=r"the schema registry at 127.0.0.1:\d+ has no schema 9: register it"):
        decoded(registry, declared, message)
    registry.add(9, order)
    assert decoded(registry, declared, message)[0]["id"] == 1
    registry.add(8, order)
    registry.auth = "Basic bWU6c2VjcmV0"
    other = registry.message(8, {"id": 1})
    with pytest.raises(ConfigError, match=r"refuses the credentials \(HTTP status 401\): set registry_auth or"):
        decoded(registry, declared, other)
    allowed = Registry(registry.url, "me:secret")
    assert registry_decoder(declared, allowed).batch([Record(other, 0, "")]).to_pylist()[0]["id"] == 1
    assert "secret" not in repr(allowed)
    registry.auth = None
    registry.answers |= {"/schemas/ids/7": {"no": "schema"}, "/schemas/ids/6": b"<html>"}
    for unknown in (b"\0\0\0\0\7\2", b"\0\0\0\0\6\2"):
        with pytest.raises(SourceUnavailable, match="is not one, by its answer; correct the source's `registry`"):
            decoded(registry, declared, unknown)
    with pytest.raises(
        SourceUnavailable, match=r"at 127.0.0.1:1 does not answer \(.*\); is it up, and is the source's"
    ):
        registry_decoder(declared, Registry("http://127.0.0.1:1/")).batch([Record(message, 0, "")])


@pytest.mark.parametrize(
    ("part", "why"),
    [(b" ", r"its answer takes longer than 0\.5 seconds"), (b"", r"IncompleteRead\(3 bytes read, 37 more expected\)")],
)
def test_a_registry_that_does_not_come_to_an_end_is_told(
    part: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.adapters.kafka.registry._ANSWER_SECONDS", 0.5)
    done = Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):  # the other side goes first
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{} ")
            while part and not done.wait(0.1):
                connection.sendall(part)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Thread(target=serve)
        server.start()
        with pytest.raises(SourceUnavailable, match=f"does not answer \\({why}\\); is it up"):
            Registry(f"http://127.0.0.1:{listening.getsockname()[1]}").answer("/schemas/ids/1", "schema 1")
        done.set()
        server.join()


def connect(type_: str, name: str, **more: Any) -> list[Any]:
    return ["null", {"type": type_, "connect.version": 1, "connect.name": name, **more}]


def envelope() -> dict[str, Any]:
    row = record(
        ("id", "long"),
        (
            "amount",
            connect("bytes", "org.apache.kafka.connect.data.Decimal", logicalType="decimal", precision=9, scale=2),
        ),
        ("day", connect("int", "io.debezium.time.Date")),
        ("micros", connect("long", "io.debezium.time.MicroTimestamp")),
        ("wall", connect("long", "org.apache.kafka.connect.data.Timestamp", logicalType="timestamp-millis")),
        ("zoned", connect("string", "io.debezium.time.ZonedTimestamp")),
        name="Value",
    )
    source = record(("db", "string"), ("table", "string"), ("ts_ms", "long"), name="Source")
    fields = (("before", ["null", row]), ("after", ["null", "shop.Value"]), ("source", source), ("op", "string"))
    return record(*fields, name="Envelope")


def test_debezium_in_avro_is_what_it_is_in_json(registry: SchemaRegistry) -> None:
    registry.add(1, envelope())
    first = {
        "id": 1,
        "amount": Decimal("1.50"),
        "day": 1,
        "micros": 1_000_000,
        "wall": 0,
        "zoned": "2024-05-01T12:00:00Z",
    }
    second = {**first, "amount": Decimal("2.00")}
    source = {"db": "shop", "table": "orders", "ts_ms": 1_700_000_000_000}
    declared = spec(
        "id bigint, amount decimal(18,2), day date, micros timestamp_ntz, wall timestamp, zoned timestamp, told timestamp",
        format=DEBEZIUM,
        time_zone="Asia/Shanghai",
        changes=ChangeSpec(tables=(r"shop\.orders",), key=("id",), metadata={"told": "commit_time"}),
    )
    messages = [
        registry.message(1, {"before": before, "after": after, "source": {**source, "table": table}, "op": op})
        for before, after, op, table in (
            (None, first, "c", "orders"),
            (first, second, "u", "orders"),
            (second, None, "d", "orders"),
            (None, first, "c", "others"),
            (None, first, "x", "orders"),
        )
    ]
    found = decoded(registry, declared, *messages, None)
    assert [(row["_row_kind"], row["id"], row["amount"]) for row in found] == [
        ("+I", 1, Decimal("1.50")),
        ("-U", 1, Decimal("1.50")),
        ("+U", 1, Decimal("2.00")),
        ("-D", 1, Decimal("2.00")),
        (None, None, None),
    ]
    assert {name: found[0][name] for name in ("day", "micros", "wall", "zoned", "told")} == {
        "day": date(1970, 1, 2),
        "micros": datetime(1970, 1, 1, 0, 0, 1),
        "wall": datetime(1969, 12, 31, 16, tzinfo=UTC),
        "zoned": datetime(2024, 5, 1, 12, tzinfo=UTC),
        "told": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    }
    assert found[4]["_error"].startswith("op: one of Debezium's wanted")
    assert json.loads(found[1]["_raw"])["after"]["amount"] == 2


def test_debeziums_times_in_avro_without_the_names_of_connect_are_wall_times(registry: SchemaRegistry) -> None:
    """As a converter with ``connect.meta.data=false`` writes the schema."""
    columns = ("at", "timestamp-millis"), ("wall", "timestamp-millis"), ("fine", "timestamp-micros"), ("day", "date")
    row = record(*((name, ["null", logical("int" if kind == "date" else "long", kind)]) for name, kind in columns))
    registry.add(1, record(("before", ["null", row]), ("after", ["null", "shop.Order"]), ("op", "string"), name="E"))
    midnight = datetime(2026, 1, 1, tzinfo=UTC)
    values = {"at": midnight, "wall": midnight, "fine": midnight, "day": date(2026, 1, 1)}
    declared = spec(
        "at timestamp, wall timestamp_ntz, fine timestamp, day date", format=DEBEZIUM, time_zone="Asia/Shanghai"
    )
    (found,) = decoded(registry, declared, registry.message(1, {"before": None, "after": values, "op": "c"}))
    instant = datetime(2025, 12, 31, 16, tzinfo=UTC)
    assert {name: found[name] for name in values} == {
        "at": instant,
        "wall": datetime(2026, 1, 1),
        "fine": instant,
        "day": date(2026, 1, 1),
    }


def test_bytes_of_debezium_in_avro(registry: SchemaRegistry) -> None:
    variable = record(("scale", "int"), ("value", "bytes"), name="VariableScaleDecimal")
    row = record(
        ("id", "long"),
        ("data", ["null", "bytes"]),
        ("parts", {"type": "array", "items": "bytes"}),
        ("amount", variable),
        ("plain", "bytes"),
        name="Value",
    )
    fields = (("before", ["null", row]), ("after", ["null", "shop.Value"]), ("op", "string"))
    registry.add(1, record(*fields, name="Envelope"))
    unsent = b"__debezium_unavailable_value"
    first = {
        "id": 1,
        "data": b"abcd",
        "parts": [b"\xff"],
        "amount": {"scale": 2, "value": b"\xfb\x32"},
        "plain": b"\1",
    }
    second = first | {"id": 2, "data": unsent, "parts": [unsent]}
    ddl = "id bigint, data binary, parts array<binary>, amount decimal(9,2)"
    old, new = decoded(
        registry,
        spec(ddl, format=DEBEZIUM),
        registry.message(1, {"before": first, "after": second, "op": "u"}),
    )
    row_1 = first | {"amount": Decimal("-12.30")}
    del row_1["plain"]
    assert {name: old[name] for name in row_1} == row_1
    assert {name: new[name] for name in row_1} == row_1 | {"id": 2}
    inserted = registry.message(1, {"before": None, "after": second, "op": "c"})
    (lost,) = decoded(registry, spec(ddl, format=DEBEZIUM), inserted)
    assert lost["_error"].startswith("column 'data': its unchanged value was not sent; in PostgreSQL set REPLICA")
    (absent,) = decoded(registry, spec(ddl, format=DEBEZIUM, tells_absent=True), inserted)
    assert (absent["data"], absent["parts"], absent["_absent"]) == (None, None, "`data``parts`")
    (unscaled,) = decoded(registry, spec("plain decimal(9,2)", format=DEBEZIUM), inserted)
    assert unscaled["_error"].endswith(
        "not b'\\x01' (if it is bytes, send the schema or set decimal.handling.mode=string)"
    )


@pytest.mark.kafka
def test_a_topic_of_avro(engine: Engine, kafka: KafkaBroker, registry: SchemaRegistry) -> None:
    topic = f"avro-{uuid4().hex[:8]}"
    kafka.create_topic(topic)
    registry.add(5, record(("id", "int"), ("name", ["null", "string"])))
    messages = [registry.message(5, {"id": at, "name": "x" * at}) for at in range(3)]
    kafka.produce(topic, [messages[0], b"junk", *messages[1:]])
    source = engine.kafka(KafkaSettings(kafka.servers, (topic,), registry=registry.url), spec("id bigint, name string"))
    offsets = source.plan(None, NOW)
    assert offsets is not None
    found = rows(source.read(offsets))
    assert [(row["id"], row["name"], row["_origin"]) for row in found] == [
        (0, "", f"{topic}/0@0"),
        (None, None, f"{topic}/0@1"),
        (1, "x", f"{topic}/0@2"),
        (2, "xx", f"{topic}/0@3"),
    ]
    assert rows(source.read(offsets)) == found
    kafka.produce(topic, [registry.message(6, {"id": 3}, record(("id", "int")))])
    more = source.plan(offsets.until, NOW)
    assert more is not None
    with pytest.raises(SourceUnavailable, match=r"the schema registry at 127.0.0.1:\d+ has no schema 6: register it"):
        read_explained(engine, source, more)
    registry.add(6, record(("id", "int")))
    assert [row["id"] for row in rows(source.read(more))] == [3]


def test_records_arrays_and_maps_are_nested_columns(registry: SchemaRegistry) -> None:
    line = record(
        ("sku", "string"),
        ("at", logical("long", "timestamp-millis")),
        ("n", ["null", "int"]),
        ("x", "int"),
        name="Line",
    )
    registry.add(
        1,
        record(
            ("tags", {"type": "array", "items": ["null", "string"]}),
            ("lines", {"type": "array", "items": line}),
            ("first", ["null", "shop.Line"]),
            ("more", {"type": "map", "values": "long"}),
            ("price", {"type": "array", "items": logical("bytes", "decimal", precision=9, scale=2)}),
        ),
    )
    at = datetime(2024, 5, 1, 12, 0, 0, 123_000, UTC)
    found = {"sku": "a", "at": at, "n": None, "x": 1}
    values = {
        "tags": ["a", None],
        "lines": [found],
        "first": None,
        "more": {"k": 2, "z": 3},
        "price": [Decimal("1.50")],
    }
    ddl = (
        "tags array<string>, lines array<struct<n:bigint,sku:string,at:timestamp>>, first struct<sku:string>,"
        " more struct<k:bigint,none:int>, price array<decimal(9,2)>"
    )
    (row,) = decoded(registry, spec(ddl), registry.message(1, values))
    assert row["_error"] is None
    assert {name: row[name] for name in values} == {
        "tags": ["a", None],
        "lines": [{"n": None, "sku": "a", "at": at}],
        "first": None,
        "more": {"k": 2, "none": None},
        "price": [Decimal("1.50")],
    }
    (row,) = decoded(registry, spec("more map<string,bigint>"), registry.message(1, values))
    assert row["more"] == [{"key": "k", "value": 2}, {"key": "z", "value": 3}]
    (bad,) = decoded(registry, spec("lines array<struct<sku:int>>"), registry.message(1, values))
    assert bad["_error"] == "column 'lines[0].sku': int wanted, not 'a'"


def test_debeziums_avro_describes_what_is_inside(registry: SchemaRegistry) -> None:
    micros = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    again = {"type": "array", "items": "shop.Value"}
    inside = record(("m", micros), ("plain", "long"), name="Inside")
    value = record(
        ("days", {"type": "array", "items": {"type": "int", "connect.name": "io.debezium.time.Date"}}),
        ("named", {"type": "map", "values": {"type": "int", "connect.name": "io.debezium.time.Date"}}),
        ("at", ["null", inside]),
        ("same", again),
        name="Value",
    )
    registry.add(
        1, record(("before", ["null", value]), ("after", ["null", "shop.Value"]), ("op", "string"), name="Envelope")
    )
    row = {"days": [1], "named": {"a": 2}, "at": {"m": 1_000_000, "plain": 5}, "same": []}
    message = registry.message(1, {"before": None, "after": row, "op": "c"})
    registry.answers["/subjects/envelope/versions/1"] = registry.answers["/schemas/ids/1"]
    registry.add(2, "shop.Envelope", references=[{"name": "shop.Envelope", "subject": "envelope", "version": 1}])
    referred = b"\0\0\0\0\2" + message[5:]
    declared = spec(
        "days array<date>, named map<string,date>, at struct<m:timestamp>, same array<struct<days:array<date>>>",
        format=DEBEZIUM,
    )
    found, same = decoded(registry, declared, message, referred)
    assert (same["days"], same["at"]) == (found["days"], found["at"])
    assert (found["_error"], found["days"], found["named"], found["at"]) == (
        None,
        [date(1970, 1, 2)],
        [{"key": "a", "value": date(1970, 1, 3)}],
        {"m": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)},
    )
    (refused,) = decoded(registry, spec("at struct<plain:timestamp>", format=DEBEZIUM), message)
    assert refused["_error"].startswith("column 'at.plain': timestamp wanted, not 5 (a number; ")
