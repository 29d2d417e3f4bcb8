"""Databases for tests of bulk loads: Derby, whose jar comes with PySpark, and private servers: PostgreSQL, MariaDB."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from attrs import define, field

from tests.servers import LOOPBACK, START_SECONDS, free_port, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from headwater.adapters.jdbc.database import Database

DRIVERS = {
    "postgres": ["org.postgresql:postgresql:42.7.4"],
    "mariadb": ["org.mariadb.jdbc:mariadb-java-client:3.4.1", "com.mysql:mysql-connector-j:8.4.0"],
}
"""By mark, the drivers that its tests need. MariaDB answers to `jdbc:mariadb:` and `jdbc:mysql:`, each with its own."""


@define(eq=False)
class JdbcDatabase:
    """A database that tests may write to; names are quoted, so that both keep them as they are.

    Args:
        session: whose class path has its driver.
        url: its address.
        schema: that tables lie in.
        options: user and password, where it has them.
        meanwhile: done before every question that a bulk load asks: what others write while it reads.
    """

    session: SparkSession
    url: str
    schema: str
    options: Mapping[str, str] = field(factory=dict)
    meanwhile: Callable[[], None] | None = None

    @property
    def opened(self) -> Database:
        """The database as a bulk load opens it."""
        from headwater.adapters.jdbc.database import Database, JdbcSettings

        given = JdbcSettings(self.url, self.options)
        if self.meanwhile is None:
            return Database(self.session, given)
        busy, meanwhile = _busy(), self.meanwhile
        return busy(self.session, given, meanwhile)

    def run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self.opened._connection() as connection:
            connection.setAutoCommit(False)
            for each in statements:
                connection.createStatement().execute(each)
            connection.commit()

    def create(self, name: str) -> None:
        """Make another database on the same server."""
        with self.opened._connection() as connection:
            connection.createStatement().execute(f"CREATE DATABASE {name}")

    def insert(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Insert literal rows, each by itself: texts of several would be padded to the longest."""
        self.run(*(f"INSERT INTO {table} VALUES ({', '.join(map(_literal, row))})" for row in rows))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table as they are now."""
        name = self.opened.table_name(f"{self.schema}.{table}")
        return [row.asDict() for row in self.opened.read(name, table).collect()]


def _busy() -> Any:
    from headwater.adapters.jdbc.database import Database

    @define(eq=False)
    class Busy(Database):
        """A database that others write to before each question that is asked of it."""

        between: Callable[[], None]

        def columns(self, table: str) -> Any:
            self.between()
            return super().columns(table)

        def row(self, sql: str) -> Any:
            self.between()
            return super().row(sql)

        def now(self, sql: str | None) -> Any:
            self.between()
            return super().now(sql)

    return Busy


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def derby(session: SparkSession, folder: Path, *, create: bool = True) -> JdbcDatabase:
    """An empty Derby in this process's memory; its log goes to a folder."""
    from headwater.adapters.spark.jvm import java_class

    java_class(session, "java.lang.System").setProperty("derby.stream.error.file", str(folder / "derby.log"))
    return JdbcDatabase(session, f"jdbc:derby:memory:{uuid4().hex}" + (";create=true" if create else ""), "APP")


@define(eq=False)
class PostgresServer:
    """A PostgreSQL of the tests' own: its port, and who may log in."""

    port: int
    user: str
    password: str

    def database(self, session: SparkSession) -> JdbcDatabase:
        """A new database of its own."""
        options = {"user": self.user, "password": self.password}
        name = f"bank_{uuid4().hex}"
        address = f"jdbc:postgresql://{LOOPBACK}:{self.port}"
        JdbcDatabase(session, f"{address}/postgres", "public", options).create(name)
        return JdbcDatabase(session, f"{address}/{name}", "public", options)


def postgres_programs() -> Path | None:
    """The folder of PostgreSQL's programs; None if it is not installed."""
    if found := shutil.which("postgres"):
        return Path(found).resolve().parent
    if (asked := shutil.which("pg_config")) is None:
        return None
    told = Path(subprocess.run([asked, "--bindir"], capture_output=True, text=True, check=True).stdout.strip())
    return told if (told / "postgres").exists() else None


@contextmanager
def postgres_server(programs: Path) -> Iterator[PostgresServer]:
    """A PostgreSQL server on loopback over an empty folder; gone with all its data in the end."""
    # It refuses to run as root, and root may run it as another user.
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="headwater-postgres-"))
    try:
        secret = folder / "secret"
        secret.write_text("hunter2-of-the-bank")
        if user:
            for each in (folder, secret):
                shutil.chown(each, user)
        data, port = folder / "data", free_port()
        log = (folder / "log").open("wb")
        login = ["-U", "bank", "--pwfile", str(secret), "--auth", "scram-sha-256"]
        subprocess.run(
            [str(programs / "initdb"), "-D", str(data), *login, "-E", "UTF8", "--locale=C", "--no-sync"],
            user=user, cwd=folder, stdout=log, stderr=log, check=True, timeout=START_SECONDS,
        )  # fmt: skip
        settings = {
            "listen_addresses": LOOPBACK, "port": port, "unix_socket_directories": "", "fsync": "off",
            "wal_level": "logical",
        }  # fmt: skip
        command = [str(programs / "postgres"), "-D", str(data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        # This signal closes connections; at SIGTERM it would wait for them.
        with running(command, user, port, log, signal.SIGINT):
            yield PostgresServer(port, "bank", secret.read_text())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@define(eq=False)
class MariaDbServer:
    """A MariaDB of the tests' own, in a zone that is not the JVM's: its port, and who may log in."""

    port: int
    user: str
    password: str

    def database(self, session: SparkSession, kind: str) -> JdbcDatabase:
        """A new database of its own, through the driver of MariaDB or of MySQL."""
        options = {"user": self.user, "password": self.password}
        name, address = f"bank_{uuid4().hex}", f"jdbc:{kind}://{LOOPBACK}:{self.port}"
        JdbcDatabase(session, f"{address}/test", "test", options).create(name)
        return JdbcDatabase(session, f"{address}/{name}", name, options)


@contextmanager
def mariadb_server(program: str) -> Iterator[MariaDbServer]:
    """A MariaDB server on loopback over an empty folder; gone with all its data in the end."""
    user = "mysql" if os.geteuid() == 0 else None  # it refuses to run as root
    folder, password = Path(tempfile.mkdtemp(prefix="headwater-mariadb-")), "hunter2-of-the-bank"
    try:
        if user:
            shutil.chown(folder, user)
        log, port = (folder / "log").open("wb"), free_port()
        start = folder / "start.sql"
        login = f"CREATE USER bank IDENTIFIED BY '{password}';"
        start.write_text(f"CREATE DATABASE test;\n{login}\nGRANT ALL ON *.* TO bank;\n")
        data = f"--datadir={folder / 'data'}"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", data, "--skip-test-db", "--auth-root-authentication-method=socket"],
            user=user, cwd=folder, stdout=log, stderr=log, check=True, timeout=START_SECONDS,
        )  # fmt: skip
        settings = {
            "bind-address": LOOPBACK, "port": port, "socket": folder / "socket", "default-time-zone": "+09:00",
            "sql-mode": "ANSI_QUOTES", "log-bin": "mysql-bin", "server-id": 1, "init-file": start, "skip-name-resolve": 1,
        }  # fmt: skip
        command = [program, "--no-defaults", data, *(f"--{name}={value}" for name, value in settings.items())]
        with running(command, user, port, log, signal.SIGTERM):
            yield MariaDbServer(port, "bank", password)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL on loopback."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres_server(programs) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDbServer]:
    """A real MariaDB on loopback."""
    program = shutil.which("mariadbd", path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
    if program is None:
        pytest.skip("MariaDB is not installed")
    with mariadb_server(program) as server:
        yield server
