"""Any change, written as each of the tools writes it, is read back as the same rows."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.adapters.records.decoder import Record, RecordDecoder
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import Schema

Row: TypeAlias = dict[str, Any]
Change: TypeAlias = tuple[str, Row | None, Row | None]
"""``c u d``, the old row, the new one."""

SCHEMA = Schema.parse(
    "id bigint, name string, amount decimal(20,4), share double, day date, at timestamp, wall timestamp_ntz,"
    " flag boolean, raw binary"
)
_1970 = datetime(1970, 1, 1)
TIMES = st.datetimes(datetime(1980, 1, 1), datetime(9999, 12, 31))
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | st.text(st.characters(codec="utf-8")),
        "amount": st.none() | st.decimals(-(10**15), 10**15, places=4),
        "share": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "day": st.none() | st.dates(),
        "at": st.none() | TIMES.map(lambda each: each.replace(tzinfo=UTC)),
        "wall": st.none() | TIMES,
        "flag": st.none() | st.booleans(),
        "raw": st.none() | st.binary(),
    }
)


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """A change; an update leaves some columns as they were."""
    op, row = draw(st.sampled_from("cud")), draw(ROWS)
    if op == "c":
        return op, None, row
    if op == "d":
        return op, row, None
    touched = draw(st.sets(st.sampled_from(SCHEMA.names)))
    other = draw(ROWS)
    return op, row, {name: (other if name in touched else row)[name] for name in SCHEMA.names}


def expected(change: Change) -> list[tuple[str, Row]]:
    op, old, new = change
    return [
        *([("-U" if op == "u" else "-D", old)] if old else []),
        *([("+U" if op == "u" else "+I", new)] if new else []),
    ]


def number(value: Decimal | float) -> str:
    return format(value, "f") if isinstance(value, Decimal) else repr(value)


def text(value: Any) -> str:
    """A value as MySQL writes it as text."""
    match value:
        case bool():
            return str(int(value))
        case bytes():
            return value.decode("latin-1")
        case datetime():
            return value.replace(tzinfo=None).isoformat(" ")
        case date():
            return value.isoformat()
        case Decimal() | float():
            return number(value)
        case _:
            return str(value)


def as_maxwell(value: Any) -> Any:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case None | bool() | int() | str():
            return value
        case Decimal() | float():
            return msgspec.Raw(number(value).encode())
        case _:
            return text(value)


def as_debezium(value: Any) -> Any:
    match value:
        case datetime():
            return (value.replace(tzinfo=None) - _1970) // timedelta(microseconds=1)
        case date():
            return (value - date(1970, 1, 1)).days
        case Decimal():
            return text(value)
        case _:
            return as_maxwell(value)


def different(old: Row, new: Row) -> list[str]:
    return [name for name in SCHEMA.names if (type(old[name]), old[name]) != (type(new[name]), new[name])]


def maxwell(some: list[Change]) -> list[bytes]:
    return [_maxwell(*each) for each in some]


def _maxwell(op: str, old: Row | None, new: Row | None) -> bytes:
    row = new or old or {}
    message = {"database": "d", "table": "t", "type": {"c": "insert", "u": "update", "d": "delete"}[op], "ts": 1}
    message["data"] = {name: as_maxwell(value) for name, value in row.items()}
    if old and new and (names := different(old, new)):
        message["old"] = {name: as_maxwell(old[name]) for name in names}
    return msgspec.json.encode(message)


def debezium(some: list[Change]) -> list[bytes]:
    return [_debezium(*each) for each in some]


def _debezium(op: str, old: Row | None, new: Row | None) -> bytes:
    images = [each and {name: as_debezium(value) for name, value in each.items()} for each in (old, new)]
    source = {"db": "d", "table": "t", "ts_ms": 1}
    return msgspec.json.encode({"before": images[0], "after": images[1], "source": source, "op": op, "ts_ms": 2})


def canal(some: list[Change]) -> list[bytes]:
    """Changes of one kind that follow each other are one message."""
    runs: list[list[Change]] = []
    for each in some:
        if runs and runs[-1][0][0] == each[0]:
            runs[-1].append(each)
        else:
            runs.append([each])
    return [_canal(run) for run in runs]


def _canal(run: list[Change]) -> bytes:
    def texts(row: Row, names: Any) -> dict[str, str | None]:
        return {name: None if row[name] is None else text(row[name]) for name in names}

    kind = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[run[0][0]]
    data = [texts(new or old or {}, SCHEMA.names) for _, old, new in run]
    olds = [texts(old, different(old, new)) for _, old, new in run if old and new]
    return json.dumps({"data": data, "old": olds or None, "type": kind, "isDdl": False, "es": 1}).encode()


@pytest.mark.parametrize(
    ("format_", "write"), [("maxwell-json", maxwell), ("debezium-json", debezium), ("canal-json", canal)]
)
# What is slow is to set the strategies up, on a busy machine.
@given(some=st.lists(changes(), max_size=5))
def test_what_was_written_is_read_back(format_: str, write: Any, some: list[Change]) -> None:
    raws, at = [], 0
    for raw in write(some):  # as close as a file brings them
        raws.append(Record(raw, at, "log"))
        at += len(raw) + 1
    lines = RecordDecoder(RecordSpec(SCHEMA, format_)).batch(raws).to_pylist()
    assert [line["_error"] for line in lines] == [None] * len(lines)
    found = [(line["_row_kind"], {name: line[name] for name in SCHEMA.names}) for line in lines]
    assert found == [each for change in some for each in expected(change)]
    positions = [line["_position"] for line in lines]
    assert positions == sorted(set(positions))
