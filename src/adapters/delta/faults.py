"""Spark's and Delta's exceptions as Headwater's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from ...domain.errors import EpochConflict, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


class Overtaken(StoreUnavailable):
    """A commit of another kind (upkeep, a new column) came in between: the same work may be tried again."""


_SAME_WRITER_ID = "ConcurrentTransactionException"
_CONFLICTS = "Concurrent"
_UNREACHABLE = ("java.io.", "java.nio.", "java.net.", "org.apache.hadoop.", "java.lang.RuntimeException")


@contextmanager
def translated(table: str, place: str) -> Iterator[None]:
    """Raise what the JVM raises as errors that name the table and the remedy."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        kind, reason = _kind(error), _reason(error)
        if kind.endswith(_SAME_WRITER_ID):
            raise EpochConflict(
                f"table {table}: another run has committed in the meantime; nothing was changed. Let one run at a time"
                " write a pipeline"
            ) from error
        if _CONFLICTS in kind or "MetadataChangedException" in kind or "ProtocolChangedException" in kind:
            raise Overtaken(f"table {table}: overtaken by another commit ({reason}); try again") from error
        if kind.startswith(_UNREACHABLE):
            raise StoreUnavailable(f"table {table}: {place} cannot be reached or written: {reason}") from error
        raise


def _java(error: Exception) -> object:
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return error._origin if isinstance(error, CapturedException) else None


def _kind(error: Exception) -> str:
    thrown = _java(error)
    return str(thrown.getClass().getName()) if thrown is not None else type(error).__name__  # type: ignore[attr-defined]


def _reason(error: Exception) -> str:
    thrown = _java(error)
    message = str(thrown.getMessage() if thrown is not None else error)  # type: ignore[attr-defined]
    return message.split("\n", 1)[0]
