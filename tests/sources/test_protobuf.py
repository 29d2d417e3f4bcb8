"""Protobuf in Confluent's wire format: what becomes of its types, of schemas that change, and of registries that fail."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from headwater.adapters.kafka.decoder import RegistryDeadLetters, registry_decoder
from headwater.adapters.kafka.registry import Registry
from headwater.adapters.kafka.settings import KafkaSettings
from headwater.adapters.records.decoder import Record
from headwater.domain.errors import ConfigError, NotInstalled, SourceUnavailable
from headwater.domain.source.changelog.settings import DEBEZIUM, ChangeSpec
from headwater.domain.source.record_spec import PROTOBUF, RecordSpec
from headwater.domain.table.schema import Schema
from headwater.testing.clock import NOW
from tests.protobuf_files import entry, file, message, message_class
from tests.schema_registry import SchemaRegistry, schema_registry

from .conftest import Engine, read_explained, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    from headwater.testing.kafka_broker import KafkaBroker


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as running:
        yield running


def spec(ddl: str, **more: Any) -> RecordSpec:
    return RecordSpec(Schema.parse(ddl), encoding=PROTOBUF, **more)


def decoded(registry: SchemaRegistry, declared: RecordSpec, *messages: bytes | None) -> list[dict[str, Any]]:
    records = [Record(raw, at, "here") for at, raw in enumerate(messages)]
    return list(registry_decoder(declared, Registry(registry.url)).batch(records).to_pylist())


def wire(number: int, record: Any, path: bytes = b"\0") -> bytes:
    """A message in the wire format, or bytes in place of its record."""
    return (
        b"\0" + number.to_bytes(4, "big") + path + (record if isinstance(record, bytes) else record.SerializeToString())
    )


GOOGLE = [
    f"google/{each}.proto"
    for each in ("protobuf/struct", "protobuf/timestamp", "protobuf/wrappers", "type/date", "type/decimal")
]
ORDER = file(
    message(
        "Order",
        "int64 id; uint64 big; sint32 small; fixed64 fixed; bool paid; float weight; double score; string name; bytes data;"
        " enum.shop.Order.State state; repeated int64 numbers; repeated enum.shop.Order.State states; repeated .shop.Order.LinesEntry lines;"
        " .shop.Order.Place place; choice: string text; choice: .shop.Order.Place where; .google.protobuf.Timestamp at;"
        " .google.protobuf.Int64Value wrapped; .google.protobuf.BytesValue bytes; .google.type.Date day; .google.type.Decimal amount;"
        " .google.protobuf.Struct more; .shop.Order parent; optional int32 count; optional enum.shop.Order.State last",
        message("Place", "string city; optional string street"),
        entry("LinesEntry", "int32", ".shop.Order.Place"),
        State="NEW PAID",
    ),
    imports=GOOGLE,
)
COLUMNS = (
    "id bigint, big decimal(20,0), small tinyint, fixed bigint, paid boolean, weight float, score double, name string,"
    " data binary, state string, numbers string, states string, lines string, place string, text string, where string,"
    " at timestamp, wrapped bigint, bytes binary, day date, amount decimal(9,2), more string, parent string, count int,"
    " last string, absent int"
)


def full_order() -> Any:
    order = message_class("Order", ORDER)(
        id=-(2**63), big=2**64 - 1, small=-3, fixed=2**53 + 1, paid=True, weight=1.5, score=float("nan"), name="né",
        data=b"\xff\0", state=1, numbers=[1, 2**53 + 1], states=[0, 1, 7], text="x", count=0, last=1,
    )  # fmt: skip
    order.lines[10].city, order.lines[9].street = "ten", ""
    order.place.city = "here"
    order.at.seconds, order.at.nanos = -1, 999_999_000
    order.wrapped.value, order.bytes.value = 0, b"\1"
    order.day.year, order.day.month, order.day.day = 2024, 5, 1
    order.amount.value = "-12.30"
    order.more.update({"b": [1.5, None], "a": {"c": True}})
    order.parent.id = 4
    return order


def test_every_type_and_its_text(registry: SchemaRegistry) -> None:
    registry.add_file(258, ORDER)
    raw = wire(258, full_order())
    (whole,) = decoded(registry, spec(COLUMNS), raw)
    values = {name: whole[name] for name in Schema.parse(COLUMNS).names}
    parent = json.loads(values.pop("parent"))
    assert str(values.pop("score")) == "nan"
    assert values == {
        "id": -(2**63),
        "big": Decimal(2**64 - 1),
        "small": -3,
        "fixed": 2**53 + 1,
        "paid": True,
        "weight": 1.5,
        "name": "né",
        "data": b"\xff\0",
        "state": "PAID",
        "numbers": "[1,9007199254740993]",
        "states": '["NEW","PAID",7]',
        "lines": '{"9":{"city":"","street":""},"10":{"city":"ten","street":null}}',
        "place": '{"city":"here","street":null}',
        "text": "x",
        "where": None,
        "at": datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        "wrapped": 0,
        "bytes": b"\1",
        "day": date(2024, 5, 1),
        "amount": Decimal("-12.30"),
        "more": '{"a":{"c":true},"b":[1.5,null]}',
        "count": 0,
        "last": "PAID",
        "absent": None,
    }
    assert (parent["id"], parent["parent"], parent["count"], parent["lines"], parent["state"]) == (
        4,
        None,
        None,
        {},
        "NEW",
    )
    assert (whole["_row_kind"], whole["_error"], whole["_bytes"]) == ("+I", None, raw)
    shown = json.loads(whole["_raw"])
    assert (shown["at"], shown["amount"], shown["data"]) == ("1969-12-31T23:59:59.999999Z", -12.3, "/wA=")
    assert registry.asked == ["/schemas/ids/258?format=serialized"]


def test_bytes_are_never_a_text_and_a_text_is_never_bytes(registry: SchemaRegistry) -> None:
    wrappers = ["google/protobuf/wrappers.proto"]
    fields = (
        "bytes data; string name; {} other; .google.protobuf.StringValue wrapped; .google.protobuf.BytesValue packed"
    )
    with_bytes, with_text = (
        file(message("M", fields.format(type_)), imports=wrappers) for type_ in ("repeated bytes", "repeated string")
    )
    registry.add_file(1, with_bytes)
    registry.add_file(2, with_text)
    bytes_, text = (message_class("M", each) for each in (with_bytes, with_text))
    first = wire(1, bytes_(data=b"abcd", name="abcd", other=[b"\xff"], packed={"value": b"abcd"}))
    second = wire(2, text(name="abcd", other=["abcd"], wrapped={"value": "abcd"}))
    (row,) = decoded(registry, spec("data binary, name string, other array<binary>, packed binary"), first)
    assert (row["data"], row["name"], row["other"], row["packed"]) == (b"abcd", "abcd", [b"\xff"], b"abcd")
    as_text, as_bytes = "(bytes; declare the column as binary)", "(a text; declare the column as string)"
    for ddl, sent, why in (
        ("data string", first, f"column 'data': string wanted, not b'abcd' {as_text}"),
        ("packed string", first, f"column 'packed': string wanted, not b'abcd' {as_text}"),
        ("other array<string>", first, f"column 'other[0]': string wanted, not b'\\xff' {as_text}"),
        ("name binary", second, f"column 'name': binary wanted, not 'abcd' {as_bytes}"),
        ("wrapped binary", second, f"column 'wrapped': binary wanted, not 'abcd' {as_bytes}"),
        ("other array<binary>", second, f"column 'other[0]': binary wanted, not 'abcd' {as_bytes}"),
    ):
        (refused,) = decoded(registry, spec(ddl), sent)
        assert refused["_error"] == why


def test_a_field_that_is_not_set_is_null_if_its_schema_can_tell_so_and_else_the_default(
    registry: SchemaRegistry,
) -> None:
    registry.add_file(1, ORDER)
    (row,) = decoded(registry, spec(COLUMNS), wire(1, b""))
    values = {name: row[name] for name in Schema.parse(COLUMNS).names if row[name] is not None}
    assert values == {
        "id": 0, "big": 0, "small": 0, "fixed": 0, "paid": False, "weight": 0.0, "score": 0.0, "name": "", "data": b"",
        "state": "NEW", "numbers": "[]", "states": "[]", "lines": "{}",
    }  # fmt: skip


def test_nested_columns_take_lists_and_messages(registry: SchemaRegistry) -> None:
    registry.add_file(258, ORDER)
    ddl = (
        "numbers array<bigint>, states array<string>, place struct<street:string, city:string>,"
        " parent struct<id:bigint, at:timestamp, numbers:array<int>, data:binary>"
    )
    (row,) = decoded(registry, spec(ddl), wire(258, full_order()))
    assert {name: row[name] for name in Schema.parse(ddl).names} | {"_error": row["_error"]} == {
        "numbers": [1, 2**53 + 1],
        "states": ["NEW", "PAID", "7"],
        "place": {"street": None, "city": "here"},
        "parent": {"id": 4, "at": None, "numbers": [], "data": b""},
        "_error": None,
    }
    (row,) = decoded(registry, spec("lines map<int,struct<city:string>>"), wire(258, full_order()))
    assert row["lines"] == [{"key": 9, "value": {"city": ""}}, {"key": 10, "value": {"city": "ten"}}]
    (row,) = decoded(registry, spec("numbers array<int>"), wire(258, full_order()))
    assert row["_error"] == "column 'numbers[1]': int wanted, not 9007199254740993 (out of range)"


def test_whole_numbers_of_a_struct_are_whole(registry: SchemaRegistry) -> None:
    """A Struct has doubles only; from 2**53 on, one may stand for several whole numbers."""
    events = file(message("Event", ".google.protobuf.Struct more"), imports=["google/protobuf/struct.proto"])
    registry.add_file(1, events)

    def event(**values: Any) -> bytes:
        made = message_class("Event", events)()
        made.more.update(values)
        return wire(1, made.SerializeToString())

    def read(column: str, **values: Any) -> Any:
        (row,) = decoded(registry, spec(f"more {column}"), event(**values))
        return row["more"] or row["_error"]

    assert read("string", a=3, b=[-1, 2.5], c=float("inf")) == '{"a":3,"b":[-1,2.5],"c":"Infinity"}'
    assert read("map<string,bigint>", a=3, b=1 - 2**53) == [{"key": "a", "value": 3}, {"key": "b", "value": 1 - 2**53}]
    assert read("struct<a:double>", a=3) == {"a": 3.0}
    assert read("struct<a:bigint>", a=2.5) == "column 'more.a': bigint wanted, not 2.5"
    assert read("struct<a:bigint>", a=2**53) == f"column 'more.a': bigint wanted, not {float(2**53)}"


def test_old_schemas_say_defaults_and_requirements(registry: SchemaRegistry) -> None:
    old = message("Order", "required int32 id; int32 unset; int32 seven; repeated int32 many")
    old.field[2].default_value = "7"
    registry.add_file(1, file(old, syntax="proto2"))
    first, second = decoded(
        registry, spec("id int, unset int, seven int, many string"), wire(1, b"\x08\5"), wire(1, b"\x10\5")
    )
    assert {name: first[name] for name in ("id", "unset", "seven", "many")} == {
        "id": 5,
        "unset": None,
        "seven": 7,
        "many": "[]",
    }
    assert second["_error"] == "not a message of schema 1: the required field 'id' is missing"


def test_a_string_of_an_old_schema_must_be_utf_8(registry: SchemaRegistry) -> None:
    """Protobuf itself checks this in proto3 only."""
    inner = message("In", "string y")
    text = message(
        "M", "string y; repeated string l; repeated .shop.M.MEntry m; .shop.In n", entry("MEntry", "string", "string")
    )
    registry.add_file(1, file(text, inner, syntax="proto2"))
    wrong = b"\x0a\1\xff", b"\x12\1a\x12\1\xff", b"\x1a\6\x0a\1k\x12\1\xff", b"\x22\3\x0a\1\xff"
    found = decoded(registry, spec("y string, n string"), wire(1, b"\x0a\1x"), *(wire(1, each) for each in wrong))
    assert (found[0]["y"], found[0]["_error"]) == ("x", None)
    assert [row["_error"] for row in found[1:]] == [
        f"not a message of schema 1: the field 'shop.{name}' is not UTF-8"
        for name in ("M.y", "M.l", "M.MEntry.value", "In.y")
    ]
    key, two = b"\x1a\3\x0a\1\xff", b"\x1a\3\x0a\1\xff\x1a\3\x0a\1k"
    for row in decoded(registry, spec("m map<string,string>"), wire(1, key), wire(1, two)):
        assert row["_error"] == "not a message of schema 1: the field 'shop.M.MEntry.key' is not UTF-8"


def test_fields_may_have_the_names_of_methods(registry: SchemaRegistry) -> None:
    registry.add_file(1, file(message("M", "string HasField; optional int32 count; string FromString")))
    (row,) = decoded(registry, spec("HasField string, count int, FromString string"), wire(1, b"\x0a\1x\x1a\1y"))
    assert (row["HasField"], row["count"], row["FromString"], row["_error"]) == ("x", None, "y", None)


def test_absent_is_a_column_that_the_schema_does_not_have(registry: SchemaRegistry) -> None:
    registry.add_file(1, file(message("Order", "int32 id; optional int32 unset")))
    (row,) = decoded(registry, spec("id int, unset int, other int", tells_absent=True), wire(1, b""))
    assert (row["id"], row["unset"], row["_absent"]) == (0, None, "`other`")


def test_what_no_column_takes_exactly_is_a_dead_letter(registry: SchemaRegistry) -> None:
    registry.add_file(1, ORDER)
    order = message_class("Order", ORDER)
    fine, late, strange, far, partial, number, nanos = (order() for _ in range(7))
    fine.at.nanos, late.at.seconds, strange.amount.value = 1, 2**60, "NaN"
    far.amount.value = "1e99999999999999999999"
    partial.day.year, nanos.at.nanos = 2024, -1
    number.state = 9
    declared = spec("big bigint, at timestamp, day date, id int, state int")
    messages = [order(big=2**63), fine, partial, order(id=2**31), order(state=1), number, late, strange, far, nanos]
    found = decoded(registry, declared, *(wire(1, each) for each in messages))
    assert [row["_error"] and row["_error"].split(" (write")[0] for row in found] == [
        "column 'big': bigint wanted, not 9223372036854775808 (out of range)",
        "column 'at': timestamp wanted, not '1970-01-01T00:00:00.000000001Z'",
        "column 'day': date wanted, not '2024-00-00' (no such day)",
        "column 'id': int wanted, not 2147483648 (out of range)",
        "column 'state': int wanted, not 'PAID'",
        None,
        "column 'at': timestamp wanted, not '+36534630048-05-13T13:56:16Z'",
        "not a message of schema 1: 'NaN' is not a Decimal",
        "not a message of schema 1: '1e99999999999999999999' has an exponent out of range",
        "not a message of schema 1: a Timestamp of 0 seconds and -1 nanoseconds is out of range",
    ]
    assert decoded(registry, spec("at string"), wire(1, late))[0]["at"] == "+36534630048-05-13T13:56:16Z"
    assert decoded(registry, spec("id int"), wire(1, late))[0]["_error"] is None
    rounded = [order(small=2**24 + 1), order(fixed=2**53 + 1), order(score=0.1), order(small=1, fixed=2**53, score=0.5)]
    found = decoded(registry, spec("small float, fixed double, score float"), *(wire(1, each) for each in rounded))
    remedy = "declare a type that has all its digits"
    assert [row["_error"] for row in found] == [
        f"column 'small': float wanted, not 16777217 (it would become 16777216.0; {remedy})",
        f"column 'fixed': double wanted, not 9007199254740993 (it would become 9007199254740992.0; {remedy})",
        f"column 'score': float wanted, not 0.1 (it would become 0.10000000149011612; {remedy})",
        None,
    ]


def test_each_message_is_read_with_the_schema_it_was_written_with(registry: SchemaRegistry) -> None:
    registry.add_file(1, file(message("Order", "int32 id")))
    registry.add_file(2, file(message("Order", "string name; int64 id; int64 more")))
    new = message_class("Order", file(message("Order", "string name; int64 id; int64 more")))
    found = decoded(
        registry,
        spec("id bigint, name string"),
        wire(1, b"\x08\1"),
        wire(2, new(id=2**40, name="n")),
        wire(1, b"\x08\2\x1a\1x\x20\5"),  # and fields that its schema does not know
    )
    assert [(row["id"], row["name"], row["_error"]) for row in found] == [
        (1, None, None),
        (2**40, "n", None),
        (2, None, None),
    ]
    assert registry.asked == ["/schemas/ids/1?format=serialized", "/schemas/ids/2?format=serialized"]


def test_a_message_has_its_place_in_the_schema(registry: SchemaRegistry) -> None:
    inner = message("Inner", "int32 id", message("Deep", "int32 id; int32 deep"))
    first = message("First", "int32 id; repeated .shop.First.MapEntry map", entry("MapEntry", "int32", "int32"), inner)
    registry.add_file(1, file(first, *(message(f"M{at}", f"int32 id; int32 m{at}") for at in range(1, 101))))
    declared, raw = spec("id int, deep int, m1 int, m100 int"), b"\x08\5\x10\6"
    paths = [b"\0", b"\2\0", b"\4\0\2", b"\6\0\2\0", b"\2\2", b"\2\xc8\1"]
    found = decoded(registry, declared, *(wire(1, raw[:2] if at < 3 else raw, path) for at, path in enumerate(paths)))
    assert [(row["id"], row["deep"], row["m1"], row["m100"], row["_error"]) for row in found] == [
        (5, None, None, None, None),
        (5, None, None, None, None),
        (5, None, None, None, None),
        (5, 6, None, None, None),
        (5, None, 6, None, None),
        (5, None, None, 6, None),
    ]
    wrong = [b"\2\xca\1", b"\2\1", b"\4\0\4", b"\1", b"\xfe\xff\xff\xff\x0f", b"\4\0", b"\2\x80", b""]
    found = decoded(registry, declared, *(wire(1, b"", path) for path in wrong))
    short = "the message ends before its place in the schema is known"
    assert [row["_error"] for row in found] == [
        "schema 1 has no message at 101",
        "schema 1 has no message at -1",
        "schema 1 has no message at 0/2",
        "the place of the message in its schema has -1 numbers",
        "the place of the message in its schema has 2147483647 numbers",
        *[short] * 3,
    ]


def test_a_schema_may_refer_to_others_and_to_those_that_every_client_has(registry: SchemaRegistry) -> None:
    city = file(message("City", "string name"), name="city.proto")
    place = file(message("Place", ".shop.City city"), imports=["a/city.proto"], name="place.proto")
    order = file(
        message("Order", "int32 id; .shop.Place place; .confluent.type.Decimal amount; .google.type.TimeOfDay hour"),
        imports=["place.proto", "confluent/meta.proto", "confluent/types/decimal.proto", "google/type/timeofday.proto"],
    )
    registry.add_file(1, order, ("place.proto", "place"))
    registry.add_subject("place", place, ("a/city.proto", "a%2Fcity"))
    registry.add_subject("a%252Fcity", city)
    amount = b"\x1a\6\n\2\xfb\x32\x18\2"  # -1230 in two bytes, scale 2
    (row,) = decoded(
        registry, spec("place string, amount decimal(9,2), hour string"), wire(1, b"\x12\5\n\3\n\1x" + amount)
    )
    assert (row["place"], row["amount"], row["hour"]) == ('{"city":{"name":"x"}}', Decimal("-12.30"), None)
    registry.add_file(2, order)
    registry.add_file(3, order, ("place.proto", "place"), ("a/city.proto", "a%2Fcity"))
    registry.add_subject("place", place)
    lost, flat = decoded(registry, spec("id int"), wire(2, b""), wire(3, b"\x08\1"))
    assert lost["_error"] == (
        "schema 2: it is not a valid Protobuf schema: it imports 'place.proto', but has no reference to it"
    )
    assert flat["id"] == 1


def test_a_message_may_contain_itself(registry: SchemaRegistry) -> None:
    tree = file(message("Tree", "int32 id; repeated .shop.Tree inside"))
    registry.add_file(1, tree)
    (row,) = decoded(registry, spec("inside string"), wire(1, b"\x12\2\x08\1"))
    assert row["inside"] == '[{"id":1,"inside":[]}]'
    deep = b""
    for _ in range(150):
        deep = b"\x12" + message_length(deep) + deep
    (row,) = decoded(registry, spec("inside string"), wire(1, deep))
    assert row["_error"].startswith("not a message of schema 1: ")


def message_length(raw: bytes) -> bytes:
    return bytes([len(raw)]) if len(raw) < 128 else bytes([len(raw) & 0x7F | 0x80, len(raw) >> 7])


def test_what_cannot_be_decoded_is_a_dead_letter_and_is_read_again(registry: SchemaRegistry) -> None:
    registry.add_file(1, file(message("Order", "int64 id; string name")))
    registry.add_file(2, file(message("Order", "int64 id")), schemaType="AVRO")
    registry.add_file(3, file(message("Order", ".shop.Missing id")))
    registry.answers["/schemas/ids/4?format=serialized"] = {"schema": "/////w==", "schemaType": "PROTOBUF"}
    good, bad_text = wire(1, b"\x08\7\x12\3n\xc3\xa9"), wire(1, b"\x12\1\xff")
    wrong = [good[:-1], bad_text, *(wire(each, b"") for each in (2, 3, 4))]
    declared = spec("id bigint, name int")
    found = decoded(registry, declared, b'{"id": 1}', b"\0\0", b"", None, *wrong, good)
    header = "not Protobuf in Confluent's wire format, which begins with a zero byte and the id of a schema"
    told = [row["_error"] for row in found]
    assert told[:4] == [header, header, header, "no value: a tombstone says nothing in plain json"]
    assert [each.split(": ")[0] for each in told[4:6]] == ["not a message of schema 1"] * 2
    assert told[6] == "schema 2: it is of type AVRO, not PROTOBUF"
    for number, reason in zip((3, 4), told[7:9], strict=True):
        assert reason.startswith(f"schema {number}: it is not a valid Protobuf schema: ")
    assert told[9] == "column 'name': int wanted, not 'né'"
    letters = registry_decoder(declared, Registry(registry.url)).batch(
        [Record(good, 0, "here"), Record(wrong[0], 9, "there")]
    )
    chosen = letters.select(["_row_kind", "_origin", "_raw", "_bytes"]).rename_columns(
        ["row_kind", "origin", "raw", "bytes"]
    )
    (again,) = RegistryDeadLetters(spec("id bigint, name string"), Registry(registry.url))([chosen], 5)
    fixed, broken = again.to_pylist()
    assert (fixed["id"], fixed["name"], fixed["_position"], fixed["_origin"]) == (7, "né", 5, "here")
    assert broken["_error"].startswith("not a message of schema 1")


def test_a_registry_that_fails_is_told_and_asked_again(registry: SchemaRegistry) -> None:
    order, declared = file(message("Order", "int32 id")), spec("id int")
    with pytest.raises(SourceUnavailable, match=r"the schema registry at 127.0.0.1:\d+ has no schema 9: register it"):
        decoded(registry, declared, wire(9, b"\x08\1"))
    registry.add_file(9, order, ("lost.proto", "lost"))
    with pytest.raises(SourceUnavailable, match=r"has no version 1 of subject lost: register it"):
        decoded(registry, declared, wire(9, b"\x08\1"))
    registry.add_file(9, order)
    assert decoded(registry, declared, wire(9, b"\x08\1"))[0]["id"] == 1
    registry.answers["/schemas/ids/8?format=serialized"] = {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"}
    with pytest.raises(ConfigError, match=r"has Protobuf schemas only as text: set `registry` to one that answers"):
        decoded(registry, declared, wire(8, b"\x08\1"))
    registry.auth = "Basic bWU6c2VjcmV0"
    registry.add_file(7, order)
    with pytest.raises(ConfigError, match=r"refuses the credentials \(HTTP status 401\): set registry_auth or"):
        decoded(registry, declared, wire(7, b"\x08\1"))
    allowed = registry_decoder(declared, Registry(registry.url, "me:secret"))
    assert allowed.batch([Record(wire(7, b"\x08\1"), 0, "")]).to_pylist()[0]["id"] == 1


def envelope(optional: str = "optional") -> FileDescriptorProto:
    """What Confluent's converter makes of Debezium's envelope; `optional` is how it writes columns that may be null."""
    columns = (
        f"int64 id; .confluent.type.Decimal amount; {optional} int32 day; {optional} int64 micros;"
        f" .google.protobuf.Timestamp wall; {optional} string zoned; {optional} int32 stock"
    )
    source = message("Source", "string db; optional string table; int64 ts_ms")
    fields = ".shop.Envelope.Value before; .shop.Envelope.Value after; .shop.Envelope.Source source; string op"
    return file(
        message("Envelope", f"{fields}; {optional} int64 ts_ms", message("Value", columns), source),
        imports=["confluent/type/decimal.proto", "google/protobuf/timestamp.proto"],
    )


def test_debezium_in_protobuf_is_what_it_is_in_json(registry: SchemaRegistry) -> None:
    registry.add_file(1, envelope())
    decimal = file(
        message("Decimal", "bytes value; uint32 precision; int32 scale"), name="confluent/type/decimal.proto"
    )
    decimal.package = "confluent.type"
    change = message_class("Envelope", decimal, envelope())
    first = {
        "id": 1,
        "amount": {"value": b"\0\x96", "scale": 2},
        "day": 1,
        "micros": 1_700_000_000_000_000,
        "wall": {"seconds": 0, "nanos": 1_000_000},
        "zoned": "2024-05-01T12:00:00Z",
        "stock": 0,
    }
    second = {"id": 1, "amount": {"value": b"\0\xc8", "scale": 2}}
    declared = spec(
        "id bigint, amount decimal(18,2), day date, micros timestamp_ntz, wall timestamp, zoned timestamp, stock int,"
        " told timestamp",
        format=DEBEZIUM,
        time_zone="Asia/Shanghai",
        changes=ChangeSpec(tables=(r"shop\.orders",), key=("id",), metadata={"told": "commit_time"}),
    )
    messages = [
        wire(
            1,
            change(
                before=before, after=after, source={"db": "shop", "table": table, "ts_ms": 1_700_000_000_000}, op=op
            ),
        )
        for before, after, op, table in (
            (None, first, "c", "orders"),
            (first, second, "u", "orders"),
            (second, None, "d", "orders"),
            (None, first, "c", "others"),
            (None, first, "x", "orders"),
        )
    ]
    found = decoded(registry, declared, *messages, None)
    assert [(row["_row_kind"], row["id"], row["amount"], row["stock"]) for row in found] == [
        ("+I", 1, Decimal("1.50"), 0),
        ("-U", 1, Decimal("1.50"), 0),
        ("+U", 1, Decimal("2.00"), None),
        ("-D", 1, Decimal("2.00"), None),
        (None, None, None, None),
    ]
    assert {name: found[0][name] for name in ("day", "micros", "wall", "zoned", "told")} == {
        "day": date(1970, 1, 2),
        "micros": datetime(2023, 11, 14, 22, 13, 20),
        "wall": datetime(1969, 12, 31, 16, 0, 0, 1000, tzinfo=UTC),
        "zoned": datetime(2024, 5, 1, 12, tzinfo=UTC),
        "told": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    }
    assert found[4]["_error"].startswith("op: one of Debezium's wanted")
    assert json.loads(found[1]["_raw"])["after"]["amount"] == 2


def test_debezium_without_nulls_is_refused_but_not_its_heartbeats(registry: SchemaRegistry) -> None:
    registry.add_file(1, envelope(""))
    registry.add_file(2, file(message("Heartbeat", "int64 ts_ms")))
    declared = spec("id bigint", format=DEBEZIUM)
    (row,) = decoded(registry, declared, wire(1, b""), wire(2, b"\x08\1"))
    assert row["_error"] == (
        "schema 1: null and 0 are the same in it, as its `ts_ms` is not optional; set optional.for.nullables=true for"
        " the connector's value.converter"
    )
    wrapped = file(
        message("Envelope", "string op; .google.protobuf.Int64Value ts_ms"), imports=["google/protobuf/wrappers.proto"]
    )
    registry.add_file(3, wrapped)
    registry.add_file(4, file(message("Envelope", "string op")))
    found = decoded(registry, declared, wire(3, b"\n\1m"), wire(4, b"\n\1m"))  # of the op m come no rows
    assert [row["_error"][:40] for row in found] == ["schema 4: null and 0 are the same in it, "[:40]]


def test_what_is_not_installed(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    declared, schemas = spec("id bigint"), "headwater.adapters.kafka.protobuf_schema"
    monkeypatch.delitem(sys.modules, "headwater.adapters.kafka.protobuf", raising=False)
    monkeypatch.delitem(sys.modules, schemas, raising=False)
    for package, named in (("google.protobuf.descriptor_pb2", "protobuf"), ("google.type", "googleapis-common-protos")):
        with monkeypatch.context() as inside:
            inside.setitem(sys.modules, package, None)
            with pytest.raises(NotInstalled, match=rf"Protobuf needs {named}: pip install 'headwater\[protobuf\]'"):
                registry_decoder(declared, Registry(registry.url))
    with pytest.raises(
        ConfigError, match="records of csv have no encoding 'protobuf'; known: avro, debezium-avro, prot"
    ):
        spec("id bigint", format="csv")


@pytest.mark.kafka
def test_a_topic_of_protobuf(engine: Engine, kafka: KafkaBroker, registry: SchemaRegistry) -> None:
    topic = f"protobuf-{uuid4().hex[:8]}"
    kafka.create_topic(topic)
    order = file(message("Other"), message("Order", "int32 id; optional string name"))
    registry.add_file(5, order)
    made = message_class("Order", order)
    messages = [wire(5, made(id=at, name="x" * at), b"\2\2") for at in range(3)]
    kafka.produce(topic, [messages[0], b"junk", *messages[1:]])
    settings = KafkaSettings(kafka.servers, (topic,), registry=registry.url)
    source = engine.kafka(settings, spec("id bigint, name string"))
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
    kafka.produce(topic, [wire(6, b"\x08\3")])
    more = source.plan(offsets.until, NOW)
    assert more is not None
    with pytest.raises(SourceUnavailable, match=r"the schema registry at 127.0.0.1:\d+ has no schema 6: register it"):
        read_explained(engine, source, more)
    registry.add_file(6, file(message("Order", "int32 id")))
    assert [row["id"] for row in rows(source.read(more))] == [3]
