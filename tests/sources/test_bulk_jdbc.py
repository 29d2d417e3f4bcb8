"""A table of a database as chunks by key range, against real databases: Derby and PostgreSQL."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from time import sleep
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest
from attrs import define, evolve, field

from headwater import Headwater
from headwater.adapters.jdbc.bulk import JdbcBulk, TableSettings
from headwater.adapters.jdbc.database import Database, JdbcSettings
from headwater.adapters.jdbc.keys import KeyColumn
from headwater.adapters.shared.chunks import Progress
from headwater.app.config import load
from headwater.domain.epoch.epoch import OffsetRange
from headwater.domain.epoch.key_range import KeyRange
from headwater.domain.errors import BadInput, ConfigError, SourceChanged, SourceUnavailable
from headwater.domain.source.bulk import BulkSpec
from headwater.domain.source.record_spec import RecordSpec
from headwater.domain.table.schema import DataType, Schema
from tests.jdbc_databases import JdbcDatabase, derby

from .conftest import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from headwater.domain.epoch.epoch import Offsets
    from tests.jdbc_databases import PostgresServer

pytestmark = [pytest.mark.delta, pytest.mark.contract]

ACCOUNTS = "account_id bigint, owner string, balance decimal(18,2), opened date, at timestamp"
TABLE = """CREATE TABLE "ACCOUNTS" ("ACCOUNT_ID" INTEGER PRIMARY KEY, "OWNER" VARCHAR(20), "BALANCE" DECIMAL(18,2),
"OPENED" DATE, "AT" TIMESTAMP)"""


@pytest.fixture(params=["derby", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.slow])])
def database(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> JdbcDatabase:
    """One empty database after the other."""
    if request.param == "derby":
        return derby(spark, tmp_path)
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.database(spark)


@pytest.fixture
def bank(database: JdbcDatabase) -> JdbcDatabase:
    """Ten accounts, numbered 1, 3, 5 …"""
    database.run(TABLE)
    database.insert(
        '"ACCOUNTS"',
        [(each, f"o'{each}", Decimal(each) / 4, "2024-02-29", "2024-03-01 12:00:00.5") for each in range(1, 20, 2)],
    )
    return database


def spec(schema: str = ACCOUNTS, **more: Any) -> BulkSpec:
    zone = more.pop("time_zone", "UTC")
    given = {"key": ("account_id",), "position": (), "search_ts": None, "delay": timedelta()} | more
    return BulkSpec(RecordSpec(Schema.parse(schema), "parquet", time_zone=zone), **given)


def bulk(database: JdbcDatabase, wanted: BulkSpec | None = None, **settings: Any) -> JdbcBulk:
    named = settings.pop("table", "ACCOUNTS")
    given = {"table": f"{database.schema}.{named}", "chunk_rows": 4} | settings
    return JdbcBulk(database.opened, TableSettings(**given), wanted or spec())


def planned(source: JdbcBulk, after: Offsets | None) -> OffsetRange | None:
    """The next chunks, through JSON as a ledger keeps them."""
    found = source.plan(after, None)
    return found and OffsetRange(*json.loads(json.dumps([found.after, found.until])))


def loaded(source: JdbcBulk) -> tuple[list[list[dict[str, Any]]], Offsets]:
    """The rows of each epoch, up to the end."""
    after: Offsets | None = None
    epochs = []
    while offsets := planned(source, after):
        epochs.append(rows(source.read(offsets).rows))
        after = offsets.until
    assert after is not None
    return epochs, after


def test_the_key_is_walked_in_order_and_each_row_is_read_once(bank: JdbcDatabase) -> None:
    source = bulk(bank)
    before = bank.opened.now(None)
    epochs, after = loaded(source)
    assert [[line["account_id"] for line in lines] for lines in epochs] == [[1, 3, 5, 7], [9, 11, 13, 15], [17, 19]]
    assert [[line["_chunk"] for line in lines] for lines in epochs] == [[0] * 4, [1] * 4, [2] * 2]
    first, last = epochs[0][0], epochs[-1][-1]
    assert before <= first["_search_ts"] <= last["_search_ts"] <= datetime.now(UTC) + timedelta(seconds=1)
    at = datetime(2024, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    values = {"account_id": 1, "owner": "o'1", "balance": Decimal("0.25"), "opened": date(2024, 2, 29), "at": at}
    assert {name: first[name] for name in values} == values
    assert (first["_row_kind"], first["_error"], first["_origin"]) == ("+I", None, f"{bank.schema}.ACCOUNTS")
    assert json.loads(first["_raw"])["ACCOUNT_ID"] == 1
    assert after["chunks"] == 3
    assert len(json.dumps(after)) < 200
    assert (source.remaining(after), source.lag(after), source.trouble) == ((), "", ())


def test_what_is_left_is_told_by_the_key(bank: JdbcDatabase) -> None:
    source = bulk(bank)
    assert source.remaining(None) == (KeyRange(),)
    offsets = planned(source, None)
    assert offsets is not None
    assert source.remaining(offsets.until) == (KeyRange(7, None),)
    assert source.lag(offsets.until) == f"rows of {bank.schema}.ACCOUNTS behind [7]"


def test_several_chunks_make_an_epoch_each_with_its_own_number(bank: JdbcDatabase) -> None:
    epochs, _ = loaded(bulk(bank, chunks_per_epoch=2))
    assert [sorted({line["_chunk"] for line in lines}) for lines in epochs] == [[0, 1], [2]]
    assert [len({line["_position"] for line in lines}) for lines in epochs] == [8, 2]


def test_a_chunk_is_a_range_that_the_database_itself_looks_for(bank: JdbcDatabase) -> None:
    database = bank.opened
    key = KeyColumn("ACCOUNT_ID", DataType.parse("bigint"), nullable=False, is_number=True, database_type="INTEGER")
    table = f"{bank.schema}.ACCOUNTS"
    columns = {each: DataType.parse("bigint") for each in database.columns(table) if each.name == "ACCOUNT_ID"}
    found, unread = database.chunk(table, columns, [key], [3], [9])
    assert found.select("ACCOUNT_ID").orderBy("ACCOUNT_ID").collect() == [(5,), (7,), (9,)]
    assert unread == {}
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert '("ACCOUNT_ID" > ' in plan
    assert '("ACCOUNT_ID" <= ' in plan


def test_keys_of_several_columns_are_walked_column_by_column(database: JdbcDatabase) -> None:
    database.run(
        'CREATE TABLE "Line items" ("order" VARCHAR(9), "no" BIGINT, "n" SMALLINT, PRIMARY KEY ("order", "no"))'
    )
    keys = [(order, no) for order in ("a", "b'", "c") for no in (1, 2, 3)]
    database.insert('"Line items"', [(order, no, 1) for order, no in keys])
    wanted = spec("order string, no bigint, n smallint", key=("order", "no"))
    epochs, _ = loaded(bulk(database, wanted, table="Line items", chunk_rows=2))
    assert [(line["order"], line["no"]) for lines in epochs for line in lines] == keys
    assert [len(lines) for lines in epochs] == [2, 2, 2, 2, 1]


@pytest.mark.parametrize("chunk_rows", [2, 5, 7])
def test_a_row_without_a_key_is_read_once_wherever_the_chunks_end(database: JdbcDatabase, chunk_rows: int) -> None:
    database.run('CREATE TABLE "LINES" ("A" INTEGER, "B" VARCHAR(9), "N" INTEGER)')
    keys = [(1, None), (1, "a"), (1, "b"), (2, None), (None, "c"), (2, "a"), (2, "b"), (None, None), (3, "a")]
    database.insert('"LINES"', [(*each, number) for number, each in enumerate(keys)])
    one, _ = loaded(bulk(database, spec("a bigint, n int", key=("a",)), table="LINES", chunk_rows=chunk_rows))
    assert sorted(line["n"] for lines in one for line in lines) == list(range(len(keys)))
    two, _ = loaded(
        bulk(database, spec("a bigint, b string, n int", key=("a", "b")), table="LINES", chunk_rows=chunk_rows)
    )
    assert sorted(line["n"] for lines in two for line in lines) == list(range(len(keys)))
    assert {line["n"] for line in two[-1]} >= {0, 3, 4, 7}


def test_a_chunk_that_another_process_planned_is_read_anew_with_the_moment_of_that(bank: JdbcDatabase) -> None:
    first = bulk(bank)
    offsets = planned(first, None)
    assert offsets is not None
    assert first.readable(offsets)
    assert not bulk(bank).readable(offsets)  # so that a run plans it anew, and takes back what the first read committed
    assert planned(bulk(bank), None) != offsets
    bank.run(
        'UPDATE "ACCOUNTS" SET "BALANCE" = 99 WHERE "ACCOUNT_ID" = 3',
        'INSERT INTO "ACCOUNTS" ("ACCOUNT_ID") VALUES (4), (8)',
    )
    between = bank.opened.now(None)
    lines = sorted(
        rows(bulk(bank).read(offsets).rows), key=lambda line: line["account_id"]
    )  # PostgreSQL moves what changes
    assert [(line["account_id"], line["balance"]) for line in lines[:3]] == [
        (1, Decimal("0.25")),
        (3, Decimal(99)),
        (4, None),
    ]
    assert [line["account_id"] for line in lines] == [1, 3, 4, 5, 7]
    assert lines[0]["_search_ts"] >= between


def test_what_was_read_for_an_epoch_stays_as_it_was(bank: JdbcDatabase) -> None:
    source = bulk(bank)
    offsets = planned(source, None)
    assert offsets is not None
    bank.run('UPDATE "ACCOUNTS" SET "BALANCE" = 99')
    assert {line["balance"] for line in rows(source.read(offsets).rows)} == {Decimal(n) / 4 for n in (1, 3, 5, 7)}


def test_an_empty_table_is_one_empty_chunk(database: JdbcDatabase) -> None:
    database.run(TABLE)
    epochs, after = loaded(bulk(database))
    assert (epochs, after["chunks"]) == ([[]], 1)


def test_the_position_is_that_of_the_log_before_and_after_the_query(bank: JdbcDatabase) -> None:
    bank.run("CREATE TABLE LOG (POS BIGINT)", "INSERT INTO LOG VALUES (40), (41)")
    wanted = spec(ACCOUNTS + ", pos bigint", position=("pos",))
    source = bulk(bank, wanted, position="SELECT MAX(POS) FROM LOG")
    offsets = planned(source, None)
    assert offsets is not None
    bank.run("INSERT INTO LOG VALUES (50)")
    assert {(line["pos"], line["_reach_0"]) for line in rows(source.read(offsets).rows)} == {(41, 41)}
    with pytest.raises(BadInput, match="must give one row with a column for each of the position: pos"):
        bulk(bank, wanted, position="SELECT POS, POS FROM LOG").plan(None, None)


@pytest.mark.postgres
@pytest.mark.slow
def test_a_change_that_is_in_the_log_and_not_seen_yet_is_after_the_position(hung_update: HungUpdate) -> None:
    """A commit that waits for a standby server is in PostgreSQL's log, but queries do not see it."""
    bank, asked = hung_update.bank, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"
    wanted = spec("account_id bigint, balance decimal(18,2), pos bigint", position=("pos",))
    before, later = (bulk(bank, wanted, position=asked, chunk_rows=1) for _ in range(2))
    first = planned(before, None)
    assert first is not None
    position = rows(before.read(first).rows)[0]["pos"]
    with hung_update():
        second = planned(before, first.until)
        assert second is not None
        (line,) = rows(before.read(second).rows)
        assert (line["account_id"], line["balance"], line["pos"]) == (2, Decimal(0), position)
        assert line["_reach_0"] > position
        later._positions.patience = 0.3
        assert planned(later, None) is None
        (told,) = later.trouble
        assert told.startswith("the next chunk: transactions that were open when it was to be read are still open")
        assert later.lag(None) == f"rows of {bank.schema}.ACCOUNTS"
    offsets = planned(later, None)
    assert offsets is not None
    assert rows(later.read(offsets).rows)[0]["pos"] > position
    assert (later.trouble, bank.rows("ACCOUNTS")[-1]["BALANCE"]) == ((), Decimal(1))


@define(eq=False)
class HungUpdate:
    """A bank of accounts 1, 2 and 3 without money, and an update of account 2 that waits for a standby server."""

    bank: JdbcDatabase

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """While it waits; then it is acknowledged."""
        with ThreadPoolExecutor(2) as pool:
            self._configure("SET synchronous_standby_names = 'nowhere'")
            try:
                while not self._waiting:  # the setting needs a moment
                    wait([pool.submit(self.bank.run, 'UPDATE "ACCOUNTS" SET "OWNER" = \'\' WHERE "ACCOUNT_ID" = 3')], 1)
                pool.submit(self.bank.run, 'UPDATE "ACCOUNTS" SET "BALANCE" = 1 WHERE "ACCOUNT_ID" = 2')
                while self._waiting < 2:
                    sleep(0.1)
                yield
            finally:
                self._configure("RESET synchronous_standby_names")

    @property
    def _waiting(self) -> int:
        found = self.bank.opened.row("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        assert found
        return int(found[0])

    def _configure(self, setting: str) -> None:
        with self.bank.opened._connection() as connection:
            connection.createStatement().execute(f"ALTER SYSTEM {setting}")
            connection.createStatement().execute("SELECT pg_reload_conf()")


@pytest.fixture
def hung_update(postgres_bank: JdbcDatabase) -> HungUpdate:
    postgres_bank.insert('"ACCOUNTS"', [(each, "", Decimal(0), None, None) for each in (1, 2, 3)])
    return HungUpdate(postgres_bank)


def test_a_row_that_has_its_own_position_brings_it(bank: JdbcDatabase) -> None:
    bank.run('ALTER TABLE "ACCOUNTS" ADD COLUMN "VERSION" BIGINT DEFAULT 7')
    wanted = spec(ACCOUNTS + ", version bigint", position=("version",))
    epochs, _ = loaded(bulk(bank, wanted))
    assert {(line["version"], line["_reach_0"]) for lines in epochs for line in lines} == {(7, 7)}


@define
class Locked:
    """Refuses some of the questions that are asked of a database, counted from 1."""

    refused: set[int]
    asked: int = 0

    def __call__(self) -> None:
        self.asked += 1
        if self.asked in self.refused:
            raise SourceUnavailable("a lock could not be obtained")


def test_a_chunk_that_the_database_does_not_give_is_told_of_and_the_others_go_on(bank: JdbcDatabase) -> None:
    # For each chunk the columns, its end, the columns before and after its query, and the time; of the second no columns.
    locked = Locked({8, 14})
    source = bulk(evolve(bank, meanwhile=locked))
    epochs, after = loaded(source)
    assert [line["account_id"] for lines in epochs for line in lines] == [1, 3, 5, 7, 17, 19]
    assert source.trouble == ("chunk 1: a lock could not be obtained",)
    assert [chunk.number for chunk in Progress.of(after).left] == [1]
    assert source.remaining(after) == (KeyRange(7, 15),)
    assert source.lag(after) == "1 failed"
    locked.refused.clear()
    while (offsets := planned(source, after)) is None:
        assert source.trouble
    assert [line["account_id"] for line in rows(source.read(offsets).rows)] == [9, 11, 13, 15]
    assert (source.remaining(offsets.until), source.trouble) == ((), ())


def test_a_database_that_is_away_holds_nothing_up_and_is_told_of(spark: SparkSession, tmp_path: Path) -> None:
    away = derby(spark, tmp_path, create=False)
    source = bulk(away)
    assert source.plan(None, None) is None
    (told,) = source.trouble
    assert told.startswith("the next chunk: reading APP.ACCOUNTS: ")
    assert "not found" in told
    with JdbcDatabase(spark, away.url + ";create=true", "APP").opened._connection():
        away.run(TABLE)
    assert planned(source, None) is not None
    assert source.trouble == ()


def test_a_database_that_refuses_is_asked_ever_less_often(bank: JdbcDatabase) -> None:
    locked = Locked(set(range(1, 100)))
    source = bulk(evolve(bank, meanwhile=locked))
    assert [source.plan(None, None) for _ in range(130)] == [None] * 130
    assert locked.asked == 8  # at the plans 1, 2, 4 … 128
    locked.refused.clear()
    assert [bool(planned(source, None)) for _ in range(62)] == [False] * 61 + [True]
    assert source.trouble == ()


def test_another_process_tells_of_a_table_that_cannot_be_read(
    database: JdbcDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Locked(set())
    source = bulk(evolve(database, meanwhile=asked))
    for _ in range(3):
        (told,) = source.find_trouble(None, None)
        assert told.startswith(f"the next chunk: reading {database.schema}.ACCOUNTS: ")
    assert asked.asked == 1
    database.run(TABLE)
    assert source.find_trouble(None, None) == (told,)
    monkeypatch.setattr("headwater.adapters.jdbc.bulk._PROBE_PAUSE", 0)
    assert source.find_trouble(None, None) == ()
    _, after = loaded(bulk(database))
    asked.asked = 0
    assert source.find_trouble(after, None) == ()
    assert source.find_trouble({**after, "left": [[0, [None, None]]], "next": 2}, None) == (
        "chunk 0: it could not be read when a run last tried; the log of that run has the reason",
    )
    assert asked.asked == 1  # of the loaded table it need not know


def test_a_value_that_its_column_cannot_hold_is_a_dead_letter(bank: JdbcDatabase) -> None:
    bank.run("""UPDATE "ACCOUNTS" SET "OWNER" = '7' WHERE "ACCOUNT_ID" = 3""")
    source = bulk(bank, spec("account_id bigint, owner int, balance decimal(18,1)"), chunk_rows=2)
    one, other = rows(source.read(planned(source, None)).rows)  # type: ignore[arg-type]
    assert (one["_error"], one["_row_kind"], one["owner"]) == ("column 'owner': int wanted, not o'1", None, None)
    assert other["_error"] == "column 'balance': decimal(18,1) wanted, not 0.75"


@pytest.mark.parametrize(("schema", "found"), [("opened int", "date"), ("account_id date", "int")])
def test_a_column_that_cannot_be_converted_stops_the_load(bank: JdbcDatabase, schema: str, found: str) -> None:
    name, kind = schema.split()
    wanted = spec("balance decimal(18,2), " + schema, key=("balance",))
    with pytest.raises(
        BadInput, match=f"ACCOUNTS: column '{name}' is {found}, which cannot be read as {kind}; declare"
    ):
        bulk(bank, wanted).plan(None, None)


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "declared", "keys"),
    [
        ("uuid", "string", [f"{each:08x}-0000-4000-8000-000000000000" for each in (0x9, 0xA0, 0xF00, 0xFFFFFFFF)]),
        ("mood", "string", ["sad", "ok", "happy", "elated"]),
        ('text COLLATE "C"', "string", ["'", "\\", "\\'", "a\\b"]),
        ("inet", "string", ["9.0.0.0", "10.0.0.0/8", "10.0.0.0", "192.168.0.1"]),
        ("date", "date", ["0044-03-15 BC", "2024-02-29", "20000-01-01", "infinity"]),
        ("numeric", "decimal(38,9)", ["-1e30", "1.50000000000000000001", "1.50000000000000000002", "NaN"]),
        ("numeric", "bigint", ["-1", "1.5", "9223372036854775807", "9223372036854775808"]),
    ],
)
def test_keys_are_walked_in_the_order_of_their_own_type(
    postgres_bank: JdbcDatabase, kind: str, declared: str, keys: list[str]
) -> None:
    postgres_bank.run("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy', 'elated')")
    postgres_bank.run(f'CREATE TABLE "KEYS" ("K" {kind}, "N" INTEGER, PRIMARY KEY ("K", "N"))')
    own = [(key, number) for key in keys for number in (1, 2)]
    postgres_bank.insert('"KEYS"', own)
    source = bulk(postgres_bank, spec(f"k {declared}, n int", key=("k", "n")), table="KEYS", chunk_rows=1)
    epochs, _ = loaded(source)
    lines = [line for lines in epochs[:-1] for line in lines]  # the last chunk is empty
    assert [len(each) for each in epochs] == [1] * len(own) + [0]
    raws = [json.loads(line["_raw"]) for line in lines]
    assert [raw["N"] for raw in raws] == [1, 2] * len(keys)
    if declared == "string":
        assert [(line["k"], line["n"]) for line in lines] == own


def test_texts_declared_as_numbers_are_walked_as_texts_and_claim_no_range_of_numbers(database: JdbcDatabase) -> None:
    keys = sorted(("007", *map(str, range(1, 12))))
    database.run('CREATE TABLE "TEXTS" ("ID" VARCHAR(9) PRIMARY KEY, "N" INTEGER)')
    database.insert('"TEXTS"', [(key, 0) for key in keys])
    source = bulk(database, spec("id bigint, n int", key=("id",)), table="TEXTS", chunk_rows=1)
    first = planned(source, None)
    assert first
    assert source.remaining(first.until) == (KeyRange(),)
    assert source.read(first).ranges == {0: KeyRange()}
    epochs, _ = loaded(source)
    assert [json.loads(line["_raw"])["ID"] for lines in epochs for line in lines] == keys


@pytest.mark.postgres
@pytest.mark.slow
def test_dates_that_the_former_calendar_lacks(postgres_bank: JdbcDatabase) -> None:
    """Java's dates, and those of Derby, have that calendar: the day after 4 October 1582 is the 15th."""
    days = [date(1582, 10, day) for day in (4, 5, 10, 14, 15, 20)]
    postgres_bank.run('CREATE TABLE "DAYS" ("DAY" DATE PRIMARY KEY, "BORN" DATE)')
    postgres_bank.insert('"DAYS"', [(str(day), str(day)) for day in days])
    epochs, _ = loaded(bulk(postgres_bank, spec("day date, born date", key=("day",)), table="DAYS", chunk_rows=2))
    found = [(line["day"], line["born"], line["_error"]) for lines in epochs for line in lines]
    assert found == [(day, day, None) for day in days]


@pytest.mark.postgres
@pytest.mark.slow
def test_instants_that_the_former_calendar_lacks(postgres_bank: JdbcDatabase) -> None:
    days = [datetime(1582, 10, day, 23, 30, 0, 125_000, UTC) for day in (4, 5, 10, 14, 15, 20)]
    postgres_bank.run('CREATE TABLE "TIMES" ("ID" INTEGER PRIMARY KEY, "AT" timestamptz)')
    postgres_bank.insert('"TIMES"', [(at, f"{day.isoformat()}") for at, day in enumerate(days)])
    (lines, *_), _ = loaded(bulk(postgres_bank, spec("id int, at timestamp", key=("id",)), table="TIMES", chunk_rows=9))
    assert [(line["at"], line["_error"]) for line in lines] == [(day, None) for day in days]


def test_a_key_that_its_type_cannot_hold_bounds_no_range(database: JdbcDatabase) -> None:
    database.run('CREATE TABLE "LONGS" ("ID" DECIMAL(20,0) PRIMARY KEY, "N" INTEGER)')
    database.insert('"LONGS"', [(-(2**63) - 1, 0), (3, 0), (2**63 - 1, 0), (2**63, 0)])
    source = bulk(database, spec("id bigint, n int", key=("id",)), table="LONGS", chunk_rows=1, chunks_per_epoch=9)
    offsets = planned(source, None)
    assert offsets
    read = source.read(offsets)
    most = 2**63 - 1
    ranges = [KeyRange(), KeyRange(None, 3), KeyRange(3, most), KeyRange(most, None), KeyRange()]
    assert [read.ranges[number] for number in sorted(read.ranges)] == ranges
    assert [line["id"] for line in rows(read.rows)] == [None, 3, most, None]


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "value", "declared"),
    [
        ("date", "infinity", "date"),
        ("date", "0044-03-15 BC", "date"),
        ("timestamp", "-infinity", "timestamp"),
        ("timestamptz", "infinity", "timestamp"),
        ("timestamptz", "294276-12-31 00:00:00+00", "timestamp"),
        ("numeric(9,2)", "NaN", "decimal(9,2)"),
        ("numeric", "NaN", "double"),
        ("numeric", "Infinity", "decimal(38,9)"),
        ("numeric", "123456789012345678901234567890", "decimal(18,2)"),
        ("numeric", "0.0000000000000000001", "decimal(38,18)"),
        ("numeric", "0.5", "bigint"),
        ("numeric(3,-2)", "NaN", "int"),
    ],
)
def test_a_value_that_spark_cannot_read_is_a_dead_letter(
    postgres_bank: JdbcDatabase, kind: str, value: str, declared: str
) -> None:
    fits = "2024-02-29" if "numeric" not in kind else "1200"
    postgres_bank.run(f'CREATE TABLE "ODD" ("ID" INTEGER PRIMARY KEY, "V" {kind})')
    postgres_bank.insert('"ODD"', [(1, value), (2, fits), (3, None)])
    ((bad, good, null),), _ = loaded(bulk(postgres_bank, spec(f"id int, v {declared}", key=("id",)), table="ODD"))
    assert bad["_error"].startswith(f"column 'v': {declared} wanted, not {value.split(maxsplit=1)[0]}")
    assert (bad["_row_kind"], bad["id"], bad["v"]) == (None, None, None)
    assert json.loads(bad["_raw"])["ID"] == 1
    assert json.loads(bad["_raw"])["V"]
    assert (good["_error"], null["_error"], null["v"]) == (None, None, None)
    assert good["v"] is not None


_UTC_NOON = datetime(2024, 7, 1, 12, tzinfo=UTC)


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "value", "declared", "read"),
    [
        ("timestamp", "2024-07-01 14:00:00", "timestamp", _UTC_NOON),
        ("timestamp", "2024-03-31 02:30:00", "timestamp_ntz", datetime(2024, 3, 31, 2, 30)),
        ("timestamptz", "2024-07-01 12:00:00+00", "timestamp", _UTC_NOON),
        ("timestamptz", "1582-10-10 12:00:00+00", "timestamp", datetime(1582, 10, 10, 12, tzinfo=UTC)),
        ("date", "1582-10-10", "date", date(1582, 10, 10)),
        ("date", "1582-10-10", "string", "1582-10-10"),
        ("numeric(10,2)", "1.25", "decimal(10,2)", Decimal("1.25")),
        ("numeric", "1.25", "decimal(38,18)", Decimal("1.25")),
        ("numeric", "NaN", "string", "NaN"),
        ("int4", "7", "bigint", 7),
        ("int4", "7", "string", "7"),
        ("time", "10:00:00.5", "string", "10:00:00.5"),
        ("uuid", "00000009-0000-4000-8000-000000000000", "string", "00000009-0000-4000-8000-000000000000"),
        ("inet", "10.0.0.1", "string", "10.0.0.1"),
        ("text", 'NULL, {\\"}', "string", 'NULL, {"}'),
        ("char(3)", "a", "string", "a  "),
        ("timestamptz", "2024-02-29 10:00:00.5+02", "string", "2024-02-29 08:00:00.5"),
    ],
)
def test_arrays(postgres_bank: JdbcDatabase, kind: str, value: str, declared: str, read: Any) -> None:
    postgres_bank.run(f'CREATE TABLE "ARRAYS" ("ID" INTEGER PRIMARY KEY, "V" {kind}[])')
    postgres_bank.insert('"ARRAYS"', [(1, f'{{"{value}",NULL}}'), (2, "{}"), (3, None)])
    wanted = spec(f"id int, v array<{declared}>", key=("id",))
    records = evolve(wanted.records, time_zone="Europe/Berlin")
    ((lines),), _ = loaded(bulk(postgres_bank, evolve(wanted, records=records), table="ARRAYS"))
    assert [(line["v"], line["_error"]) for line in lines] == [([read, None], None), ([], None), (None, None)]


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "value", "declared"),
    [
        ("timestamp", "infinity", "timestamp"),
        ("timestamptz", "-infinity", "timestamp"),
        ("date", "infinity", "date"),
        ("date", "0044-03-15 BC", "date"),
        ("numeric", "NaN", "decimal(38,18)"),
        ("numeric", "1.23456789012345678901234567890", "decimal(38,18)"),
        ("numeric(10,2)", "NaN", "decimal(10,2)"),
    ],
)
def test_an_array_with_a_value_that_spark_cannot_read_is_a_dead_letter(
    postgres_bank: JdbcDatabase, kind: str, value: str, declared: str
) -> None:
    fits = "2024-02-29" if "numeric" not in kind else "1200"
    postgres_bank.run(f'CREATE TABLE "ODD" ("ID" INTEGER PRIMARY KEY, "V" {kind}[])')
    postgres_bank.insert('"ODD"', [(1, f"{{{fits},NULL,{value}}}"), (2, f"{{{fits}}}"), (3, None)])
    ((bad, good, null),), _ = loaded(
        bulk(postgres_bank, spec(f"id int, v array<{declared}>", key=("id",)), table="ODD")
    )
    assert bad["_error"].startswith(f"column 'v': array<{declared}> wanted, not ")
    assert value in bad["_error"]
    assert (bad["_row_kind"], bad["id"], bad["v"]) == (None, None, None)
    assert (good["_error"], len(good["v"]), null["_error"], null["v"]) == (None, 1, None, None)


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("numeric", "0.0000000000000000001", "0.0000000000000000001"),
        ("numeric(9,7)", "0.0000001", "0.0000001"),
        ("numeric", "NaN", "NaN"),
        ("float8", "-1e300", "-1e+300"),
        ("float4", "1", "1"),
        ("time", "10:00:00.5", "10:00:00.5"),
        ("timetz", "10:00:00.5+02", "10:00:00.5+02"),
        ("timestamptz", "2024-02-29 10:00:00.5+02", "2024-02-29 08:00:00.5"),
        ("timestamp", "infinity", "infinity"),
        ("uuid", "00000009-0000-4000-8000-000000000000", "00000009-0000-4000-8000-000000000000"),
    ],
)
def test_a_text_is_the_one_of_the_database(postgres_bank: JdbcDatabase, kind: str, value: str, text: str) -> None:
    postgres_bank.run(f'CREATE TABLE "TEXTS" ("ID" INTEGER PRIMARY KEY, "V" {kind})')
    postgres_bank.insert('"TEXTS"', [(1, value)])
    ((line,),), _ = loaded(bulk(postgres_bank, spec("id int, v string", key=("id",)), table="TEXTS"))
    assert (line["v"], line["_error"]) == (text, None)


@pytest.mark.postgres
@pytest.mark.slow
def test_columns_whose_names_are_alike_are_told_apart(postgres_bank: JdbcDatabase) -> None:
    columns = '"ID" INTEGER PRIMARY KEY, "V" INTEGER, v INTEGER, unread_3 TEXT, w DATE'
    postgres_bank.run(f'CREATE TABLE "TWINS" ({columns})')
    postgres_bank.insert('"TWINS"', [(1, 2, 3, "x", "infinity")])
    wanted = spec("id int, v int, unread_3 string, w date", key=("id",))
    ((line,),), _ = loaded(bulk(postgres_bank, wanted, table="TWINS"))
    assert line["_error"] == "column 'w': date wanted, not infinity"
    assert json.loads(line["_raw"]) == {"ID": 1, "v": 3, "unread_3": "x", "w": "infinity"}
    ((line,),), _ = loaded(bulk(postgres_bank, spec("id int, V int", key=("id",)), table="TWINS"))
    assert (line["V"], line["_error"]) == (2, None)


def test_wall_times_are_those_of_the_declared_zone(bank: JdbcDatabase) -> None:
    source = bulk(bank, spec("account_id bigint, at timestamp", time_zone="Asia/Shanghai"))
    assert rows(source.read(planned(source, None)).rows)[0]["at"].hour == 4  # type: ignore[arg-type]


def test_a_column_that_is_not_there_stops_the_load(bank: JdbcDatabase) -> None:
    with pytest.raises(BadInput, match=r"table \w+\.ACCOUNTS has no column 'city'; it has: ACCOUNT_ID, AT, BALANCE"):
        bulk(bank, spec("account_id bigint, city string")).plan(None, None)


def test_keys_that_databases_do_not_order_alike_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="read in the order of its key, and column 'at' is a timestamp"):
        bulk(derby(spark, tmp_path), spec("at timestamp, n int", key=("at",)))


def test_a_key_that_the_database_compares_otherwise_than_it_writes_it_stops_the_load(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(spark, JdbcSettings("jdbc:derby:memory:nowhere"))
    key = KeyColumn("K", DataType.parse("decimal(20,4)"), nullable=False, is_number=True, database_type="REAL")
    monkeypatch.setattr(Database, "row", lambda *_: ["0.3"])
    assert database.nth("APP.KEYS", [key], None, 1) == ["0.3"]
    with pytest.raises(BadInput, match=r"APP.KEYS cannot be .* behind \['0.3'\] .* column 'K' is a REAL; read a view"):
        database.nth("APP.KEYS", [key], ["0.3"], 1)


def test_whole_numbers_may_be_keys_of_strings(database: JdbcDatabase) -> None:
    database.run('CREATE TABLE "KEYS" ("K" BIGINT PRIMARY KEY)')
    database.insert('"KEYS"', [(9,), (10,), (2**63 - 1,)])
    epochs, _ = loaded(bulk(database, spec("k string", key=("k",)), table="KEYS", chunk_rows=1))
    assert [[line["k"] for line in lines] for lines in epochs] == [["9"], ["10"], [str(2**63 - 1)], []]


@pytest.mark.postgres
@pytest.mark.slow
@pytest.mark.parametrize("same_process", [True, False])
@pytest.mark.parametrize(
    ("kind", "changed"),
    [("INTEGER", "TEXT"), ('TEXT COLLATE "C"', 'TEXT COLLATE "und-x-icu"'), ("TEXT", "INTEGER USING (K::integer)")],
)
def test_a_key_whose_order_changes_during_the_load_stops_it(
    postgres_bank: JdbcDatabase, kind: str, changed: str, *, same_process: bool
) -> None:
    postgres_bank.run(f"CREATE TABLE keys (k {kind} PRIMARY KEY)", "INSERT INTO keys SELECT generate_series(1, 12)")
    first = bulk(postgres_bank, spec("k string", key=("k",)), table="keys")
    offsets = planned(first, None)
    assert offsets
    postgres_bank.run(f"ALTER TABLE keys ALTER COLUMN k TYPE {changed}")
    source = first if same_process else bulk(postgres_bank, spec("k string", key=("k",)), table="keys")
    with pytest.raises(
        SourceChanged, match=r"key of public.keys has another order .* of k has changed; load the table"
    ):
        source.plan(offsets.until, None)
    with pytest.raises(SourceChanged, match=r"key of public.keys"):
        bulk(postgres_bank, spec("k string", key=("k",)), table="keys").read(offsets)


@pytest.mark.postgres
@pytest.mark.slow
def test_a_table_that_is_made_again_during_the_load_stops_it(postgres_bank: JdbcDatabase) -> None:
    made = ("CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 12)")
    postgres_bank.run(*made)
    source = bulk(postgres_bank, spec("id int", key=("id",)), table="t")
    offsets = planned(source, None)
    assert offsets
    postgres_bank.run("DROP TABLE t", *made)
    with pytest.raises(SourceChanged, match=r"public.t is not the table any more whose load has begun: it was dropped"):
        source.plan(offsets.until, None)


@pytest.mark.postgres
@pytest.mark.slow
def test_a_key_that_changes_during_the_query_of_a_chunk_stops_the_load(postgres_bank: JdbcDatabase) -> None:
    asked = count(1)
    change = 'ALTER TABLE "ACCOUNTS" ALTER COLUMN "ACCOUNT_ID" TYPE text'
    changing = evolve(postgres_bank, meanwhile=lambda: postgres_bank.run(change) if next(asked) == 4 else None)
    with pytest.raises(SourceChanged, match=r"key of public.ACCOUNTS has another order"):
        bulk(changing, spec("account_id bigint")).plan(None, None)


@pytest.mark.postgres
@pytest.mark.slow
def test_a_load_goes_on_after_changes_that_keep_the_order_of_the_key(postgres_bank: JdbcDatabase) -> None:
    columns = "a INTEGER, b VARCHAR(9), PRIMARY KEY (a, b)"
    inserted = "INSERT INTO t SELECT n, n FROM generate_series(1, 9) AS n"
    postgres_bank.run(f"CREATE TABLE t ({columns})", inserted)
    source = bulk(postgres_bank, spec("a bigint, b string", key=("a", "b")), table="t")
    read, after = [], None
    changes = ["ALTER COLUMN a TYPE BIGINT", "ALTER COLUMN b TYPE TEXT", "ADD COLUMN c TEXT"]
    while offsets := planned(source, after):
        read += [line["a"] for line in rows(source.read(offsets).rows)]
        after = offsets.until
        if changes:
            postgres_bank.run(f"ALTER TABLE t {changes.pop(0)}")
    assert read == [*range(1, 10)]


def test_a_load_that_an_earlier_version_began_goes_on(bank: JdbcDatabase) -> None:
    first = planned(bulk(bank), None)
    assert first
    early = {**first.until, "frontier": [7]}
    assert bulk(bank).remaining(early) == (KeyRange(7, None),)
    second = planned(bulk(bank), early)
    assert second
    assert [line["account_id"] for line in rows(bulk(bank).read(second).rows)] == [9, 11, 13, 15]
    assert second.until["frontier"]["identity"] == first.until["frontier"]["identity"]
    assert planned(bulk(bank), {**first.until, "frontier": "end"}) is None


def test_bytes_that_are_not_utf8_are_no_text(spark: SparkSession, tmp_path: Path) -> None:
    bank = derby(spark, tmp_path)
    bank.run(
        'CREATE TABLE "BYTES" ("ID" INTEGER PRIMARY KEY, "V" VARCHAR(9) FOR BIT DATA)',
        """INSERT INTO "BYTES" VALUES (1, X'c328'), (2, X'c3a4'), (3, NULL)""",
    )
    ((bad, good, null),), _ = loaded(bulk(bank, spec("id int, v string", key=("id",)), table="BYTES"))
    assert (bad["_error"], bad["v"]) == ("column 'v': string wanted, not \ufffd( (not UTF-8)", None)
    assert json.loads(bad["_raw"])["V"] == "wyg="
    assert [(line["v"], line["_error"]) for line in (good, null)] == [("ä", None), (None, None)]


def test_no_secret_is_told(spark: SparkSession) -> None:
    settings = JdbcSettings("jdbc:derby:memory:nowhere", {"user": "reader", "password": "hunter2"})
    assert "hunter2" not in repr(settings)
    assert settings.redact("login of reader with hunter2 failed") == "login of *** with *** failed"
    database = Database(spark, settings)
    with pytest.raises(SourceUnavailable) as refused, database.translate_errors("asking"):
        spark._jvm.java.lang.Class.forName("java.lang.Object").getMethod("hunter2", None)  # type: ignore[union-attr]
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.postgres
@pytest.mark.slow
def test_a_wrong_password_is_told_without_it(postgres_bank: JdbcDatabase) -> None:
    wrong = evolve(postgres_bank, options=postgres_bank.options | {"password": "hunter3"})
    source = bulk(wrong)
    assert source.plan(None, None) is None
    (told,) = source.trouble
    assert "authentication failed" in told
    assert "hunter3" not in told
    assert str(postgres_bank.options["user"]) not in told


@pytest.fixture
def postgres_bank(spark: SparkSession, request: pytest.FixtureRequest) -> JdbcDatabase:
    server: PostgresServer = request.getfixturevalue("postgres")
    found = server.database(spark)
    found.run(TABLE)
    return found


@define(eq=False)
class Transfers:
    """Writes to a bank in transactions, and to a log that grows in the order of their commits."""

    database: JdbcDatabase
    balances: dict[int, int]
    chance: random.Random = field(factory=lambda: random.Random(7))
    positions: Iterator[int] = field(factory=lambda: count(1))
    states: list[dict[int, int]] = field(factory=list)
    messages: list[list[str]] = field(factory=list)

    @classmethod
    def over(cls, database: JdbcDatabase) -> Transfers:
        database.run(
            'CREATE TABLE "ACCOUNTS" ("ACCOUNT_ID" INTEGER PRIMARY KEY, "BALANCE" INTEGER)',
            'CREATE TABLE "LOG" ("POS" BIGINT PRIMARY KEY, "KIND" CHAR(1), "ACCOUNT_ID" INTEGER, "BALANCE" INTEGER)',
        )
        database.insert('"ACCOUNTS"', [(each, 100) for each in range(0, 60, 2)])
        return cls(database, dict.fromkeys(range(0, 60, 2), 100))

    def __call__(self) -> None:
        """A transfer, and now and then an account that comes or goes."""
        self.messages.append([])
        giver, taker = self.chance.sample(sorted(self.balances), 2)
        amount = self.chance.randint(1, 9)
        self.balances[giver] -= amount
        self.balances[taker] += amount
        statements = [*self._write("u", giver), *self._write("u", taker)]
        if (odd := self.chance.randrange(1, 60, 2)) not in self.balances:
            self.balances[odd] = 0
            statements += self._write("c", odd)
        elif self.balances[odd] == 0:
            statements += self._write("d", odd)
            del self.balances[odd]
        self.database.run(*statements)
        self.states.append(dict(self.balances))

    def log(self) -> list[tuple[int, str, int, int]]:
        rows = self.database.rows("LOG")
        return sorted((row["POS"], row["KIND"], row["ACCOUNT_ID"], row["BALANCE"]) for row in rows)

    def _write(self, kind: str, account: int) -> list[str]:
        balance, position = self.balances[account], next(self.positions)
        self.messages[-1].append(self._message(kind, account, position))
        changed = {
            "u": f'UPDATE "ACCOUNTS" SET "BALANCE" = {balance} WHERE "ACCOUNT_ID" = {account}',
            "c": f'INSERT INTO "ACCOUNTS" VALUES ({account}, {balance})',
            "d": f'DELETE FROM "ACCOUNTS" WHERE "ACCOUNT_ID" = {account}',
        }[kind]
        return [changed, f"""INSERT INTO "LOG" VALUES ({position}, '{kind}', {account}, {balance})"""]

    def _message(self, kind: str, account: int, position: int) -> str:
        """What Maxwell tells of a change; the last of a transaction lacks its commit yet."""
        told = {
            "database": "bank",
            "table": "accounts",
            "type": {"u": "update", "c": "insert", "d": "delete"}[kind],
            "ts": 1_709_280_000 + position,
            "xid": len(self.messages),
            "position": f"log:{position}",
            "data": {"account_id": account, "balance": self.balances[account]},
        }
        old = {"balance": self.states[-1][account] if self.states else 100} if kind == "u" else None
        return json.dumps(told | ({"old": old} if old else {}))


def test_rows_read_while_others_write_are_as_the_database_had_them_between_their_two_positions(
    database: JdbcDatabase,
) -> None:
    transfers = Transfers.over(database)
    read = _read_beside(transfers)
    moved = 0
    for line in read.values():
        own = [(pos, balance) for pos, _, account, balance in transfers.log() if account == line["account_id"]]
        until = max((pos for pos, _ in own if pos <= line["pos"]), default=0)
        there = {balance for pos, balance in own if until <= pos <= line["_reach_0"]}
        possible = there if until else {100, *there}
        assert line["balance"] in possible
        moved += len(possible) > 1
    assert moved


def test_rows_read_while_others_write_merge_with_the_log_to_what_the_database_holds(database: JdbcDatabase) -> None:
    transfers = Transfers.over(database)
    read = _read_beside(transfers)
    transfers()
    merged = {account: line["balance"] for account, line in read.items()}
    for pos, kind, account, balance in transfers.log():
        if account not in read or pos > read[account]["pos"]:
            merged[account] = balance
            if kind == "d":
                del merged[account]
    assert merged == transfers.balances
    assert merged == {row["ACCOUNT_ID"]: row["BALANCE"] for row in database.rows("ACCOUNTS")}
    assert sum(merged.values()) == 3000


def _read_beside(transfers: Transfers) -> dict[int, dict[str, Any]]:
    """All rows of a bulk load by their key, a transfer going on before each question that it asks."""
    wanted = spec("account_id int, balance int, pos bigint", position=("pos",))
    asked = 'SELECT COALESCE(MAX("POS"), 0) FROM "LOG"'
    source = bulk(evolve(transfers.database, meanwhile=transfers), wanted, chunk_rows=7, position=asked)
    epochs, _ = loaded(source)
    read = {line["account_id"]: line for lines in epochs for line in lines}
    assert len(read) == sum(map(len, epochs))
    return read


DEPLOYMENT = """
[backend]
name = "delta"
path = "lake"

[sources.account_log]
kind = "files"
path = "log"
format = "maxwell-json"
schema = "account_id bigint, balance bigint, at timestamp, pos bigint"
metadata = { at = "commit_time", pos = "log_position" }
event_time = "at"

[pipelines.accounts]
service = "bulk_merge"
key = ["account_id"]
columns = ["balance"]
changelog = "account_log"
position = "pos"

[pipelines.accounts.bulk]
jdbc = "URL"
table = "SCHEMA.ACCOUNTS"
user = "${BANK_USER}"
password = "${BANK_PASSWORD}"
chunk_rows = 9
position_query = 'SELECT COALESCE(MAX("POS"), 0) FROM "LOG"'
"""


def test_a_bank_is_loaded_while_money_moves_and_each_publication_is_the_bank_at_one_moment(
    database: JdbcDatabase, tmp_path: Path
) -> None:
    transfers = Transfers.over(database)
    (tmp_path / "log").mkdir()
    text = DEPLOYMENT.replace("URL", database.url).replace("SCHEMA", database.schema)
    (tmp_path / "bank.toml").write_text(text)
    login = {"BANK_USER": database.options.get("user", "APP"), "BANK_PASSWORD": database.options.get("password", "x")}
    delivered = 0
    with Headwater(load(tmp_path / "bank.toml", login), report=lambda _: None) as headwater:
        (runner,) = headwater.start()
        for number in range(8):
            for _ in range(4):
                transfers()
            # The log is two transactions behind the database that the chunks are read of.
            until = len(transfers.messages) - (2 if number < 7 else 0)
            _deliver(transfers, range(delivered, until), tmp_path / "log" / f"{number}.json")
            delivered = until
            assert runner.advance()
            shown = _balances(headwater)
            state = transfers.states[delivered - 1]
            assert shown.items() <= state.items()
        headwater.run(until_idle=True)
        assert _balances(headwater) == transfers.states[-1] == transfers.balances
        assert sum(_balances(headwater).values()) == 3000
        (status,) = headwater.status()
        assert status.alarms == ()
        settled = nw.from_native(headwater.view("accounts.settled")).lazy().collect("pyarrow").rows(named=True)
    assert len(settled) >= 4
    assert all(line["settled"] for line in settled)
    if password := database.options.get("password"):
        written = b"".join(file.read_bytes() for file in (tmp_path / "lake").rglob("*") if file.is_file())
        assert password.encode() not in written


def test_a_run_and_every_other_process_tell_of_a_table_that_is_missing(
    database: JdbcDatabase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "log").mkdir()
    text = DEPLOYMENT.replace("URL", database.url).replace("SCHEMA", database.schema)
    (tmp_path / "bank.toml").write_text(text.replace("position_query", "clock_query").replace('position = "pos"', ""))
    login = {"BANK_USER": database.options.get("user", "APP"), "BANK_PASSWORD": database.options.get("password", "x")}
    problem = f"the next chunk: reading {database.schema}.ACCOUNTS: "
    with Headwater(load(tmp_path / "bank.toml", login)) as headwater:
        (runner,) = headwater.start()
        for _ in range(3):
            assert not runner.advance()
        (warning,) = (each.getMessage() for each in caplog.records if each.levelname == "WARNING")
        assert warning.startswith(f"accounts: {problem}")
        with Headwater(load(tmp_path / "bank.toml", login)) as other:
            for each in (headwater, other):
                ((alarm,),) = (status.alarms for status in each.status())
                assert f"accounts: {alarm}" == warning


def _deliver(transfers: Transfers, numbers: range, file: Path) -> None:
    """Bring whole transactions, the last row of each with its commit."""
    lines = []
    for number in numbers:
        *first, last = transfers.messages[number]
        lines += [*first, json.dumps(json.loads(last) | {"commit": True})]
    file.write_text("\n".join(lines))


def _balances(headwater: Headwater) -> dict[int, int]:
    rows_ = nw.from_native(headwater.view("accounts.rows")).lazy().collect("pyarrow").rows(named=True)
    return {line["account_id"]: line["balance"] for line in rows_}
