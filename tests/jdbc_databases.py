"""Databases for tests of bulk loads: Derby, whose jar comes with PySpark, and a private PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from attrs import define, field

from headwater.adapters.jdbc.database import Database, JdbcSettings
from headwater.adapters.spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession


@define(eq=False)
class TestDatabase:
    """A database that tests may write to."""

    __test__ = False

    session: SparkSession
    url: str
    options: Mapping[str, str] = field(factory=dict)

    @property
    def opened(self) -> Database:
        """The database as a bulk load opens it."""
        return Database(self.session, JdbcSettings(self.url, self.options))

    def run(self, *statements: str) -> None:
        """Run statements, each a transaction of its own."""
        with self.opened._connection() as connection:
            for each in statements:
                connection.createStatement().execute(each)

    def insert(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        """Insert literal rows in one statement."""
        values = ", ".join("(" + ", ".join(map(_literal, row)) + ")" for row in rows)
        self.run(f"INSERT INTO {table} VALUES {values}")


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def derby(session: SparkSession, folder: Path, *, create: bool = True) -> TestDatabase:
    """An empty Derby in this process's memory; its log goes to a folder."""
    java_class(session, "java.lang.System").setProperty("derby.stream.error.file", str(folder / "derby.log"))
    return TestDatabase(session, f"jdbc:derby:memory:{uuid4().hex}" + (";create=true" if create else ""))
