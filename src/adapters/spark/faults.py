"""What the JVM has thrown, behind the exceptions of PySpark and py4j."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNREACHABLE = ("java.io.", "java.lang.ClassNotFoundException", "java.nio.", "java.net.", "org.apache.hadoop.")


def is_unreachable(thrown: Any) -> bool:
    """Whether a Java exception, or what caused it, says that a place cannot be reached or written."""
    return any(name.startswith(_UNREACHABLE) for name in lineage(thrown))


def thrown_by(error: Exception) -> Any:
    """The Java exception behind a Python one; None if there is none."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return error._origin if isinstance(error, CapturedException) else None


def lineage(thrown: Any) -> Iterator[str]:
    """The classes of a Java exception and of what caused it, each with what it extends."""
    while thrown is not None:
        kind = thrown.getClass()
        while kind is not None:
            yield str(kind.getName())
            kind = kind.getSuperclass()
        thrown = thrown.getCause()
