"""Tables of MariaDB as bulk loads, through its own driver and that of MySQL; and times in all databases.

The server is nine hours ahead of UTC, and the JVM in New York: no time may depend on either.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from time import sleep
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from headwater.adapters.spark.jvm import java_class
from headwater.domain.errors import ConfigError, SourceChanged
from tests.jdbc_databases import derby

from .test_bulk_jdbc import bulk, loaded, planned, spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.jdbc_databases import JdbcDatabase, MariaDbServer, PostgresServer

pytestmark = [pytest.mark.delta, pytest.mark.contract]

ON_MARIADB = [pytest.mark.mariadb, pytest.mark.slow]
SERVERS = [
    "derby",
    pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.slow]),
    pytest.param("mariadb", marks=ON_MARIADB),
    pytest.param("mysql", marks=ON_MARIADB),
]


@pytest.fixture
def _in_new_york(spark: SparkSession) -> Iterator[None]:
    zones = java_class(spark, "java.util.TimeZone")
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("America/New_York"))
    yield
    zones.setDefault(before)


@pytest.fixture
def database(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, _in_new_york: None) -> JdbcDatabase:
    """One empty database after the other."""
    if request.param == "derby":
        return derby(spark, tmp_path)
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        return postgres.database(spark)
    server: MariaDbServer = request.getfixturevalue("mariadb")
    return server.database(spark, request.param)


on_each = pytest.mark.parametrize("database", SERVERS, indirect=True)
on_mariadb = pytest.mark.parametrize("database", SERVERS[2:], indirect=True)


def values(database: JdbcDatabase, declared: str, **how: Any) -> list[dict[str, Any]]:
    """The rows of table T, in the order of their ids."""
    settings = {"table": "T", "chunk_rows": how.pop("chunk_rows", 4)}
    wanted = spec(f"id bigint, {declared}", key=("id",), **how)
    return [line for lines in loaded(bulk(database, wanted, **settings))[0] for line in lines]


@on_each
def test_a_wall_clock_time_is_in_the_zone_of_the_source(database: JdbcDatabase) -> None:
    """Derby in New York has no half past two on the tenth of March itself."""
    database.run('CREATE TABLE "T" ("ID" INTEGER PRIMARY KEY, "AT" TIMESTAMP)'.replace("TIMESTAMP", _wall(database)))
    texts = ["2024-03-01 12:00:00.5", "2024-11-03 01:30:00", "1883-11-18 12:01:00", "1500-01-01 00:00:00"]
    texts += [] if "derby" in database.url else ["2024-03-10 02:30:00"]
    database.insert('"T"', list(enumerate(texts)))
    assert [line["at"].replace(tzinfo=None) for line in values(database, "at timestamp")] == [
        datetime.fromisoformat(text) for text in texts
    ]
    first, *_ = values(database, "at timestamp", time_zone="Asia/Tokyo")
    assert first["at"] == datetime(2024, 3, 1, 3, 0, 0, 500_000, tzinfo=UTC)


def _wall(database: JdbcDatabase) -> str:
    return "DATETIME(6)" if "maria" in database.url or "mysql" in database.url else "TIMESTAMP"


@on_each
def test_the_time_of_a_chunk_is_the_databases_time(database: JdbcDatabase) -> None:
    database.run('CREATE TABLE "T" ("ID" INTEGER PRIMARY KEY, "N" INTEGER)')
    database.insert('"T"', [(1, 1)])
    before = datetime.now(UTC)
    (line,) = values(database, "n int")
    assert before - timedelta(seconds=1) <= line["_search_ts"] <= datetime.now(UTC) + timedelta(seconds=1)


ODD = """CREATE TABLE "T" (id BIGINT UNSIGNED PRIMARY KEY, flag TINYINT(1), born YEAR, seen TIMESTAMP(6) NULL, day DATE,
lasted TIME, mood ENUM('sad', 'ok'), code CHAR(3), big INT UNSIGNED, data VARBINARY(4), price DECIMAL(12,3),
`order` INT, `KEY` JSON)"""
DECLARED = (
    "flag int, born int, seen timestamp, day date, lasted string, mood string, code string, big bigint, data binary,"
    " price decimal(12,3), `order` int, key string"
)


@on_mariadb
def test_values_are_read_as_they_are(database: JdbcDatabase) -> None:
    database.run(
        ODD,
        "SET time_zone = '+00:00'",
        "INSERT INTO T VALUES (1, 2, 2024, '2024-03-10 02:30:00.5', '2024-03-10', '-10:11:12', 'ok', 'a', 4294967295, x'00ff',"
        " 1.25, 7, '[1]')",
        "INSERT INTO T (id) VALUES (18446744073709551615)",
    )
    wanted = spec(f"id decimal(20,0), {DECLARED}", key=("id",))
    ((first, last),), _ = loaded(bulk(database, wanted, table="T"))
    assert {name: first[name] for name in wanted.records.columns.names} == {
        "id": Decimal(1),
        "flag": 2,
        "born": 2024,
        "seen": datetime(2024, 3, 10, 2, 30, 0, 500_000, tzinfo=UTC),
        "day": date(2024, 3, 10),
        "lasted": "-10:11:12",
        "mood": "ok",
        "code": "a",
        "big": 4294967295,
        "data": b"\x00\xff",
        "price": Decimal("1.250"),
        "order": 7,
        "key": "[1]",
    }
    assert (last["id"], last["seen"], last["_error"]) == (Decimal(18446744073709551615), None, None)


@on_mariadb
@pytest.mark.parametrize(
    ("column", "value", "declared", "wanted"),
    [
        ("DATETIME", "'0000-00-00 00:00:00'", "timestamp", "timestamp wanted, not 0000-00-00 00:00:00"),
        ("DATE", "'2024-00-10'", "date", "date wanted, not 2024-00-10"),
        ("TINYINT(1)", "2", "boolean", "boolean wanted, not 2"),
    ],
)
def test_a_value_that_is_none_of_its_type_is_a_dead_letter(
    database: JdbcDatabase, column: str, value: str, declared: str, wanted: str
) -> None:
    database.run(
        f'CREATE TABLE "T" (id INTEGER PRIMARY KEY, v {column})',
        "SET sql_mode = ''",
        f"INSERT INTO T VALUES (1, {value}), (2, NULL)",
    )
    bad, null = values(database, f"v {declared}")
    assert bad["_error"] == f"column 'v': {wanted}"
    assert (null["v"], null["_error"]) == (None, None)


WIDE = f"{10**34 + 5}.5"
EXACT = [
    ("FLOAT", "0.1234567", "float", 0.12345670163631439),
    ("FLOAT", "1234567.875", "double", 1234567.875),
    ("FLOAT", "1234567", "bigint", 1234567),
    ("FLOAT(10,3)", "1234567", "string", "1234567.0"),
    ("FLOAT UNSIGNED", "16777217", "float", 16777216.0),
    ("FLOAT", "0.3", "decimal(20,4)", Decimal("0.3000")),
    ("BIT(64)", "18446744073709551615", "decimal(20,0)", Decimal(2**64 - 1)),
    ("BIT(8)", "255", "int", 255),
    ("BIT(1)", "1", "boolean", True),
    ("DECIMAL(65,30)", "-1.5", "decimal(38,10)", Decimal("-1.5000000000")),
    ("DECIMAL(65,30)", "1.5", "decimal(38,35)", Decimal("1.5")),
    ("DECIMAL(65,0)", str(10**18), "bigint", 10**18),
    ("DECIMAL(65,30)", WIDE, "string", WIDE + "0" * 29),
    ("DECIMAL(65,30)", "9999999999999999999999999999.9999999999", "decimal(38,10)", Decimal("9" * 28 + "." + "9" * 10)),
    ("VARBINARY(4)", "x'c3a4'", "string", "ä"),
    ("UUID", "'00000009-0000-4000-8000-000000000000'", "string", "00000009-0000-4000-8000-000000000000"),
]
INEXACT = [
    ("DECIMAL(65,30)", WIDE, "decimal(38,10)", f"decimal(38,10) wanted, not {WIDE}{'0' * 29}"),
    (
        "DECIMAL(65,30)",
        "0.00000000001",
        "decimal(38,10)",
        "decimal(38,10) wanted, not 0.000000000010000000000000000000",
    ),
    ("DECIMAL(65,0)", str(10**19), "bigint", f"bigint wanted, not {10**19}"),
    ("VARBINARY(4)", "x'ff'", "string", "string wanted, not \ufffd (not UTF-8)"),
    ("FLOAT", "0.5", "int", "int wanted, not 0.5"),
]


@on_mariadb
def test_numbers_and_bytes_are_read_exactly_or_are_dead_letters(database: JdbcDatabase) -> None:
    """Each in a column and a row of its own."""
    given = [*EXACT, *INEXACT]
    columns = ", ".join(f"v{at} {kind}" for at, (kind, *_) in enumerate(given))
    inserts = (f"INSERT INTO T (id, v{at}) VALUES ({at}, {value})" for at, (_, value, *_) in enumerate(given))
    database.run(f'CREATE TABLE "T" (id INTEGER PRIMARY KEY, {columns})', *inserts)
    lines = values(
        database, ", ".join(f"v{at} {declared}" for at, (*_, declared, _) in enumerate(given)), chunk_rows=99
    )
    wrong = [f"column 'v{at}': {error}" for at, (*_, error) in enumerate(INEXACT, len(EXACT))]
    assert [line["_error"] for line in lines] == [None] * len(EXACT) + wrong
    assert [line[f"v{at}"] for at, line in enumerate(lines[: len(EXACT)])] == [wanted for *_, wanted in EXACT]


KEYS = [
    ("BIT(16)", "bigint", ["300", "7"]),
    ("FLOAT", "decimal(20,4)", ["0.3", "1234567.875"]),
    ("DATE", "date", ["'2024-02-01'", "'2024-02-00'", "'0000-00-00'"]),
    ("VARCHAR(20) CHARACTER SET latin1", "string", [r"'\\'' OR 1=1 -- ö'", r"'\\'"]),
    ("VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "bigint", ["'7'", r"'a\\'", "'\U0001f600'"]),
    ("VARBINARY(9)", "string", ["'ok'", "x'ff5c27'", "x'fe'", "''"]),
    ("ENUM('c', 'a', 'b')", "string", ["'a'", "'b'", "'c'"]),
    ("SET('y', 'x')", "string", ["'x'", "'y,x'"]),
    ("DATETIME(3)", "string", ["'2024-03-10 02:30:00.5'", "'0000-00-00 00:00:00'"]),
    ("TIME", "string", ["'10:00:00'", "'-10:00:00'", "'100:00:00'"]),
    ("BIGINT UNSIGNED", "string", [str(2**64 - 1), str(2**64 - 2)]),
    ("UUID", "string", ["'00000009-0000-4000-8000-000000000000'", "'00000000-0000-4000-8000-000000000009'"]),
    ("INET6", "string", ["'2001:db8::1'", "'::1'"]),
]


@on_mariadb
def test_keys_are_walked_in_the_order_of_their_own_types_in_every_sql_mode(
    database: JdbcDatabase, request: pytest.FixtureRequest
) -> None:
    """In one key of all types: each row differs from the first one in one column."""
    first, names = [own[0] for *_, own in KEYS], [f"k{at}" for at in range(len(KEYS))]
    others = [[*first[:at], value, *first[at + 1 :]] for at, (*_, own) in enumerate(KEYS) for value in own[1:]]
    columns = ", ".join(f"{name} {kind} NOT NULL" for name, (kind, *_) in zip(names, KEYS, strict=True))
    inserts = (f"INSERT INTO T VALUES ({', '.join(own)}, {n})" for n, own in enumerate([first, *others]))
    database.run("SET sql_mode = ''", f"CREATE TABLE T ({columns}, n INT, PRIMARY KEY ({', '.join(names)}))", *inserts)
    mode = {"mysql": "NO_BACKSLASH_ESCAPES", "mariadb": ""}[request.node.callspec.params["database"]]
    database = evolve(database, options={**database.options, "sessionVariables": f"sql_mode='{mode}'"})
    declared = ", ".join(f"{name} {declared}" for name, (_, declared, _) in zip(names, KEYS, strict=True))
    wanted = spec(f"{declared}, n int", key=tuple(names))
    epochs, _ = loaded(bulk(database, wanted, table="T", chunk_rows=1))
    assert [len(lines) for lines in epochs] == [1] * len([first, *others]) + [0]
    read = [json.loads(line["_raw"])["n"] for lines in epochs for line in lines]
    with database.opened._connection() as connection:
        asked = f"SELECT GROUP_CONCAT(n ORDER BY {', '.join(names)}) FROM T"
        order = connection.createStatement().executeQuery(asked)
        assert order.next()
        assert ",".join(map(str, read)) == order.getString(1)


@on_mariadb
def test_strings_are_walked_in_the_order_of_their_collation(database: JdbcDatabase) -> None:
    keys = ["", "'", "\\", "\\'", "\\' OR 1=1 -- ", "a", "B", "b2", "ß", "Z", "ö ", "\U0001f600"]
    collation = "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"
    database.run("SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'", f'CREATE TABLE "T" (k {collation} PRIMARY KEY)')
    with database.opened._connection() as connection:
        insert = connection.prepareStatement("INSERT INTO T VALUES (?)")
        for key in keys:
            insert.setString(1, key)
            insert.execute()
    epochs, _ = loaded(bulk(database, spec("k string", key=("k",)), table="T"))
    assert [len(lines) for lines in epochs] == [4, 4, 4, 0]
    assert sorted(line["k"] for lines in epochs for line in lines) == sorted(keys)
    assert [line["k"] for line in epochs[-2]][-1] == "\U0001f600"


@on_mariadb
def test_the_key_is_walked_and_the_log_has_a_position(database: JdbcDatabase) -> None:
    database.run('CREATE TABLE "T" (id DATE PRIMARY KEY, n INTEGER)')
    database.insert('"T"', [(f"2024-03-{day:02}", day) for day in range(1, 8)])
    wanted = spec("id date, n int, file string, pos bigint", key=("id",), position=("file", "pos"))
    epochs, _ = loaded(bulk(database, wanted, table="T", chunk_rows=3, position="SHOW MASTER STATUS"))
    assert [[line["n"] for line in lines] for lines in epochs] == [[1, 2, 3], [4, 5, 6], [7]]
    assert {line["file"][:10] for lines in epochs for line in lines} == {"mysql-bin."}
    assert all(line["pos"] > 0 for lines in epochs for line in lines)


@on_mariadb
def test_the_session_is_in_utc_and_has_other_settings_as_well(database: JdbcDatabase) -> None:
    database.run('CREATE TABLE "T" (id INTEGER PRIMARY KEY, at DATETIME DEFAULT CURRENT_TIMESTAMP)')
    timed = evolve(database, options={**database.options, "sessionVariables": "timestamp=1000000000"})
    timed.run("INSERT INTO T (id) VALUES (1)")
    (line,) = values(timed, "at timestamp")
    assert line["at"] == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    zoned = evolve(database, options={**database.options, "sessionVariables": "time_zone='+01:00'"})
    with pytest.raises(ConfigError, match="sets time_zone: leave it out"):
        values(zoned, "at timestamp")


@on_mariadb
def test_a_limit_of_the_server_on_the_rows_of_queries_loses_none(database: JdbcDatabase) -> None:
    database.run("CREATE TABLE T (id INT PRIMARY KEY)", "INSERT INTO T SELECT seq FROM seq_1_to_30")
    database.run("SET GLOBAL sql_select_limit = 5")
    try:
        epochs, _ = loaded(bulk(database, spec("id int", key=("id",)), table="T", chunk_rows=10))
    finally:
        database.run("SET GLOBAL sql_select_limit = DEFAULT")
    assert [len(lines) for lines in epochs] == [10, 10, 10, 0]


@on_mariadb
@pytest.mark.parametrize("change", ["DROP TABLE T", "ALTER TABLE T MODIFY k ENUM('c', 'd', 'a', 'b') NOT NULL"])
def test_a_table_that_is_made_again_or_whose_key_changes_during_the_load_stops_it(
    database: JdbcDatabase, change: str
) -> None:
    made = "CREATE TABLE {} T (k ENUM('a', 'b', 'c', 'd') PRIMARY KEY)".format
    database.run(made(""), "INSERT INTO T VALUES ('a'), ('b'), ('c'), ('d')")
    source = bulk(database, spec("k string", key=("k",)), table="T", chunk_rows=2)
    offsets = planned(source, None)
    assert offsets
    sleep(1.1)  # the server notes the second at which a table was made
    database.run(change, made("IF NOT EXISTS"))
    with pytest.raises(SourceChanged, match="not the table any more whose load has begun"):
        source.plan(offsets.until, None)


@on_mariadb
def test_a_view_whose_key_changes_during_the_load_stops_it(database: JdbcDatabase) -> None:
    database.run("CREATE TABLE T (k VARCHAR(9) COLLATE utf8mb4_bin)", "INSERT INTO T VALUES ('a'), ('B'), ('c')")
    database.run("CREATE VIEW V AS SELECT k FROM T")
    source = bulk(database, spec("k string", key=("k",)), table="V", chunk_rows=1)
    offsets = planned(source, None)
    assert offsets
    database.run("ALTER TABLE T ADD n INT")
    offsets = planned(source, offsets.until)
    assert offsets
    database.run("ALTER TABLE T MODIFY k VARCHAR(9) COLLATE utf8mb4_general_ci")
    with pytest.raises(SourceChanged, match=r"key of .*\.V has another order .* of k has changed"):
        source.plan(offsets.until, None)
