"""User-supplied SQL on Spark, and user-supplied plain tables."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import narwhals as nw
from attrs import frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException

from ...domain.errors import ConfigError, HeadwaterError, NotSupported
from ...domain.ports import QueryEngine
from ...domain.sql import parse_statement
from ...domain.sql.parsing import quote
from ..shared.table_folders import LOGS, check_no_table, is_hidden, is_in_partition
from .checked_sql import check_sums
from .errors import Fault
from .hadoop_files import has_entry, list_below, list_files
from .own_session import work_in_own_session
from .plain_files import read_csv, read_json
from .schema import bring_into, lazy, quoted
from .times import in_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMATS = ("parquet", "csv", "json", *LOGS)
_HUDIS_OWN = tuple(
    f"_hoodie_{name}" for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
)
_AT_VERSION = re.compile(r"@(v\d+|\d{17})$", re.IGNORECASE)
"""At the end of a path, Delta takes it for a version or a time."""
_ABSENT = ("java.lang.ClassNotFoundException", "java.lang.NoClassDefFoundError")


@work_in_own_session
@frozen(eq=False)
class SparkQueries(QueryEngine):
    """Spark SQL over Spark frames; it is lazy."""

    session: SparkSession

    def query(self, sql: str, tables: Mapping[str, nw.LazyFrame[Any]], *, lenient: bool = False) -> nw.LazyFrame[Any]:
        statement = parse_statement(sql)
        statement.check_tables(tables)
        used = {name.lower() for name in statement.tables}
        frames = {name: frame.to_native() for name, frame in tables.items() if name.lower() in used}
        with self._views(frames) as views, _explained(sql):
            rows = self.session.sql(_over_views(check_sums(statement.sql), views))
        _check_names(rows.columns, sql)
        return lazy(in_range(rows, sql, lenient=lenient))

    def scan(self, path: str, format: str) -> nw.LazyFrame[Any]:  # noqa: A002 - the port's word
        if format not in _FORMATS:
            raise ConfigError(f"unknown format {format!r} of {path}; known: {', '.join(_FORMATS)}")
        try:
            if format == "delta":
                self._check_no_version(path)
            if format == "parquet":
                check_no_table(path, [log for log in LOGS.values() if has_entry(self.session, path, log)])
            if format not in LOGS:
                _check_partitions(path, list_below(self.session, path))
            rows = _READERS[format](self.session, path)
        except (AnalysisException, Py4JJavaError) as error:
            raise _unread(path, format, Fault.behind(error)) from error
        return lazy(rows.drop(*_HUDIS_OWN))

    def state(self, path: str, format: str) -> str:  # noqa: A002 - the port's word
        try:
            # Every change of a table leaves a trace in its log.
            facts = list_files(self.session, f"{path}/{LOGS[format]}" if format in LOGS else path)
        except Py4JJavaError as error:
            raise _unread(path, format, Fault.behind(error)) from error
        return hashlib.sha256(repr(sorted(facts)).encode()).hexdigest()[:16]

    def _check_no_version(self, path: str) -> None:
        """Refuse a version in the path of a Delta table: `state` knows only the newest one.

        Raises:
            ConfigError: it has one, and is not that of a table.
        """
        found = _AT_VERSION.search(path)
        if found and not has_entry(self.session, path, LOGS["delta"]):
            raise ConfigError(
                f"{path} names a version of a Delta table ({found[0]}), and only its newest one can be read; leave"
                f" {found[0]} out, or write the rows of that version to another table"
            )

    @contextmanager
    def _views(self, frames: Mapping[str, DataFrame]) -> Iterator[dict[str, str]]:
        """A view with a unique name for each frame, while a query is analyzed; its plan does not need them later."""
        views: dict[str, str] = {}
        try:
            for name, frame in frames.items():
                view = f"headwater_{uuid4().hex}"
                # A frame may come from another session, whose views this session does not see.
                bring_into(self.session, frame).createTempView(view)
                views[name] = view
            yield views
        finally:
            for view in views.values():
                self.session.catalog.dropTempView(view)


def _check_partitions(path: str, files: list[tuple[str, ...]]) -> None:
    """Refuse a folder with files beside folders of partitions: Spark would leave these files out without a word.

    Raises:
        ConfigError: it has both.
    """
    partition = next(("/".join(each[:-1]) for each in files if is_in_partition(each)), None)
    beside = next((each[0] for each in files if len(each) == 1 and not is_hidden(each[0])), None)
    if partition and beside:
        raise ConfigError(
            f"{path} has file {beside!r} beside folders of partitions such as {partition!r}: put every file into such a"
            " folder, or all files into one folder"
        )


def _over_views(sql: str, views: Mapping[str, str]) -> str:
    """The query, with its table names defined as the views."""
    if not views:
        return sql
    named = ", ".join(f"{quoted(name)} AS (TABLE {view})" for name, view in views.items())
    return f"WITH {named}\n(\n{sql}\n)"


@contextmanager
def _explained(sql: str) -> Iterator[None]:
    try:
        yield
    except AnalysisException as error:
        reason = str(error).strip().split("\n", 1)[0].split("; line ", 1)[0]
        raise ConfigError(f"{quote(sql)}: {reason}; look at its columns, tables and functions") from error


def _check_names(columns: list[str], sql: str) -> None:
    seen: set[str] = set()
    for name in columns:
        if name.lower() in seen:
            raise ConfigError(f"{quote(sql)}: column {name!r} occurs twice; give one of them another name")
        seen.add(name.lower())


def _read(session: SparkSession, path: str, *, format_: str) -> DataFrame:
    # Without it, Spark takes the columns of one Parquet file, and drops what only others have.
    return session.read.format(format_).option("mergeSchema", format_ == "parquet").load(path)


_READERS: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    each: partial(_read, format_=each) for each in _FORMATS
} | {"csv": read_csv, "json": read_json}


def _unread(path: str, format_: str, fault: Fault) -> HeadwaterError:
    if not fault.lineage.isdisjoint(_ABSENT):
        return NotSupported(f"reading {format_} tables", "this Spark session", f"start it with the jars of {format_}")
    return ConfigError(f"cannot read {path} as {format_}: {fault.reason}; look at the path and the format")
