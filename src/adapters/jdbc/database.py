"""A database through JDBC: small queries, and tables as Spark frames. Messages contain no secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ...domain.duration import EPOCH
from ...domain.errors import BadInput, ConfigError, HeadwaterError, NotInstalled, SourceUnavailable
from ...domain.table.schema import INTEGERS, DataType
from ..spark.errors import Fault
from ..spark.jvm import java_class
from . import mysql, mysql_columns, postgresql, times
from .columns import DatabaseColumn
from .keys import Key, KeyColumn, Value, condition_after, condition_within, not_null

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SPARKS = "org.apache.spark.sql"
_NO_DRIVER = ("java.lang.ClassNotFoundException", "No suitable driver")
# Queries for databases that do not understand the standard one.
_CLOCKS = {
    "derby": "VALUES CURRENT_TIMESTAMP",
    "oracle": "SELECT CURRENT_TIMESTAMP FROM DUAL",
    "sqlserver": "SELECT SYSDATETIMEOFFSET()",
}
_UTC_CLOCKS = {
    "db2": "VALUES CURRENT_TIMESTAMP - CURRENT_TIMEZONE",
    # Without the digits, the time is truncated to the second, and is then earlier than the read of the rows.
    **dict.fromkeys(mysql.KINDS, "SELECT UTC_TIMESTAMP(6)"),
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
}
"""Of databases whose time has no zone."""
# DriverManager does not see the jars that Spark loads, but Spark finds a driver among them by its name.
_DRIVERS = {
    "derby": "org.apache.derby.jdbc.AutoloadedDriver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "postgresql": "org.postgresql.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
_LIMITED = mysql.KINDS | {"sqlite"}
_WHOLE = re.compile(r"-?\d+")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(E[+-]?\d+)?")
_UNREAD = "headwater_unread_{}"
"""The alias of a column with the texts of values that Spark cannot read."""


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
    def connection_options(self) -> dict[str, str]:
        """The options of a connection, besides its address."""
        driver = {"driver": _DRIVERS[self.kind]} if self.kind in _DRIVERS else {}
        given = mysql.connection_options(self.url, self.options) if self.kind in mysql.KINDS else self.options
        return {**driver, **given}

    @property
    def spark_url(self) -> str:
        """The address, as Spark takes it."""
        return mysql.spark_url(self.url)

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

    def read(self, relation: str, name: str) -> DataFrame:
        """The rows of a relation; it is read when the frame is computed.

        Args:
            relation: SQL: a quoted name, or a query in parentheses with an alias.
            name: the name of the table, for messages.

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
            "url": self.settings.spark_url,
            "dbtable": relation,
        }
        with self.translate_errors(f"reading {name}"):
            return self.session.read.format("jdbc").options(**options).load()

    def columns(self, table: str) -> list[DatabaseColumn]:
        """The columns of a table or view.

        Args:
            table: its name with its schema, each part spelled as in the database.

        Raises:
            SourceUnavailable: the database does not answer, or has no such table.
            NotInstalled: there is no driver for it.
        """
        asked = f"SELECT * FROM {self.table_name(table)} WHERE 1 = 0"  # noqa: S608 - the name is quoted
        with self.translate_errors(f"reading {table}"), self._connection() as connection:
            found = connection.prepareStatement(asked).executeQuery().getMetaData()
            columns = [DatabaseColumn.of(found, at + 1) for at in range(found.getColumnCount())]
            if self.settings.kind == postgresql.KIND:
                return postgresql.with_identity(connection, self.table_name(table), columns)
            if self.settings.kind in mysql.KINDS:
                return mysql_columns.with_identity(connection, self.table_name(table), table, columns)
            return columns

    def chunk(
        self,
        table: str,
        columns: Mapping[DatabaseColumn, DataType],
        key: Sequence[KeyColumn],
        after: Key | None,
        until: Key | None,
    ) -> tuple[DataFrame, dict[str, str]]:
        """The rows of a range of the key, and the columns with the texts of values that Spark cannot read.

        Rows with a null in the key are in the range without `until`.

        Args:
            table: its name.
            columns: those of its columns to read, each with its declared type.
            key: the columns of the key, under their names in the database.
            after: the key before the range; None: the range begins with the first key.
            until: the last key of the range; None: the range ends with the last key.

        Returns:
            The second has a column of the frame for the name of each column that may have such values. The text is
            null for values that Spark can read; else the value is null.
        """
        selected, unread = list[str](), dict[str, str]()
        for at, (column, wanted) in enumerate(columns.items()):
            value, text = self._select(column, wanted)
            selected.append(f"{value} AS {self.quoted(column.name)}")
            if text is not None:
                unread[column.name] = _UNREAD.format(at)
                selected.append(f"{text} AS {unread[column.name]}")
        names, nullable = self._names(key)
        within = condition_within(names, nullable, self._literals(key, after), self._literals(key, until))
        where = "" if within is None else f" WHERE {within}"
        asked = f"SELECT {', '.join(selected)} FROM {self.table_name(table)}{where}"  # noqa: S608 - names are quoted
        rows = self.read(f"({asked}) headwater_chunk", table)
        if self.settings.kind in mysql.KINDS:
            rows = mysql_columns.read_floats(rows, columns)
        rows, no_times = times.read_texts(self.settings.kind, rows, columns)
        return rows, unread | no_times

    def table_name(self, name: str) -> str:
        """A table's name, quoted for SQL."""
        return ".".join(map(self.quoted, name.split(".")))

    def quoted(self, name: str) -> str:
        """A name, quoted for the database's SQL."""
        quote = "`" if self.settings.kind in mysql.KINDS else '"'
        return quote + name.replace(quote, quote * 2) + quote

    def nth(self, table: str, key: Sequence[KeyColumn], after: Key | None, number: int) -> Key | None:
        """The key of the row that is `number` rows after another one, in the database's order; None if there is none.

        Rows with a null in the key are not counted.

        Args:
            table: its name.
            key: the columns of the key, under their names in the database.
            after: the key of the other row; None to count from the beginning.
            number: how many rows, at least one.

        Raises:
            BadInput: the database finds the same key again: it compares the key otherwise than it writes it.
        """
        names, nullable = self._names(key)
        conditions = not_null(nullable)
        if (literals := self._literals(key, after)) is not None:
            conditions.append(condition_after(names, literals))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        texts, listed, skipped = ", ".join(map(self._key_text, key)), ", ".join(names), number - 1
        standard = f"OFFSET {skipped} ROWS FETCH NEXT 1 ROWS ONLY"
        last = f"LIMIT 1 OFFSET {skipped}" if self.settings.kind in _LIMITED else standard
        found = self.row(
            f"SELECT {texts} FROM {self.table_name(table)}{where} ORDER BY {listed} {last}"  # noqa: S608 - as above
        )
        if found is None:
            return None
        reached = [_plain(each, column) for each, column in zip(found, key, strict=True)]
        if after is not None and reached == [*after]:
            raise BadInput(_stuck(table, key, reached))
        return reached

    def row(self, sql: str) -> list[Any] | None:
        """The first row of a query's result, as the driver's texts (None: null); None if there is none.

        Raises:
            SourceUnavailable: the database does not answer, or rejects the query.
            NotInstalled: there is no driver for it.
        """
        with self.translate_errors("asking the database"), self._connection() as connection:
            rows = connection.prepareStatement(sql).executeQuery()
            if not rows.next():
                return None
            return [rows.getString(at + 1) for at in range(rows.getMetaData().getColumnCount())]

    def now(self, sql: str | None) -> datetime:
        """The database's time (UTC), rounded up to a microsecond.

        Args:
            sql: a query for it; None: the usual one of the database.

        Raises:
            ConfigError: the query returns no time.
        """
        kind = self.settings.kind
        asked = sql or _UTC_CLOCKS.get(kind) or _CLOCKS.get(kind, "SELECT CURRENT_TIMESTAMP")
        # A time without a zone, which a driver would take for one of the JVM's zone. MySQL's session is in UTC.
        in_utc = kind in mysql.KINDS or asked == _UTC_CLOCKS.get(kind)
        with self.translate_errors("asking for the time"), self._connection() as connection:
            rows = connection.prepareStatement(asked).executeQuery()
            read = rows.getString if in_utc else rows.getTimestamp
            at = read(1) if rows.next() else None
            if at is None:
                raise ConfigError(f"{asked!r} gives no time: write a `clock_query` of one row and one column")
            if in_utc:
                return datetime.fromisoformat(at).replace(tzinfo=UTC)
            nanos, seconds = int(at.getNanos()), int(at.getTime()) // 1000
        return EPOCH + timedelta(seconds=seconds, microseconds=-(-nanos // 1000))

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

    def _select(self, column: DatabaseColumn, wanted: DataType) -> tuple[str, str | None]:
        """A column's value in SQL, and the text of those values that Spark cannot read."""
        name = self.quoted(column.name)
        if self.settings.kind == postgresql.KIND:
            return postgresql.select(column, name, wanted)
        if self.settings.kind in mysql.KINDS:
            return mysql_columns.select(self.settings.kind, column, name, wanted)
        return times.select(self.settings.kind, column, name, wanted), None

    def _names(self, key: Sequence[KeyColumn]) -> tuple[list[str], list[str]]:
        """The quoted names of a key's columns, and of those that may be null."""
        return [self.quoted(each.name) for each in key], [self.quoted(each.name) for each in key if each.nullable]

    def _key_text(self, column: KeyColumn) -> str:
        """The SQL for the text of a key value."""
        name = self.quoted(column.name)
        return mysql_columns.key_text(column, name) if self.settings.kind in mysql.KINDS else name

    def _literals(self, key: Sequence[KeyColumn], values: Key | None) -> list[str] | None:
        if values is None:
            return None
        return [self._literal(value, column) for value, column in zip(values, key, strict=True)]

    def _literal(self, value: Value, column: KeyColumn) -> str:
        """A value in SQL, in the column's own type: a comparison with another type would not use the index.

        It could also be in another order than that of the column: texts as numbers.
        """
        text, kind = str(value), self.settings.kind
        if kind == postgresql.KIND:
            return postgresql.literal(text)
        if column.is_number and _NUMBER.fullmatch(text):
            return text
        if kind in mysql.KINDS:
            return mysql_columns.literal(column, text)
        quoted = "'" + text.replace("'", "''") + "'"
        return f"{{d {quoted}}}" if column.type.name == "date" and kind == "oracle" else quoted

    def _factory(self) -> Any:
        """Spark's own connection factory, which finds drivers among the session's jars."""
        given = java_class(self.session, "java.util.HashMap")()
        for name, value in self.settings.connection_options.items():
            given.put(name, value)
        options = java_class(self.session, f"{_SPARKS}.execution.datasources.jdbc.JDBCOptions")
        utils = java_class(self.session, "org.apache.spark.api.python.PythonUtils")
        dialect = java_class(self.session, f"{_SPARKS}.jdbc.JdbcDialects").get(self.settings.spark_url)
        # It requires a table name, but none is used here.
        return dialect.createConnectionFactory(options(self.settings.spark_url, "nothing", utils.toScalaMap(given)))


def _plain(text: str, column: KeyColumn) -> Value:
    """A key value as a JSON value. A text stays as it is: `007` and `7` have different places in the order of texts."""
    kind = column.type.name
    if not column.is_number:
        return text
    if kind in INTEGERS and _WHOLE.fullmatch(text):
        return int(text)
    return f"{Decimal(text):f}" if kind == "decimal" and _NUMBER.fullmatch(text) else text


def _stuck(table: str, key: Sequence[KeyColumn], reached: Key) -> str:
    types = ", ".join(f"{each.name!r} is a {each.database_type}" for each in key)
    return (
        f"table {table} cannot be read in the order of its key: behind {reached} the database finds the same key again,"
        f" so it compares it otherwise than it writes it; key column {types}; read a view that casts it to a decimal or"
        " a text"
    )
