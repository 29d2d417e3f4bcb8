"""A database as its driver speaks with it: small questions, and tables as Spark frames. It tells no secrets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, field, frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ...domain.errors import ConfigError, HeadwaterError, NotInstalled, SourceUnavailable
from ...domain.schema import INTEGERS
from ..spark.faults import Fault
from ..spark.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from ...domain.schema import Column, DataType

Value: TypeAlias = int | str
"""One column of a key, in JSON values: decimals and dates as text."""

Key: TypeAlias = Sequence[Value]
"""The columns of a key."""

_SPARKS = "org.apache.spark.sql"
_NO_DRIVER = ("java.lang.ClassNotFoundException", "No suitable driver")
# Statements of the same meaning, where the standard's is not understood.
_CLOCKS = {
    "derby": "VALUES CURRENT_TIMESTAMP",
    "db2": "VALUES CURRENT_TIMESTAMP",
    "oracle": "SELECT CURRENT_TIMESTAMP FROM DUAL",
    # Without the digits it is cut off to the second, and so before the rows that it is to be after.
    "mysql": "SELECT CURRENT_TIMESTAMP(6)",
    "mariadb": "SELECT CURRENT_TIMESTAMP(6)",
}
_LIMITED = ("mysql", "mariadb", "sqlite")
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class JdbcSettings:
    """Where a database is, and how to speak with it.

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
        """A statement that asks the database what time it is."""
        return _CLOCKS.get(self.kind, "SELECT CURRENT_TIMESTAMP")

    def scrubbed(self, text: str) -> str:
        """A text of the driver's without what the options say: some drivers repeat what they were given."""
        for value in sorted(self.options.values(), key=len, reverse=True):
            if value:
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "***", text)
        return text


@define(eq=False)
class Database:
    """One database.

    Args:
        session: the session whose driver and workers connect to it; its class path has the JDBC driver.
        settings: where it is.
    """

    session: SparkSession
    settings: JdbcSettings

    def table(self, name: str) -> DataFrame:
        """A table or view, not read before it is used.

        Args:
            name: with its schema, each part as the database has it.

        Raises:
            SourceUnavailable: the database does not answer, or has no such table.
            NotInstalled: there is no driver for it.
        """
        options = {
            # Without one PostgreSQL's driver keeps all rows of a query in memory.
            "fetchsize": "10000",
            # A time without a zone is the declared zone's, not that of the JVM.
            "preferTimestampNTZ": "true",
            **self.settings.options,
            "url": self.settings.url,
            "dbtable": self.table_name(name),
        }
        with self.explained(f"reading {name}"):
            return self.session.read.format("jdbc").options(**options).load()

    def table_name(self, name: str) -> str:
        """A table's name as SQL takes it, whatever characters its parts have."""
        return ".".join(map(self.quoted, name.split(".")))

    def quoted(self, name: str) -> str:
        """A name as the database's SQL takes it, whatever characters it has."""
        quote = "`" if self.settings.kind in ("mysql", "mariadb") else '"'
        return quote + name.replace(quote, quote * 2) + quote

    def nth(self, table: str, key: Sequence[Column], after: Key | None, number: int) -> Key | None:
        """The key of the row that is so many rows behind another, in the database's own order; None if there is none.

        Args:
            table: its name.
            key: the columns of the key, as the database names them.
            after: the key of the other row; None: of one before the first.
            number: how many rows, at least one.
        """
        names = [self.quoted(each.name) for each in key]
        listed, where, used = ", ".join(names), "", list[int]()
        if after is not None:
            condition, used = beyond(names, after)
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
        """The first row that a statement gives, as Python or Java has it; None if there is none.

        Args:
            sql: the statement.
            parameters: each with its type.

        Raises:
            SourceUnavailable: the database does not answer, or refuses the statement.
            NotInstalled: there is no driver for it.
        """
        with self.explained("asking the database"), self._connection() as connection:
            statement = connection.prepareStatement(sql)
            for at, (value, kind) in enumerate(parameters, 1):
                _give(self.session, statement, at, value, kind)
            rows = statement.executeQuery()
            if not rows.next():
                return None
            return [rows.getObject(at + 1) for at in range(rows.getMetaData().getColumnCount())]

    def now(self, sql: str | None) -> datetime:
        """What time the database says it is (UTC), rounded up to a microsecond.

        Args:
            sql: a statement that gives it; the usual one of the database if None.

        Raises:
            ConfigError: the statement does not give one.
        """
        asked = sql or self.settings.clock
        with self.explained("asking for the time"), self._connection() as connection:
            rows = connection.prepareStatement(asked).executeQuery()
            at = rows.getTimestamp(1) if rows.next() else None
            if at is None:
                raise ConfigError(f"{asked!r} gives no time: write a `clock_query` of one row and one column")
            nanos, seconds = int(at.getNanos()), int(at.getTime()) // 1000
        return _1970 + timedelta(seconds=seconds, microseconds=-(-nanos // 1000))

    @contextmanager
    def explained(self, doing: str) -> Iterator[None]:
        """Tell of what the database or its driver refuse, without what they were told in secret.

        Raises:
            SourceUnavailable: it may go better another time.
            NotInstalled: there is no driver.
        """
        try:
            yield
        except HeadwaterError:
            raise
        except (Py4JJavaError, PySparkException) as error:
            fault = Fault.behind(error)
            raise self._refusal(doing, fault) from None  # what the driver says in full may hold secrets

    def _refusal(self, doing: str, fault: Fault) -> HeadwaterError:
        reason = self.settings.scrubbed(fault.reason)
        if any(told in fault.lineage or told in reason for told in _NO_DRIVER):
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
        """Spark's own way to connect, which finds drivers among the session's jars."""
        given = java_class(self.session, "java.util.HashMap")()
        for name, value in self.settings.options.items():
            given.put(name, value)
        options = java_class(self.session, f"{_SPARKS}.execution.datasources.jdbc.JDBCOptions")
        utils = java_class(self.session, "org.apache.spark.api.python.PythonUtils")
        dialect = java_class(self.session, f"{_SPARKS}.jdbc.JdbcDialects").get(self.settings.url)
        # It wants a table, though none is asked for here.
        return dialect.createConnectionFactory(options(self.settings.url, "nothing", utils.toScalaMap(given)))


def beyond(names: Sequence[str], after: Key) -> tuple[str, list[int]]:
    """A condition for keys behind one, and which columns of that are its parameters.

    >>> beyond(["a"], [1])
    ('a > ?', [0])
    >>> beyond(["a", "b"], [1, 2])
    ('a >= ? AND (a > ? OR (a = ? AND (b > ?)))', [0, 0, 0, 1])
    """
    sql, used = f"{names[-1]} > ?", [len(after) - 1]
    for at in reversed(range(len(names) - 1)):
        sql, used = f"{names[at]} > ? OR ({names[at]} = ? AND ({sql}))", [at, at, *used]
    # Which tells an index where to begin; alternatives do not.
    return (sql, used) if len(names) == 1 else (f"{names[0]} >= ? AND ({sql})", [0, *used])


def _plain(value: Any, kind: DataType) -> Value:
    """A column of a key in JSON values."""
    return int(str(value)) if kind.name in INTEGERS else str(value)


def _give(session: SparkSession, statement: Any, at: int, value: Value, kind: DataType) -> None:
    """Fill in a parameter, in the column's own type: a comparison with another would not use the index."""
    match kind.name:
        case "date":
            statement.setDate(at, java_class(session, "java.sql.Date").valueOf(value))
        case "decimal":
            statement.setBigDecimal(at, java_class(session, "java.math.BigDecimal")(value))
        case "string":
            statement.setString(at, value)
        case _:
            statement.setLong(at, value)
