"""The transaction data of changelogs, and when a transaction is complete."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest

from headwater.adapters.records.decoder import Record, RecordDecoder, batch_schema
from headwater.domain.errors import ConfigError
from headwater.domain.source.changelog.settings import CHANGE_FORMATS, COUNTED, ORDERED, ChangeSpec
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.source.transactions import AT, split_complete
from headwater.domain.table.change import POSITION
from headwater.domain.table.schema import Schema
from tests.backends import delta_backend, memory_backend
from tests.changelog.decoding import Decoding

if TYPE_CHECKING:
    from pathlib import Path

DDL = "id bigint, balance bigint, pos bigint"
TOLD = ("_transaction", "_commit", "_commit_time", "_event", "_events")
Line = dict[str, Any]


def at(second: int) -> datetime:
    return datetime(2024, 3, 1, 9, 0, second, tzinfo=UTC)


def maxwell(table: str, xid: int | None, second: int, **more: Any) -> str:
    data = {"id": more.pop("id", 1), "balance": more.pop("balance", 5)}
    told = {"database": "bank", "table": table, "type": "insert", "ts": int(at(second).timestamp()), "data": data}
    return json.dumps(told | ({"xid": xid} if xid is not None else {}) | more)


def debezium(table: str, name: str | None, number: int, second: int, **more: Any) -> str:
    source = {"db": "bank", "table": table, "ts_ms": int(at(second).timestamp()) * 1000, "txId": 77, "pos": 8}
    told = {"op": "c", "before": None, "after": {"id": number, "balance": 5}, "source": source}
    marked = {"id": name, "total_order": number, "data_collection_order": 1} if name else None
    return json.dumps(told | {"transaction": marked} | more)


def ended(name: str, **counts: int) -> str:
    tables = [{"data_collection": f"bank.{table}", "event_count": count} for table, count in counts.items()]
    return json.dumps(
        {
            "status": "END",
            "id": name,
            "event_count": sum(counts.values()),
            "data_collections": tables,
            "ts_ms": int(at(9).timestamp()) * 1000,
        }
    )


def spec(format_: str, transactions: str | None = None, metadata: str = "log_position") -> RecordSpec:
    changes = ChangeSpec(tables=(r"bank\.accounts",), metadata={"pos": metadata}, transactions=transactions)
    return RecordSpec(Schema.parse(DDL), format_, changes=changes, tells_transactions=True)


def lines(given: RecordSpec, *raws: str, origins: tuple[str, ...] = ()) -> list[Line]:
    named = origins or ("log",) * len(raws)
    records = [
        Record(raw.encode(), number * 10_000, origin)
        for number, (raw, origin) in enumerate(zip(raws, named, strict=True))
    ]
    told: list[Line] = RecordDecoder(given).batch(records).to_pylist()
    return told


def told(line: Line) -> tuple[Any, ...]:
    return tuple(line[name] for name in TOLD)


Parted = Callable[..., tuple[list[Line], list[Line]]]
"""A spec, the rows of a batch and whether origins are lanes -> the rows that count, and those that wait."""


@pytest.fixture(params=["memory", pytest.param("delta", marks=[pytest.mark.delta, pytest.mark.contract])])
def parted(request: pytest.FixtureRequest, tmp_path: Path) -> Parted:
    """Parts rows on one engine after the other."""
    if request.param == "memory":
        backend = memory_backend()
    else:
        backend = delta_backend(request.getfixturevalue("spark"), str(tmp_path))

    def part(given: RecordSpec, batch: list[Line], *, lane: bool = False) -> tuple[list[Line], list[Line]]:
        schema = batch_schema(given.rows)
        rows = backend.frame([tuple(line[name] for name in schema.names) for line in batch], schema)
        of = nw.col("_origin") if lane else None
        how = {"transactions": given.transactions, "order": [POSITION], "lane": of, "key": ["id"]}
        both = split_complete(rows, backend.engine, **how)
        counting, waiting = (each.sort(POSITION).collect(backend="pyarrow").to_arrow().to_pylist() for each in both)
        backend.engine.release()
        return counting, waiting

    return part


def test_maxwells_rows_tell_their_transaction_and_which_is_its_last() -> None:
    first, last, alone = lines(
        spec("maxwell-json"),
        maxwell("accounts", 7, 1, xoffset=0, position="binlog.1:40"),
        maxwell("accounts", 7, 2, commit=True),
        maxwell("accounts", None, 3, type="bootstrap-insert"),
    )
    assert told(first) == ("7", False, at(1), 0, None)
    assert told(last) == ("7", True, at(2), 2**63 - 1, None)
    assert told(alone) == (None, None, at(3), None, None)


def test_the_last_row_of_another_table_leaves_a_mark_with_the_position_of_the_log() -> None:
    row, mark = lines(
        spec("maxwell-json"),
        maxwell("accounts", 7, 1, xoffset=0),
        maxwell("orders", 7, 1, xoffset=1),
        maxwell("orders", 7, 2, commit=True, position="binlog.1:90"),
    )
    assert (row["_row_kind"], row["id"]) == ("+I", 1)
    assert (mark["_row_kind"], mark["_error"], mark["id"], mark["pos"]) == (None, None, None, 90)
    assert told(mark)[:3] == ("7", True, at(2))


def test_maxwells_ddl_whose_time_is_in_milliseconds_makes_no_row() -> None:
    ddl = {"database": "bank", "table": "accounts", "def": {"columns": []}, "ts": 1709283600123, "sql": "create …"}
    kinds = ("table-create", "table-alter", "table-drop", "database-create", "database-alter", "database-drop")
    told = [json.dumps({"type": kind, **ddl, "position": "binlog.1:40"}) for kind in kinds]
    assert lines(spec("maxwell-json"), *told) == []


@pytest.mark.parametrize("kind", [{}, [], 7, None])
def test_a_message_whose_type_is_no_word_is_refused(kind: object) -> None:
    (line,) = lines(spec("maxwell-json"), maxwell("accounts", 7, 1, type=kind))
    assert line["_error"].startswith("type: one of Maxwell's wanted")
    assert line["_transaction"] == "7"


def test_a_tombstone_in_a_file_makes_no_row() -> None:
    for told in (COUNTED, ORDERED):
        assert lines(spec("debezium-json", told), "null") == []
    for format_ in CHANGE_FORMATS:
        assert lines(spec(format_, ORDERED, "row"), "null", " null ") == []
        assert Decoding(format_, "id int").lines("null", " null ", None) == []


def test_a_record_that_cannot_be_used_still_ends_its_transaction(parted: Parted) -> None:
    given = spec("maxwell-json")
    batch = lines(given, maxwell("accounts", 7, 1), maxwell("accounts", 7, 2, id="x", commit=True))
    assert "bigint wanted" in batch[1]["_error"]
    counting, waiting = parted(given, batch)
    assert [(line["id"], line[AT]) for line in counting] == [(1, at(2)), (None, at(2))]
    assert waiting == []


def test_a_transaction_waits_for_its_commit_and_then_counts_at_that_moment(parted: Parted) -> None:
    given = spec("maxwell-json")
    batch = lines(
        given,
        maxwell("accounts", 6, 0, commit=True, id=6),
        maxwell("accounts", 7, 1, xoffset=0, id=7),
        maxwell("accounts", None, 2, type="bootstrap-insert", id=8),
        maxwell("orders", 7, 3, commit=True),
    )
    counting, waiting = parted(given, batch[:3])
    assert [(line["id"], line[AT]) for line in counting] == [(6, at(0)), (8, at(2))]
    assert [line["id"] for line in waiting] == [7]
    assert AT not in waiting[0]
    counting, waiting = parted(given, [*waiting, batch[3]])
    assert [(line["id"], line[AT]) for line in counting] == [(7, at(3))]
    assert waiting == []


def test_the_next_transaction_of_a_log_ends_the_one_before_it_and_no_other_logs(parted: Parted) -> None:
    given = spec("maxwell-json")
    rows = maxwell("accounts", 7, 1, id=7), maxwell("accounts", 9, 1, id=9), maxwell("accounts", 8, 2, id=8)
    batch = lines(given, *rows, origins=("a", "b", "a"))
    counting, waiting = parted(given, batch, lane=True)
    assert [line["id"] for line in counting] == [7]
    assert [line["id"] for line in waiting] == [9, 8]


def test_a_row_waits_for_a_transaction_of_two_logs_that_changes_the_same_row_before_it(parted: Parted) -> None:
    given = spec("maxwell-json")
    rows = ((7, 1, False), (8, 1, True), (9, 2, True), (7, 3, False), (7, 3, True))
    batch = lines(
        given,
        *(maxwell("accounts", xid, 1, id=key, commit=commit) for xid, key, commit in rows),
        origins=("a", "a", "a", "b", "b"),
    )
    counting, waiting = parted(given, batch[:-1], lane=True)
    assert [line["id"] for line in counting] == [2]
    assert [line["_transaction"] for line in waiting] == ["7", "8", "7"]
    counting, waiting = parted(given, [*waiting, batch[-1]], lane=True)
    assert ([line["_transaction"] for line in counting], waiting) == (["7", "8", "7", "7"], [])


def test_debeziums_transactions_are_whole_when_as_many_events_are_there_as_their_end_counts(parted: Parted) -> None:
    given = spec("debezium-json", COUNTED)
    # PostgreSQL's names have the place of each event behind the number of the transaction.
    first, second = debezium("accounts", "571:5", 1, 1), debezium("accounts", "571:8", 3, 2)
    batch = lines(given, ended("571:9", accounts=2, orders=1), first, debezium("orders", "571:7", 2, 1), second)
    assert [told(line) for line in batch] == [
        ("571", None, at(9), None, 2),
        ("571", None, at(1), 1, None),
        ("571", None, at(2), 3, None),
    ]
    counting, waiting = parted(given, batch[:2])
    assert (counting, len(waiting)) == ([], 2)
    again = {**batch[1], "_position": 15_000}  # sent twice, as Debezium may after a crash
    counting, waiting = parted(given, [*batch[:2], again])
    assert (counting, len(waiting)) == ([], 2)
    counting, waiting = parted(given, batch)
    assert [(line["id"], line[AT]) for line in counting] == [(1, at(9)), (3, at(9))]
    assert waiting == []


def test_rows_before_their_transactions_end_wait_though_others_follow(parted: Parted) -> None:
    given = spec("debezium-json", COUNTED)
    batch = lines(given, debezium("accounts", "a", 1, 1), debezium("accounts", "b", 2, 2), ended("b", accounts=1))
    counting, waiting = parted(given, batch)
    assert [line["_transaction"] for line in counting] == ["b"]
    assert [line["_transaction"] for line in waiting] == ["a"]


def test_a_transaction_waits_for_the_one_before_it_that_changes_the_same_row(parted: Parted) -> None:
    given = spec("debezium-json", COUNTED)

    def change(name: str | None, event: int, key: int) -> str:
        return debezium("accounts", name, event, event, after={"id": key, "balance": 5})

    batch = lines(
        given,
        *(change("a", 1, 1), change("b", 1, 1), change("b", 2, 2), change("c", 1, 2), change("d", 1, 3)),
        *(change(None, 1, 2), change(None, 1, 4)),
        *(ended("a", accounts=2), ended("b", accounts=2), ended("c", accounts=1), ended("d", accounts=1)),
        change("a", 2, 5),
        origins=tuple(f"log/0@{offset}" for offset in range(12)),
    )
    counting, waiting = parted(given, batch[:-1])
    assert [line["id"] for line in counting] == [3, 4]
    assert [line["id"] for line in waiting if line["id"]] == [1, 1, 2, 2, 2]
    counting, waiting = parted(given, [*waiting, batch[-1]])
    assert ([line["id"] for line in counting], waiting) == ([1, 1, 2, 2, 2, 5], [])


def test_the_first_of_two_copies_of_an_event_counts(parted: Parted) -> None:
    given = spec("debezium-json", COUNTED)
    event = debezium("accounts", "a", 1, 1)
    counting, waiting = parted(given, lines(given, event, ended("a", accounts=1), event, ended("a", accounts=1)))
    assert ([line["_position"] for line in counting], waiting) == ([0], [])


def test_a_transaction_of_other_tables_leaves_no_mark() -> None:
    given = spec("debezium-json", COUNTED)
    assert lines(given, ended("a", orders=3), '{"status":"BEGIN","id":"a","event_count":null}') == []


def test_debeziums_rows_without_the_mark_of_a_transaction_stand_alone_where_they_are_counted(parted: Parted) -> None:
    given = spec("debezium-json", COUNTED)
    counting, _ = parted(
        given, lines(given, debezium("accounts", None, 1, 1), debezium("accounts", None, 2, 1, op="r"))
    )
    assert [line["id"] for line in counting] == [1, 2]


def test_in_order_debeziums_rows_go_by_the_databases_own_transaction(parted: Parted) -> None:
    given = spec("debezium-json", ORDERED)
    one, mark = lines(given, debezium("accounts", None, 1, 1), debezium("orders", "b", 1, 2))
    assert told(one) == ("77", None, at(1), None, None)
    assert (mark["_row_kind"], mark["pos"], *told(mark)) == (None, 8, "b", None, at(2), 1, None)
    counting, waiting = parted(given, [one, mark])
    assert [line["id"] for line in counting] == [1]
    assert [line["_transaction"] for line in waiting] == ["b"]


def test_canals_transactions_go_by_their_gtid(parted: Parted) -> None:
    given = spec("canal-json", ORDERED, "row")
    message = {"type": "INSERT", "database": "bank", "table": "accounts", "es": 1_709_283_601_000}

    def change(gtid: str, *ids: int) -> str:
        return json.dumps({**message, "gtid": gtid, "data": [{"id": key, "balance": "5"} for key in ids]})

    batch = lines(given, change("u:1", 1, 2), change("u:2", 1, 2), change("", 3, 4))
    assert [line["_transaction"] for line in batch] == ["u:1"] * 2 + ["u:2"] * 2 + [None] * 2
    counting, _ = parted(given, batch)
    assert [(line["id"], line["_transaction"]) for line in counting] == [(1, "u:1"), (2, "u:1"), (3, None), (4, None)]


@pytest.mark.parametrize("format_", ["json", "canal-json"])
def test_a_source_that_marks_no_transactions_is_not_asked_to(format_: str) -> None:
    with pytest.raises(ConfigError, match="do not name their transaction"):
        RecordSpec(Schema.parse(DDL), format_, tells_transactions=True)


@pytest.mark.parametrize("format_", ["maxwell-json", "debezium-json"])
def test_counting_needs_debezium_and_the_names_of_the_tables(format_: str) -> None:
    with pytest.raises(ConfigError, match="name those that are read with `tables`"):
        RecordSpec(Schema.parse(DDL), format_, changes=ChangeSpec(transactions=COUNTED))
