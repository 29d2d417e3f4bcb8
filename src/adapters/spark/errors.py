"""Exceptions of the JVM, translated into Headwater's errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from attrs import frozen
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from ...domain.errors import (
    ClusterUnavailable,
    ConfigError,
    HeadwaterError,
    NotInstalled,
    StoreUnavailable,
    TableDamaged,
    VersionExpired,
)
from ...domain.table import sums
from . import plain_files, times, workers
from .lost_jvm import explain_lost_jvm

_UNREACHABLE = ("java.io.", "java.lang.ClassNotFoundException", "java.nio.", "java.net.", "org.apache.hadoop.")
_GONE = "java.io.FileNotFoundException"
_DAMAGED = (
    "com.fasterxml.jackson.core.JsonProcessingException",
    "org.apache.hadoop.fs.ChecksumException",
    "org.apache.parquet.io.ParquetDecodingException",
)
# Known by their messages only: Parquet's for a file without its end, Hudi's for a commit.
_DAMAGED_IN_WORDS = ("is not a Parquet file", "unable to read commit metadata")
_LOST_IN_WORDS = "Checkpoint block"
_NO_FILE_SYSTEM = re.compile(r"No FileSystem for scheme|[Cc]lass org\.apache\.hadoop\.fs\.[\w.]*FileSystem not found")
_FILE_SYSTEMS = {
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "abfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
}
"""The package of each scheme's file system, for the Hadoop version that Spark ships."""
_HADOOP = "3.3.4"
_RAISED = (sums.read_overflow, times.read_out_of_range, plain_files.read_refusal, workers.read_error)
"""The errors of Headwater's expressions and workers, each read from a message."""
_FILE = re.compile(r"\w+:/+[^\s,;)]+[^\s,;).]")


@frozen(eq=False, slots=False)
class Fault:
    """An exception of the JVM, or of a Python library on top of it.

    Args:
        error: the Python exception.
        thrown: the Java exception; None if there is none.
    """

    error: Exception
    thrown: Any

    @classmethod
    def behind(cls, error: Exception) -> Fault:
        """The fault behind a Python exception."""
        if isinstance(error, Py4JJavaError):
            return cls(error, error.java_exception)
        return cls(error, error._origin if isinstance(error, CapturedException) else None)

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.error).__name__ if self.thrown is None else str(self.thrown.getClass().getName())

    @property
    def reason(self) -> str:
        """The message of its root cause, on one line."""
        return self._messages[-1]

    @cached_property
    def lineage(self) -> frozenset[str]:
        """The classes of the Java exception and of its causes, with all their superclasses."""
        return frozenset(name for each in self._causes() for name in _classes(each))

    @property
    def is_unreachable(self) -> bool:
        """Whether a place cannot be reached or written."""
        return any(name.startswith(_UNREACHABLE) for name in self.lineage)

    @property
    def has_no_file_system(self) -> bool:
        """Whether the session lacks the file-system package of a store."""
        return any(_NO_FILE_SYSTEM.search(message) for message in self._messages)

    @property
    def is_gone(self) -> bool:
        """Whether a file does not exist."""
        return _GONE in self.lineage

    @property
    def is_damaged(self) -> bool:
        text = " ".join(self._messages)
        return not self.lineage.isdisjoint(_DAMAGED) or any(words in text for words in _DAMAGED_IN_WORDS)

    @property
    def has_lost_rows(self) -> bool:
        """Whether rows that Spark held, and must not compute again by itself, are gone."""
        return any(_LOST_IN_WORDS in message for message in self._messages)

    @property
    def file(self) -> str:
        """The file that its messages name, closest to the root cause."""
        return next((found[0] for message in reversed(self._messages) if (found := _FILE.search(message))), "a file")

    @property
    def damage(self) -> str:
        """The damaged file, the reason, and the remedy."""
        return (
            f"{self.file} is cut off or changed ({self.reason}). Put it back from a backup; of a commit that was never"
            " published, because its writer died, remove the commit's file: the next run makes the epoch again"
        )

    @property
    def raised(self) -> HeadwaterError | None:
        """The error that one of Headwater's expressions or workers raised: a sum that does not fit, for example."""
        texts = [str(each.getMessage() or "") for each in self._causes()] or [str(self.error)]
        return next(
            (
                found
                for text in texts
                if (found := next((error for read in _RAISED if (error := read(text))), None)) is not None
            ),
            None,
        )

    @cached_property
    def unfit_worker(self) -> HeadwaterError | None:
        """The error for a Python worker that cannot run Headwater's functions; None for any other fault."""
        return workers.explain("\n".join(str(each.getMessage() or "") for each in self._causes()) or str(self.error))

    @cached_property
    def _messages(self) -> list[str]:
        """The first line of each message of it and its causes, outermost first, without empty ones."""
        messages = [str(each.getMessage() or "") for each in self._causes()] or [str(self.error)]
        lines = [text.split("\n", 1)[0] for text in messages]
        return [line for line in lines if line] or ["no reason is given"]

    def _causes(self) -> Iterator[Any]:
        thrown = self.thrown
        while thrown is not None:
            yield thrown
            thrown = thrown.getCause()


@contextmanager
def translate_faults(table: str, place: str, interpret: Callable[[Fault], HeadwaterError | None]) -> Iterator[None]:
    """Translate exceptions of the JVM into errors that name the table and the remedy.

    Args:
        table: the name of the table.
        place: where it is stored.
        interpret: returns the error for a fault of the table format itself; None if the fault is unknown.
    """
    try:
        yield
    except (Py4JError, PySparkException) as error:
        _check_running(error)
        fault = Fault.behind(error)
        if (raised := fault.raised) is not None:
            raise raised from error
        if (own := interpret(fault)) is not None:
            raise own from error
        if fault.has_no_file_system:
            raise NotInstalled(f"table {table}: {_without_file_system(place)}") from error
        if fault.unfit_worker is not None:
            raise fault.unfit_worker from error
        if fault.is_damaged:
            raise TableDamaged(f"table {table}: {fault.damage}") from error
        if fault.is_unreachable:
            raise StoreUnavailable(
                f"table {table}: {place} cannot be reached or written: {fault.reason}; look at the disk and its free"
                " space, or the store"
            ) from error
        raise


def _check_running(error: Exception) -> None:
    """Raise a `ConfigError` instead if the program has stopped Spark, of which the JVM says many things."""
    if SparkContext._active_spark_context is None:
        raise ConfigError("Spark has been stopped in this program; open another Headwater") from error


def _without_file_system(place: str) -> str:
    """The message for a missing file system, with the remedy."""
    scheme = place.partition("://")[0]
    package = _FILE_SYSTEMS.get(scheme, "").format(hadoop=_HADOOP)
    named = f'"spark.jars.packages" = "{package}"' if package else "the package of that store"
    return f"the Spark session has no file system for {place}; add {named} under [backend.spark]"


@contextmanager
def explain_read_errors() -> Iterator[None]:
    """Translate errors about stored rows that cannot be read, as `FrameEngine.explaining` does."""
    with explain_lost_jvm(), _explain_unreadable_rows():
        yield


@contextmanager
def _explain_unreadable_rows() -> Iterator[None]:
    try:
        yield
    except (Py4JError, PySparkException) as error:
        _check_running(error)
        found = _met_in_reading(Fault.behind(error))
        if found is None:
            raise
        raise found from error


def _met_in_reading(fault: Fault) -> HeadwaterError | None:
    if (own := fault.raised or fault.unfit_worker) is not None:
        return own
    if fault.has_lost_rows:
        return ClusterUnavailable("rows that Spark held are gone, because an executor was lost or stopped")
    if fault.is_gone:
        return VersionExpired(
            f"{fault.file} is gone: its version expired while it was read, or another program or a person removed it."
            " Read a newer version, and pin what you read for long; if the newest one cannot be read either, put the"
            " file back from a backup"
        )
    if fault.is_damaged:
        return TableDamaged(fault.damage)
    if fault.is_unreachable:
        return StoreUnavailable(f"stored rows cannot be reached just now: {fault.reason}")
    return None


def _classes(thrown: Any) -> Iterator[str]:
    kind = thrown.getClass()
    while kind is not None:
        yield str(kind.getName())
        kind = kind.getSuperclass()
