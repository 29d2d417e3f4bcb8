"""Records as databases write them, with some values, parts and bytes that no reader should take for granted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from attrs import define, field

from headwater.domain.source.changelog.settings import CANAL, DEBEZIUM, MAXWELL
from headwater.domain.table.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    Fields = list[tuple[str, str]]
    """Keys and values as JSON texts."""

SCHEMA = Schema.parse(
    "id bigint, i int, s smallint, t tinyint, d double, f float, a decimal(18,2), b decimal(5,0), n string, m string,"
    " o boolean, day date, at timestamp, wall timestamp_ntz, bin binary, tags array<string>,"
    " spot struct<x:int,y:decimal(5,2),at:timestamp,b:boolean>, parts array<struct<k:string,n:array<bigint>>>"
)
_GOOD = {
    "bigint": "1|0|-7|9007199254740993",
    "int": "5|-5",
    "smallint": "300",
    "tinyint": "-128|127",
    "double": "1.5|0.1|-0.25|3",
    "float": "1.5|0.1|16777217",
    "decimal": "12.34|0|-5.1|99999.00",
    "string": '"x"|"né中"|""|"a\\"b"|"c:\\\\n\\n"|"{\\"k\\":1.10}"',
    "boolean": "true|false",
    "date": '"2026-02-28"',
    "timestamp": '"2026-01-01 00:00:00"|"2026-07-01 12:34:56"',
    "timestamp_ntz": '"2026-01-01 01:02:03"|"1971-12-31 23:59:59"',
    "binary": '"aGk="|""|"AAAA"',
    "array": "[]|null",
    "struct": '{}|null|{"x": null, "more": [1, {"x": 2}]}|{"y": 1.25, "at": "2026-01-01 00:00:00", "b": true, "x": 7}',
}
_ODD_NESTED = (
    '["x",null,7,{"k":1.10}]|[{"k":"a","n":[1,null]},null,{}]|[{"k":1}]|[[]]|{"x":1.5}|{"x":"1","y":"1.25"}|{"X":1}|'
    '{"at":"x"}|{"at":1767225600000}|{"b":1}|{"x":1,"x":2}|"[]"|"{}"|"[1, null]"|"{\\"x\\": 1}"|"{\\"x\\": 1e400}"|"[1,"|'
    '["__debezium_unavailable_value"]|["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="]|[{"n":[9223372036854775808]}]|'
    '"[\\"\\\\ud800\\"]"|"{\\"y\\": NaN}"|[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]'
)
_ODD_NUMBERS = (
    "null|1|0|-0|-0.0|0.0|1.0|1.00|1e2|1E+2|1e-2|1.5e400|1e400|1e-400|9223372036854775807|9223372036854775808|"
    "-9223372036854775808|-9223372036854775809|18446744073709551616|123456789012345678901234567890|"
    "0.1000000000000000055511151231257827|1234567890123456.78|12345678901234567.8|9999999999999999.99|"
    "99999999999999999.99|12.345|12.340|-12.3|00|01|1.|.5|+1|-|NaN|Infinity|-Infinity|nan|true|false|True|2|-1|"
    "3.4028235677973366e38|340282350000000000000000000000000000000|340282356779733661637539395458142568448|"
    "340282356779733642748073463979561713663|-340282350000000000000000000000000000000"
)
_ODD_TEXTS = (
    '"true"|"TRUE"|"0"|"1"|"2"|"yes"|""|" "|" 1"|"1 "|"+1"|"-0"|"007"|"1_000"|"\uff11\uff12"|"1e3"|"1."|".5"|"0x1F"|"1,5"|'
    '"123456789012345678901"|"1.10"|"12.345"|"99999999999999999.99"|"NaN"|"inf"|"a\\"b"|"a\\\\b"|"a\\/b"|"\\u0041"|'
    '"\\u00e9"|"\\ud83d\\ude00"|"\\ud800"|"\\u12"|"\\x"|"a\\nb"|"a\\\\nb"|"\\\\\\""|"{\\"k\\":1.10}"|"{}"|"\u2028"|'
    '"\x7f"|"\x00"|"\x1f"|"\t"|"😀"|"\ufeff"|"null"|{}|{"k": 1.10, "z": [1e5]}|[]|[1, 2.50]|'
    '{"scale": 2, "value": "Ew=="}|"QR=="|"QQ="|"QQ"|"Q Q="|"aGk=\\n"|"__debezium_unavailable_value"|'
    '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="|["__debezium_unavailable_value"]|'
    r'{"__debezium_unavailable_value":"__debezium_unavailable_value"}|'
    r'"{\"__debezium_unavailable_value\":\"__debezium_unavailable_value\"}"'
)
_ODD_TIMES = (
    '"2026-02-29"|"2024-02-29"|"0000-00-00"|"0000-00-00 00:00:00"|"0001-01-01 00:00:00"|"0001-01-01"|'
    '"9999-12-31 23:59:59"|"9999-12-31"|"2026-01-01"|"2026-1-1"|"2026-01-01 24:00:00"|"2026-01-01 23:59:60"|'
    '"2026-01-01 00:00:00.1"|"2026-01-01 00:00:00.123456"|"2026-01-01 00:00:00.1234567"|"2026-01-01T00:00:00Z"|'
    '"2026-01-01 00:00:00+01:00"|"2026-01-01 00:00:00+01:99"|"2026-01-01 00:00"|"2026-03-29 02:30:00"|"2026-10-25 02:30:00"|'
    '"1893-03-31 23:53:00"|"1893-04-01 00:03:00"|"2500-07-01 00:00:00"|"2026-13-01 00:00:00"|"\uff12026-01-01 00:00:00"|'
    '"10000-01-01"|20454|-719162|-719163|2932896|2932897|1767225600000|1767225600000000|1767225600000000000|'
    "1767225600000000001|253402300799999|253402300800000|-62135596800000|-62135596800001|-253402300800000"
)
ODD = f"{_ODD_NUMBERS}|{_ODD_TEXTS}|{_ODD_TIMES}|{_ODD_NESTED}".split("|")
_PLACES = ('"b9.01:%d"', '"a:b:7"', '"7"', '"x:"', '":5"', '"f:-5"', '"f.9:99999999999999999999"', '"f.1:007"', "7")
_FILES = ('"bin.9"', '"bin9.01"', '"007"', '"bin"', '""', '"bin.1234567890123456789"', '"né.7"', r'"b\u0069n.1"')
_GTIDS = ('"3e11fa47-71ca-11e1:%d"', '"0-1-%d"', '"x"', '""', "null", "7")
_TYPES = (
    '{"id": "bigint", "n": "varchar(20)"}',
    '{"id": "bigint", "n": "enum(\'a\',\'b\')"}',
    '{"id": "bigint", "n": "set"}',
    '{"n": "varchar(20)", "m": 1}',
    "null",
)
_OLDS = (("n",), ("n", "at"), ("a", "n"), (), ("id", "i", "s", "t", "d", "f"), ("bin", "wall", "day", "o"), None)
_BREAKS: Sequence[Callable[[str, Random], str]] = (
    lambda text, r: text[: r.randrange(len(text))],
    lambda text, r: text + r.choice(["}", "x", ",", " null", "{}"]),
    lambda text, _: f" \t{text} \r",
    lambda _, r: r.choice(["null", "[]", "7", "{}", '""', "nul", "[{}]", "\x00", "", "  "]),
    lambda text, r: _spliced(text, r.randrange(len(text)), r.choice(list('"\\{}[]:,0-e. \t\x00\x0b\xa0中')), 0),
    lambda text, r: _spliced(text, r.randrange(len(text)), "", 1),
    lambda text, _: "\ufeff" + text,
    lambda text, _: text.replace('"a"', '"a" ', 1),
    lambda text, _: text.replace("}", ",}", 1),
    lambda text, _: text.replace(":", ":\x0b", 1),
    lambda text, _: text.replace('"extra"', '"a"'),
    lambda text, r: text.replace("null", "1" * 5000 + r.choice(["", ".5", "e5"]), 1),
    lambda text, _: text.replace("{", "{ ", 1).replace("}", " }", 1),
)
_BYTES = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf")


def _spliced(text: str, at: int, put: str, drop: int) -> str:
    return text[:at] + put + text[at + drop :]


@define
class Writer:
    """Writes records.

    Args:
        random: what is drawn from.
        format: the format of the records.
        odd: how often a value is odd, from 0 to 1.
        broken: how often a part of a record is.
        time: how times are written: with which mark, fraction and offset.
        number: microseconds or milliseconds for numeric times; 0: they are texts.
        enveloped: whether Debezium's messages have a schema.
    """

    random: Random
    format: str
    odd: float
    broken: float
    time: tuple[str, str] = (" ", "")
    number: int = 0
    enveloped: bool = False
    _text: bool = field(init=False, default=False)
    _marks: tuple[str, str] = field(init=False, default=(": ", ", "))

    def record(self) -> bytes | None:
        """A record; None is a tombstone."""
        draw = self.random
        self._marks = (
            (": ", ", ") if draw.random() < 0.97 else draw.choice([(":", ","), (" : ", " , "), (":\t", ",  ")])
        )
        text = {"json": self._row, MAXWELL: self._maxwell, CANAL: self._canal, DEBEZIUM: self._debezium}[self.format]()
        if draw.random() >= self.broken:
            return text.encode("utf-8", "surrogatepass")
        if draw.random() < 0.1:
            at = draw.randrange(len(text))
            return draw.choice([None, text[:at].encode() + draw.choice(_BYTES) + text[at:].encode()])
        return draw.choice(_BREAKS)(text, draw).encode("utf-8", "surrogatepass")

    def _object(self, fields: Fields) -> str:
        colon, comma = self._marks
        return "{" + comma.join(f'"{key}"{colon}{value}' for key, value in fields) + "}"

    def _list(self, items: list[str]) -> str:
        return "[" + self._marks[1].join(items) + "]"

    def _or_odd(self, text: str) -> str:
        return self.random.choice(ODD) if self.random.random() < self.odd * 0.3 else text

    def _breaks(self, share: float = 1.0) -> bool:
        return self.random.random() < self.broken * share

    def _value(self, name: str) -> str:
        draw, kind = self.random, SCHEMA[name].name
        if draw.random() < self.odd:
            return draw.choice(ODD)
        if draw.random() < (
            0.95 if SCHEMA[name].is_nested else 0.05
        ):  # of records with nested values no shape is learned
            return "null"
        text = draw.choice(["7", "-99999"] if name == "b" else _GOOD[kind].split("|"))
        if kind == "bigint" and draw.random() < 0.5:
            text = str(draw.randrange(-(10**6), 10**6))
        if kind == "boolean" and self.format != "json":
            text = draw.choice(["true", "false", "0", "1"])
        if kind.startswith("timestamp"):
            text = self._time(text)
        return text if not self._text or text.startswith('"') else json.dumps(text)

    def _time(self, text: str) -> str:
        if self.number:
            return str(self.random.randrange(-(10**12), 3 * 10**12) * self.number)
        mark, end = self.time
        return text.replace(" ", mark)[:-1] + end + '"'

    def _row(self, names: Sequence[str] | None = None) -> str:
        draw = self.random
        fields = [(name, self._value(name)) for name in SCHEMA.names if names is None or name in names]
        if self.format == "json":
            fields.append(("kind", draw.choice(['"+I"', '"u"', '"-D"', '"d"']) if not self._breaks() else '"?"'))
        return self._broken_row(fields) if self._breaks() else self._object(fields)

    def _broken_row(self, fields: Fields) -> str:
        draw, odd = self.random, self.random.choice(ODD)
        forms: list[Fields] = [
            [*fields, (fields[0][0] if fields else "id", odd)],
            draw.sample(fields, len(fields)),
            fields[1:],
            [("extra", odd), *fields],
            [(key.replace("i", "\\u0069"), value) for key, value in fields],
            [*fields, ("a.b[0]", odd), ("", "1"), ("ID", "5")],
        ]
        if draw.random() < 0.2:
            return draw.choice(["null", "[]", "{}", '"x"', "{,}", '{"id":1,}', '{"id" 1}', '{"id":1 "i":2}', "7"])
        return self._object(draw.choice(forms))

    def _maxwell(self) -> str:
        draw = self.random
        kind = draw.choice(["insert", "update", "update", "delete"])
        if self._breaks(0.3):
            kind = draw.choice(["bootstrap-insert", "table-alter", "x", "bootstrap-start"])
        place = draw.choice(_PLACES) if self._breaks(0.2) else f'"b.{draw.randrange(8, 12):06}:%d"'
        gtid = draw.choice(_GTIDS)
        fields = [
            *self._table(),
            ("type", self._or_odd(f'"{kind}"')),
            ("ts", self._or_odd("1767225600")),
            ("xid", self._or_odd(str(draw.randrange(9999)))),
            ("commit", self._or_odd("true")) if draw.random() < 0.6 else ("xoffset", self._or_odd("7")),
            ("position", self._or_odd(place.replace("%d", str(draw.randrange(10**6))))),
            ("gtid", gtid.replace("%d", "8") if self._breaks() else _GTIDS[0].replace("%d", str(draw.randrange(99)))),
            ("server_id", self._or_odd("23042")),
            ("data", self._row()),
        ]
        if kind == "update" or draw.random() < 0.02:
            fields.append(("old", self._row(draw.choice(_OLDS))))
        return self._object(fields)

    def _table(self) -> Fields:
        table = self.random.choice(["orders"] * 9 + ["other"])
        return [("database", self._or_odd('"shop"')), ("table", self._or_odd(f'"{table}"'))]

    def _canal(self) -> str:
        draw = self.random
        kind, rows = draw.choice(["INSERT", "UPDATE", "DELETE"]), 1 if draw.random() < 0.9 else draw.choice([0, 2, 3])
        self._text = draw.random() < 0.95
        data = self._list([self._row() for _ in range(rows)])
        olds = 2 if self._breaks(0.1) else rows
        old = self._list([self._row(draw.choice(_OLDS[:2])) for _ in range(olds)])
        word = draw.choice(["TRUNCATE", "QUERY", "CREATE", "x"]) if self._breaks(0.2) else kind
        gtid = draw.choice(_GTIDS)
        return self._object(
            [
                ("data", data),
                *self._table(),
                ("es", self._or_odd("1767225600123")),
                ("gtid", gtid.replace("%d", "8") if self._breaks() else draw.choice(['""', '"u:1"', '"u:2"'])),
                ("id", self._or_odd("7")),
                ("isDdl", self._or_odd("false")),
                ("mysqlType", draw.choice(_TYPES) if self._breaks(0.2) else _TYPES[0]),
                ("old", old if kind == "UPDATE" else "null"),
                ("pkNames", '["id"]'),
                ("sql", self._or_odd('""')),
                ("ts", self._or_odd("1767225600000")),
                ("type", self._or_odd(f'"{word}"')),
            ]
        )

    def _debezium(self) -> str:
        draw = self.random
        op = draw.choice("tmx") if self._breaks(0.2) else draw.choice("cruud")
        before = self._row(self._sent(op)) if op in "ud" and not self._breaks(0.2) else "null"
        after = self._row() if op != "d" else "null"
        source = "null" if self._breaks(0.1) else self._object(self._source())
        message = self._object(
            [
                ("before", self._or_odd(before)),
                ("after", self._or_odd(after)),
                ("source", source),
                ("op", self._or_odd(f'"{op}"')),
                ("ts_ms", self._or_odd("1")),
                ("transaction", self._or_odd(self._transaction())),
            ]
        )
        if not self.enveloped:
            return message
        schema = draw.choice(_SCHEMAS) if draw.random() < 0.05 else _SCHEMAS[0]
        return f'{{"schema":{schema},"payload":{message}}}'

    def _sent(self, op: str) -> Sequence[str] | None:
        """The columns of an old image: all, or those of a replica identity."""
        return self.random.choice([*_OLDS, ("id",)]) if op == "d" and self._breaks() else None

    def _source(self) -> Fields:
        draw, (database, table) = self.random, self._table()
        gtid = draw.choice(_GTIDS)
        return [
            ("version", '"2.7"'),
            ("name", self._or_odd('"shop"')),
            ("ts_ms", self._or_odd("1767225600000")),
            ("db", database[1]),
            ("sequence", self._or_odd("null")),
            table,
            ("server_id", self._or_odd("1")),
            ("gtid", gtid.replace("%d", "8") if self._breaks() else _GTIDS[0].replace("%d", str(draw.randrange(99)))),
            ("file", self._or_odd(draw.choice(_FILES) if self._breaks() else f'"bin.{draw.randrange(8, 12):03}"')),
            (draw.choice(["pos", "lsn", "scn"]) if self._breaks() else "pos", self._or_odd(str(draw.randrange(9999)))),
            ("row", self._or_odd("0")),
            ("txId", self._or_odd(draw.choice(["null", "0", "555"])) if self._breaks() else "null"),
            ("query", self._or_odd("null")),
        ]

    def _transaction(self) -> str:
        draw = self.random
        if draw.random() < 0.3:
            return "null"
        names = [f'"file=b.1,pos={draw.randrange(99)}"', f'"{draw.randrange(99)}:{draw.randrange(99)}"']
        fields = [("id", self._or_odd(draw.choice(names))), ("total_order", self._or_odd("3"))]
        return self._object([*fields, ("data_collection_order", "1")])


def _schema(at: str | None, wall: str | None, day: str | None) -> str:
    def described(name: str, type_: str, logical: str | None = None) -> dict[str, str]:
        return {"field": name, "type": type_} | ({"name": logical} if logical else {})

    fields = [
        described("id", "int64"),
        described("at", "int64", at),
        described("wall", "int64", wall),
        described("day", "int32", day),
    ]
    images = [{"field": side, "type": "struct", "fields": fields} for side in ("before", "after")]
    return json.dumps({"type": "struct", "fields": images})


_MILLIS, _MICROS, _NANOS = (f"io.debezium.time.{each}Timestamp" for each in ("", "Micro", "Nano"))
_SCHEMAS = (
    _schema(_MILLIS, _MICROS, "io.debezium.time.Date"),
    _schema(_MICROS, _NANOS, None),
    _schema(None, _MILLIS, "io.debezium.time.Date"),
    "null",
)
