"""What the JVM has thrown, behind the exceptions of PySpark and py4j."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from ...domain.errors import StoreUnavailable, TableDamaged, VersionExpired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...domain.errors import HeadwaterError

_UNREACHABLE = ("java.io.", "java.lang.ClassNotFoundException", "java.nio.", "java.net.", "org.apache.hadoop.")
_GONE = "java.io.FileNotFoundException"
_DAMAGED = (
    "com.fasterxml.jackson.core.JsonProcessingException",
    "org.apache.hadoop.fs.ChecksumException",
    "org.apache.parquet.io.ParquetDecodingException",
)
# Told by messages alone: Parquet's of a file without its end, Hudi's of a commit.
_DAMAGED_IN_WORDS = ("is not a Parquet file", "unable to read commit metadata")
_FILE = re.compile(r"\w+:/+[^\s,;)]+[^\s,;).]")


@contextmanager
def explained() -> Iterator[None]:
    """Tell of stored rows that cannot be read, as `FrameEngine.explaining` does."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        found = _met_in_reading(thrown_by(error))
        if found is None:
            raise
        raise found from error


def _met_in_reading(thrown: Any) -> HeadwaterError | None:
    if _GONE in lineage(thrown):
        return VersionExpired(
            f"{file_told(thrown)} is gone: its version was given up while it was read. Ask for a newer one, and pin"
            " what you read for long; if it was the newest, put the file back from a backup"
        )
    if is_damaged(thrown):
        return TableDamaged(damage(thrown))
    if is_unreachable(thrown):
        return StoreUnavailable(f"stored rows cannot be reached just now: {reason(thrown)}")
    return None


def is_unreachable(thrown: Any) -> bool:
    """Whether a Java exception, or what caused it, says that a place cannot be reached or written."""
    return any(name.startswith(_UNREACHABLE) for name in lineage(thrown))


def is_damaged(thrown: Any) -> bool:
    """Whether a Java exception, or what caused it, says that a file does not hold what was written to it."""
    told = " ".join(_messages(thrown))
    return any(name in _DAMAGED for name in lineage(thrown)) or any(words in told for words in _DAMAGED_IN_WORDS)


def damage(thrown: Any) -> str:
    """Which file is damaged, how that was noticed, and what to do about it."""
    return (
        f"{file_told(thrown)} is cut off or changed ({reason(thrown)}). Put it back from a backup; of a commit that was"
        " never published, because its writer died, remove the commit's file: the next run makes the epoch anew"
    )


def unreachable(place: str, thrown: Any) -> str:
    """That a place cannot be reached or written, why, and what to look at."""
    return f"{place} cannot be reached or written: {reason(thrown)}; look at the disk and its free space, or the store"


def reason(thrown: Any) -> str:
    """What is at the bottom of a Java exception, on one line."""
    return _messages(thrown)[-1]


def file_told(thrown: Any) -> str:
    """The file that a Java exception is about, as near to its cause as one is named."""
    return next((found[0] for told in reversed(_messages(thrown)) if (found := _FILE.search(told))), "a file")


def thrown_by(error: Exception) -> Any:
    """The Java exception behind a Python one; None if there is none."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return error._origin if isinstance(error, CapturedException) else None


def lineage(thrown: Any) -> Iterator[str]:
    """The classes of a Java exception and of what caused it, each with what it extends."""
    for each in _causes(thrown):
        kind = each.getClass()
        while kind is not None:
            yield str(kind.getName())
            kind = kind.getSuperclass()


def _messages(thrown: Any) -> list[str]:
    """What a Java exception and its causes say, outermost first: the first line of each that says anything."""
    told = (str(each.getMessage() or "").split("\n", 1)[0] for each in _causes(thrown))
    return [line for line in told if line] or ["no reason is given"]


def _causes(thrown: Any) -> Iterator[Any]:
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()
