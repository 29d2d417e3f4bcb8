"""Records what Debezium writes of a MariaDB table: python -m tests.changelog.recorded.record

It needs the programs mariadbd, mariadb, mvn and java, and takes a minute. The first rows are a snapshot; then random
transactions insert, update, delete and rename rows. The server's zone is nine hours ahead of UTC.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.jdbc_databases import mariadb_server

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
TABLE = """CREATE TABLE orders (id BIGINT PRIMARY KEY, state VARCHAR(10), amount DECIMAL(12,2), placed DATETIME(6),
seen TIMESTAMP(3) NULL, day DATE, flag TINYINT(1), doc JSON, rate DOUBLE, big BIGINT UNSIGNED, raw VARBINARY(8),
mood ENUM('sad', 'ok'), gift BIT(1), born YEAR, small SMALLINT, note TEXT)"""
VALUES: dict[str, list[Any]] = {
    "state": ["new", "paid", "sent"],
    "amount": ["0.00", "-9999.99", "123456.78", "0.10"],
    "placed": ["2024-03-10 02:30:00.000001", "1969-12-31 23:59:59.5", "1500-01-01", "9999-12-31 23:59:59.999999"],
    "seen": ["2024-03-10 02:30:00.5", "2037-12-31 00:00:00", "1971-01-01 00:00:00.001"],
    "day": ["2024-02-29", "1969-12-31", "1500-02-28", "9999-12-31"],
    "flag": [0, 1, 2],
    "doc": ['{"a": [1, null, "x"]}', "[]", "1.50"],
    "rate": [1.5, -0.25, 1e300, 123456789.123],
    "big": [0, 7, 2**63 - 1],
    "raw": ["ab", "", "\x01z"],
    "mood": ["sad", "ok"],
    "gift": [0, 1],
    "born": [1999, 2024],
    "small": [-30000, 0, 30000],
    "note": ["x'y\"z", "", "null", "über 𠮷\n\t\\"],
}
DECLARED = """id bigint, state string, amount decimal(12,2), placed timestamp, seen timestamp, day date, flag int,
doc string, rate double, big bigint, raw binary, mood string, gift boolean, born int, small int, note string"""
VARIANTS = {
    "schema": {},
    "plain": {"converter.schemas.enable": "false", "decimal.handling.mode": "string"},
}
"""By name, further settings of Debezium."""
LAST_ID, _LAST = 0, "the last one"
"""The row of the last message; the end of its transaction is not recorded."""
_SECONDS = 60


def _literal(value: Any) -> str:
    return "NULL" if value is None else repr(value) if isinstance(value, int | float) else _text(value)


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _statements(chance: random.Random, ids: list[int], first: int, count: int) -> Iterator[str]:
    for new in range(first, first + count):
        yield "BEGIN"
        for _ in range(chance.choice([1, 1, 2, 4])):
            what = chance.random()
            changed = {name: chance.choice([*values, None]) for name, values in VALUES.items()}
            if what < 0.5 or not ids:
                ids.append(new * 10 + len(ids) % 10)
                names, values = ", ".join(changed), ", ".join(map(_literal, changed.values()))
                yield f"INSERT IGNORE INTO orders (id, {names}) VALUES ({ids[-1]}, {values})"
                continue
            id_ = chance.choice(ids)
            if what < 0.8:
                some = chance.sample(sorted(changed), 3)
                yield f"UPDATE orders SET {', '.join(f'{n} = {_literal(changed[n])}' for n in some)} WHERE id = {id_}"
            elif what < 0.9:
                yield f"DELETE FROM orders WHERE id = {id_}"
            else:
                yield f"UPDATE IGNORE orders SET id = id + 1000000 WHERE id = {id_}"
        yield chance.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])


def main() -> None:
    """Record the messages of each variant, and the rows."""
    chance, ids = random.Random(20261128), list[int]()
    with tempfile.TemporaryDirectory() as folder, mariadb_server("mariadbd") as server:
        home = Path(folder)
        copied = f"-DoutputDirectory={home / 'jars'}"
        subprocess.run(["mvn", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies", copied], check=True)
        login = ["--host=127.0.0.1", f"--port={server.port}", f"--user={server.user}", f"--password={server.password}"]
        client = ["mariadb", "--no-defaults", *login, "--default-character-set=utf8mb4", "--binary-as-hex", "--raw"]

        def ask(*statements: str, database: str = "shop") -> str:
            text = ";\n".join(statements)
            asked = [*client, "--skip-column-names", database]
            return subprocess.run(asked, input=text, capture_output=True, text=True, check=True).stdout

        ask("SET GLOBAL binlog_format = 'ROW'", "CREATE DATABASE shop CHARACTER SET utf8mb4", database="test")
        ask("SET sql_mode = ''", TABLE, *_statements(chance, ids, 1, 15))
        running = [_start(home, name, more, server, number) for number, (name, more) in enumerate(VARIANTS.items())]
        for each in VARIANTS:
            _wait_for(home / f"{each}.jsonl", '"snapshot":"last"')
        ask("SET sql_mode = ''", *_statements(chance, ids, 101, 60))
        ask(f"INSERT INTO orders (id, note) VALUES ({LAST_ID}, '{_LAST}')")
        for engine in running:
            engine.wait(_SECONDS)
        for each in VARIANTS:
            (HERE / f"{each}.jsonl.gz").write_bytes(gzip.compress((home / f"{each}.jsonl").read_bytes(), mtime=0))
        exact = {"raw": "HEX(raw)", "gift": "gift + 0", "doc": "CAST(doc AS CHAR)"}
        names = ["id", *VALUES]
        times = ("placed", "seen", "day", "amount")
        shown = (f"'{n}', {exact.get(n, f'CAST({n} AS CHAR)' if n in times else n)}" for n in names)
        found = ask("SET time_zone = '+00:00'", f"SELECT JSON_OBJECT({', '.join(shown)}) FROM orders ORDER BY id")
        rows = [json.loads(line) for line in found.splitlines()]
        (HERE / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _start(home: Path, name: str, more: dict[str, str], server: Any, number: int) -> subprocess.Popen[bytes]:
    given = {
        "name": name,
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "connector.adapter": "mariadb",
        "database.protocol": "jdbc:mariadb",
        "database.jdbc.driver": "org.mariadb.jdbc.Driver",
        "database.ssl.mode": "disabled",
        "database.hostname": "127.0.0.1",
        "database.port": server.port,
        "database.user": server.user,
        "database.password": server.password,
        "database.server.id": 100 + number,
        "database.include.list": "shop",
        "topic.prefix": "srv",
        "provide.transaction.metadata": "true",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": home / f"{name}.history",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": home / f"{name}.offsets",
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


if __name__ == "__main__":
    main()
