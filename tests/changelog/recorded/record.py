"""Records what Debezium writes of a table: python -m tests.changelog.recorded.record

The first rows are a snapshot; then random transactions insert, update, delete and rename rows. The zone of the servers is
nine hours ahead of UTC. It needs MariaDB, PostgreSQL, mvn and java, and takes a minute.
"""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from tests.jdbc_databases import mariadb_server, postgres_programs, postgres_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

HERE = Path(__file__).parent
LAST_ID, _LAST = 0, "the last one"
"""The row of the last message; the end of its transaction is not recorded."""
_SECONDS = 60
_TIMES = ["2024-03-10 02:30:00.000001", "1969-12-31 23:59:59.5", "1500-01-01 00:00:00", "9999-12-31 23:59:59.999999"]


@frozen
class Recorded:
    """A table, and how it is recorded.

    Args:
        table: the table in the deployment.
        types: the type of each column in the database, but of the id.
        declared: the schema in the deployment.
        values: the values of each column.
        shown: the SQL for the values of some columns, for JSON; others are shown as they are.
        variants: by name, further settings of Debezium.
    """

    table: str
    types: Mapping[str, str]
    declared: str
    values: Mapping[str, list[Any]]
    shown: Mapping[str, str]
    variants: Mapping[str, Mapping[str, str]] = field(factory=lambda: {"schema": {}})


_VALUES: dict[str, list[Any]] = {
    "state": ["new", "paid", "sent"],
    "amount": ["0.00", "-9999.99", "123456.78", "0.10"],
    "placed": _TIMES,
    "seen": ["2024-03-10 02:30:00.5", "2037-12-31 00:00:00", "1971-01-01 00:00:00.001"],
    "day": ["2024-02-29", "1969-12-31", "1500-02-28", "9999-12-31"],
    "doc": ['{"a": [1, null, "x"]}', "[]", "1.50"],
    "rate": ["1.5", "-0.25", "1e300", "123456789.123"],
    "small": ["-30000", "0", "30000"],
    "note": ["x'y\"z", "", "null", "über 𠮷\n\t"],
}
RECORDED = {
    "mariadb": Recorded(
        "shop.orders",
        {
            "state": "VARCHAR(10)",
            "amount": "DECIMAL(12,2)",
            "placed": "DATETIME(6)",
            "seen": "TIMESTAMP(3) NULL",
            "day": "DATE",
            "doc": "JSON",
            "rate": "DOUBLE",
            "small": "SMALLINT",
            "note": "TEXT",
            "flag": "TINYINT(1)",
            "big": "BIGINT UNSIGNED",
            "raw": "VARBINARY(8)",
            "mood": "ENUM('sad', 'ok')",
            "gift": "BIT(1)",
            "born": "YEAR",
        },
        "id bigint, state string, amount decimal(12,2), placed timestamp, seen timestamp, day date, doc string, rate double,"
        " small int, note string, flag int, big bigint, raw binary, mood string, gift boolean, born int",
        _VALUES
        | {
            "flag": ["0", "1", "2"],
            "big": ["0", "7", "9223372036854775807"],
            "raw": ["ab", ""],
            "mood": ["sad", "ok"],
            "gift": [b"0", b"1"],
            "born": ["1999", "2024"],
        },
        {"raw": "HEX(raw)", "gift": "gift + 0"}
        | {name: f"CAST({name} AS CHAR)" for name in ("amount", "placed", "seen", "day", "doc")},
        {"schema": {}, "plain": {"converter.schemas.enable": "false", "decimal.handling.mode": "string"}},
    ),
    "postgresql": Recorded(
        "public.orders",
        {
            "state": "text",
            "amount": "numeric(12,2)",
            "placed": "timestamp",
            "seen": "timestamptz",
            "day": "date",
            "doc": "jsonb",
            "rate": "double precision",
            "small": "smallint",
            "note": "text",
            "free": "numeric",
            "gift": "boolean",
            "raw": "bytea",
            "uid": "uuid",
            "tags": "text[]",
        },
        "id bigint, state string, amount decimal(12,2), placed timestamp, seen timestamp, day date, doc string, rate double,"
        " small int, note string, free decimal(38,6), gift boolean, raw binary, uid string, tags array<string>",
        _VALUES
        | {
            "seen": ["2024-03-10 02:30:00.5+00", "1969-01-01 00:00:00.001+05", "2024-07-01 12:00:00.123456-07"],
            "note": [*_VALUES["note"], "x" * 3000],  # it is stored apart, and is not sent again if it does not change
            "free": ["1", "0.000001", "-123456789012345678.12345", "1e10"],
            "gift": ["true", "false"],
            "raw": ["\\x00ff", "\\x"],
            "uid": ["00000000-0000-0000-0000-00000000000a"],
            "tags": ['{a,"b c",NULL}', "{}"],
        },
        {"raw": "encode(raw, 'hex')", "tags": "to_json(tags)"}
        | {name: f"{name}::text" for name in ("amount", "placed", "seen", "day", "doc", "free")},
    ),
}


def _literal(value: str | bytes | None) -> str:
    if isinstance(value, bytes):
        return f"b'{value.decode()}'"
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def _statements(chance: random.Random, recorded: Recorded, ids: list[int], count: int) -> Iterator[str]:
    """Random transactions; some are rolled back, so some changes are of rows that are not there."""
    for _ in range(count):
        yield "BEGIN"
        for _ in range(chance.choice([1, 1, 2, 4])):
            what, new = chance.random(), len(ids) + 1
            row = {name: _literal(chance.choice([*values, None])) for name, values in recorded.values.items()}
            changed, id_ = chance.sample(sorted(row), 3), chance.choice([*ids, -1])
            if what < 0.5:
                yield f"INSERT INTO orders (id, {', '.join(row)}) VALUES ({new}, {', '.join(row.values())})"
            elif what < 0.8:
                yield f"UPDATE orders SET {', '.join(f'{name} = {row[name]}' for name in changed)} WHERE id = {id_}"
            elif what < 0.9:
                yield f"DELETE FROM orders WHERE id = {id_}"
            else:
                yield f"UPDATE orders SET id = {new} WHERE id = {id_}"
            ids.append(new)
        yield chance.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])


def _record(name: str, home: Path, ask: Callable[..., str], connector: Mapping[str, Any], *setting: str) -> None:
    """Record the messages of each variant, and the rows in the end.

    Args:
        name: of the database.
        home: a folder with Debezium's jars.
        ask: runs statements in one session.
        connector: Debezium's settings for it.
        setting: statements once the table is there.
    """
    recorded, chance, ids = RECORDED[name], random.Random(20261128), list[int]()
    columns = ", ".join(f"{each} {type_}" for each, type_ in recorded.types.items())
    ask(f"CREATE TABLE orders (id BIGINT PRIMARY KEY, {columns})", *setting)
    ask(*_statements(chance, recorded, ids, 15))
    named = {f"{name}-{variant}": more for variant, more in recorded.variants.items()}
    engines = [_start(home, each, at, {**connector, **more}) for at, (each, more) in enumerate(named.items())]
    for each in named:
        _wait_for(home / f"{each}.jsonl", '"snapshot":"last"')
    ask(*_statements(chance, recorded, ids, 60))
    ask(f"INSERT INTO orders (id, note) VALUES ({LAST_ID}, '{_LAST}')")
    for engine in engines:
        engine.wait(_SECONDS)
    for each in named:
        (HERE / f"{each}.jsonl.gz").write_bytes(gzip.compress((home / f"{each}.jsonl").read_bytes(), mtime=0))
    shown = ", ".join(f"'{each}', {recorded.shown.get(each, each)}" for each in ("id", *recorded.types))
    function = "JSON_OBJECT" if name == "mariadb" else "json_build_object"
    zone = "SET time_zone = '+00:00'" if name == "mariadb" else "SET timezone = 'UTC'"
    (HERE / f"{name}-rows.jsonl").write_text(ask(zone, f"SELECT {function}({shown}) FROM orders ORDER BY id"))


def _start(home: Path, name: str, number: int, more: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    given = {
        "name": name,
        "topic.prefix": "srv",
        "provide.transaction.metadata": "true",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": home / f"{name}.offsets",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": home / f"{name}.history",
        "database.server.id": 100 + number,
        **more,
    }
    settings = home / f"{name}.properties"
    settings.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    command = ["java", "-cp", str(home / "jars" / "*"), str(HERE / "Record.java")]
    return subprocess.Popen([*command, str(settings), str(home / f"{name}.jsonl"), _LAST], stderr=subprocess.DEVNULL)


def _wait_for(file: Path, text: str) -> None:
    until = time.monotonic() + _SECONDS
    while not file.exists() or text not in file.read_text():
        if time.monotonic() > until:
            raise TimeoutError(f"{file.name} has no {text}")
        time.sleep(0.2)


def _run(command: list[str], statements: tuple[str, ...], **environment: str) -> str:
    text = ";\n".join((*statements, ""))
    given = {**os.environ, **environment}
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, env=given).stdout


def _connection(server: Any) -> dict[str, Any]:
    return {
        "database.hostname": "127.0.0.1",
        "database.port": server.port,
        "database.user": server.user,
        "database.password": server.password,
    }


def _record_mariadb(home: Path) -> None:
    with mariadb_server("mariadbd") as server:
        login = ["--host=127.0.0.1", f"--port={server.port}", f"--user={server.user}", f"--password={server.password}"]
        client = ["mariadb", "--no-defaults", *login, "--default-character-set=utf8mb4", "--raw", "--skip-column-names"]
        _run([*client, "test"], ("SET GLOBAL binlog_format = 'ROW'", "CREATE DATABASE shop CHARACTER SET utf8mb4"))
        connector = _connection(server) | {
            "connector.class": "io.debezium.connector.mysql.MySqlConnector",
            "connector.adapter": "mariadb",
            "database.protocol": "jdbc:mariadb",
            "database.jdbc.driver": "org.mariadb.jdbc.Driver",
            "database.ssl.mode": "disabled",
            "database.include.list": "shop",
        }
        _record("mariadb", home, lambda *statements: _run([*client, "shop"], statements), connector)


def _record_postgresql(home: Path) -> None:
    programs = postgres_programs()
    assert programs, "PostgreSQL is not installed"
    with postgres_server(programs) as server:
        client = [
            *("psql", "-h", "127.0.0.1", "-p", str(server.port), "-U", server.user, "-d", "postgres"),
            *("-v", "ON_ERROR_STOP=1", "-qAt"),
        ]
        connector = _connection(server) | {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.dbname": "postgres",
            "plugin.name": "pgoutput",
            "publication.autocreate.mode": "filtered",
            "table.include.list": "public.orders",
        }

        def ask(*statements: str) -> str:
            return _run(client, statements, PGPASSWORD=server.password, PGTZ="Asia/Tokyo")

        apart = "ALTER TABLE orders ALTER COLUMN note SET STORAGE EXTERNAL"
        _record("postgresql", home, ask, connector, "ALTER TABLE orders REPLICA IDENTITY FULL", apart)


def main() -> None:
    """Record both databases."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        copied = f"-DoutputDirectory={home / 'jars'}"
        subprocess.run(["mvn", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies", copied], check=True)
        _record_mariadb(home)
        _record_postgresql(home)


if __name__ == "__main__":
    main()
