"""A database through JDBC: small queries, and tables as Spark frames. Messages contain no secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field, frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ...domain.errors import ConfigError, HeadwaterError, NotInstalled, SourceUnavailable
from ...domain.table.schema import INTEGERS, Column, DataType
from ..spark.errors import Fault
from ..spark.jvm import java_class

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Value: TypeAlias = int | str
"""One column of a key, in JSON values: decimals and dates as text."""

Key: TypeAlias = Sequence[Value]
"""The columns of a key."""

_SPARKS = "org.apache.spark.sql"
_NO_DRIVER = ("java.lang.ClassNotFoundException", "No suitable driver")
# Queries for databases that do not understand the standard one.
_CLOCKS = {
    "derby": "VALUES CURRENT_TIMESTAMP",
    "db2": "VALUES CURRENT_TIMESTAMP",
    "oracle": "SELECT CURRENT_TIMESTAMP FROM DUAL",
    # Without the digits, the time is truncated to the second, and is then earlier than the read of the rows.
    "mysql": "SELECT CURRENT_TIMESTAMP(6)",
    "mariadb": "SELECT CURRENT_TIMESTAMP(6)",
}
# DriverManager does not see the jars that Spark loads, but Spark finds a driver among them by its name.
_DRIVERS = {
    "derby": "org.apache.derby.jdbc.AutoloadedDriver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "postgresql": "org.postgresql.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
_LIMITED = ("mysql", "mariadb", "sqlite")
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class JdbcSettings:
    """The address and the options of a database connection.

    Args:
        url: its JDBC address, without a password.
        options: further settings of Spark's JDBC source or of the driver; they may hold secrets.
    """

    url: str
    options: Mapping[str, str] = field(factory=dict, repr=False)

    @property
    def kind(self) -> str:
        """The word after ``jdbc:``, which names the kind of database."""
        return self.url.split(":")[1].lower()

    @property
    def clock(self) -> str:
        """A query for the database's time."""
        return _CLOCKS.get(self.kind, "SELECT CURRENT_TIMESTAMP")

    @property
    def connection_options(self) -> dict[str, str]:
        """The options of a connection, besides its address."""
        driver = {"driver": _DRIVERS[self.kind]} if self.kind in _DRIVERS else {}
        return {**driver, **self.options}

    def redact(self, text: str) -> str:
        """A message of the driver without the values of the options, because some drivers repeat them."""
        for value in sorted(self.options.values(), key=len, reverse=True):
            if value:
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "***", text)
        return text


@define(eq=False)
class Database:
    """One database.

    Args:
        session: the session whose driver and workers connect to it; its class path has the JDBC driver.
        settings: how to connect to it.
    """

    session: SparkSession
    settings: JdbcSettings

    def table(self, name: str) -> DataFrame:
        """A table or view; it is read when the frame is computed.

        Args:
            name: with its schema, each part spelled as in the database.

        Raises:
            SourceUnavailable: the database does not answer, or has no such table.
            NotInstalled: there is no driver for it.
        """
        options = {
            # Without one PostgreSQL's driver keeps all rows of a query in memory.
            "fetchsize": "10000",
            # A time without a zone belongs to the declared zone, not to that of the JVM.
            "preferTimestampNTZ": "true",
            **self.settings.connection_options,
            "url": self.settings.url,
            "dbtable": self.table_name(name),
        }
        with self.translate_errors(f"reading {name}"):
            return self.session.read.format("jdbc").options(**options).load()

    def table_name(self, name: str) -> str:
        """A table's name, quoted for SQL."""
        return ".".join(map(self.quoted, name.split(".")))

    def quoted(self, name: str) -> str:
        """A name, quoted for the database's SQL."""
        quote = "`" if self.settings.kind in ("mysql", "mariadb") else '"'
        return quote + name.replace(quote, quote * 2) + quote

    def nth(self, table: str, key: Sequence[Column], after: Key | None, number: int) -> Key | None:
        """The key of the row that is `number` rows after another one, in the database's order; None if there is none.

        Args:
            table: its name.
            key: the columns of the key, under their names in the database.
            after: the key of the other row; None to count from the beginning.
            number: how many rows, at least one.
        """
        names = [self.quoted(each.name) for each in key]
        listed, where, used = ", ".join(names), "", list[int]()
        if after is not None:
            condition, used = condition_after(names, after)
            where = f" WHERE {condition}"
        skipped = number - 1
        standard = f"OFFSET {skipped} ROWS FETCH NEXT 1 ROWS ONLY"
        last = f"LIMIT 1 OFFSET {skipped}" if self.settings.kind in _LIMITED else standard
        # Names are quoted, and values are parameters.
        asked = f"SELECT {listed} FROM {self.table_name(table)}{where} ORDER BY {listed} {last}"  # noqa: S608 - as said
        given = [(after[at], key[at].type) for at in used] if after is not None else []
        found = self.row(asked, given)
        return None if found is None else [_plain(each, column.type) for each, column in zip(found, key, strict=True)]

    def row(self, sql: str, parameters: Sequence[tuple[Value, DataType]] = ()) -> list[Any] | None:
        """The first row of a query's result, as Python or Java values; None if there is none.

        Args:
            sql: the query.
            parameters: the values of its parameters, each with its type.

        Raises:
            SourceUnavailable: the database does not answer, or rejects the query.
            NotInstalled: there is no driver for it.
        """
        with self.translate_errors("asking the database"), self._connection() as connection:
            statement = connection.prepareStatement(sql)
            for at, (value, kind) in enumerate(parameters, 1):
                _give(self.session, statement, at, value, kind)
            rows = statement.executeQuery()
            if not rows.next():
                return None
            return [rows.getObject(at + 1) for at in range(rows.getMetaData().getColumnCount())]

    def now(self, sql: str | None) -> datetime:
        """The database's time (UTC), rounded up to a microsecond.

        Args:
            sql: a query for it; None: the usual one of the database.

        Raises:
            ConfigError: the query returns no time.
        """
        asked = sql or self.settings.clock
        with self.translate_errors("asking for the time"), self._connection() as connection:
            rows = connection.prepareStatement(asked).executeQuery()
            at = rows.getTimestamp(1) if rows.next() else None
            if at is None:
                raise ConfigError(f"{asked!r} gives no time: write a `clock_query` of one row and one column")
            nanos, seconds = int(at.getNanos()), int(at.getTime()) // 1000
        return _1970 + timedelta(seconds=seconds, microseconds=-(-nanos // 1000))

    @contextmanager
    def translate_errors(self, doing: str) -> Iterator[None]:
        """Translate errors of the database or its driver, with the secrets removed.

        Raises:
            SourceUnavailable: the database refused or did not answer.
            NotInstalled: there is no driver.
        """
        try:
            yield
        except HeadwaterError:
            raise
        except (Py4JJavaError, PySparkException) as error:
            fault = Fault.behind(error)
            raise self._refusal(doing, fault) from None  # the driver's full message may contain secrets

    def _refusal(self, doing: str, fault: Fault) -> HeadwaterError:
        reason = self.settings.redact(fault.reason)
        if any(words in fault.lineage or words in reason for words in _NO_DRIVER):
            return NotInstalled(
                f"there is no JDBC driver for {self.settings.kind} on Spark's class path: name its jar by"
                ' backend.spark."spark.jars.packages", such as "org.postgresql:postgresql:42.7.4"'
            )
        return SourceUnavailable(f"{doing}: {reason}; look at the database, the table and who may read it")

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        connection = self._factory().apply(-1)
        try:
            yield connection
        finally:
            connection.close()

    def _factory(self) -> Any:
        """Spark's own connection factory, which finds drivers among the session's jars."""
        given = java_class(self.session, "java.util.HashMap")()
        for name, value in self.settings.connection_options.items():
            given.put(name, value)
        options = java_class(self.session, f"{_SPARKS}.execution.datasources.jdbc.JDBCOptions")
        utils = java_class(self.session, "org.apache.spark.api.python.PythonUtils")
        dialect = java_class(self.session, f"{_SPARKS}.jdbc.JdbcDialects").get(self.settings.url)
        # It requires a table name, but none is used here.
        return dialect.createConnectionFactory(options(self.settings.url, "nothing", utils.toScalaMap(given)))


def condition_after(names: Sequence[str], after: Key) -> tuple[str, list[int]]:
    """An SQL condition for keys after a given one, and the index of the key column for each parameter.

    >>> condition_after(["a"], [1])
    ('a > ?', [0])
    >>> condition_after(["a", "b"], [1, 2])
    ('a >= ? AND (a > ? OR (a = ? AND (b > ?)))', [0, 0, 0, 1])
    """
    sql, used = f"{names[-1]} > ?", [len(after) - 1]
    for at in reversed(range(len(names) - 1)):
        sql, used = f"{names[at]} > ? OR ({names[at]} = ? AND ({sql}))", [at, at, *used]
    # The first condition tells an index where to begin; an OR alone would not.
    return (sql, used) if len(names) == 1 else (f"{names[0]} >= ? AND ({sql})", [0, *used])


def _plain(value: Any, kind: DataType) -> Value:
    """A key value as a JSON value."""
    return int(str(value)) if kind.name in INTEGERS else str(value)


def _give(session: SparkSession, statement: Any, at: int, value: Value, kind: DataType) -> None:
    """Set a parameter in the column's own type: a comparison with another type would not use the index."""
    match kind.name:
        case "date":
            statement.setDate(at, java_class(session, "java.sql.Date").valueOf(value))
        case "decimal":
            statement.setBigDecimal(at, java_class(session, "java.math.BigDecimal")(value))
        case "string":
            statement.setString(at, value)
        case _:
            statement.setLong(at, value)
