"""What the JVM has thrown, behind the exceptions of PySpark and py4j, and what it means."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import frozen
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from ...domain.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...domain.errors import HeadwaterError

_UNREACHABLE = ("java.io.", "java.lang.ClassNotFoundException", "java.nio.", "java.net.", "org.apache.hadoop.")


@frozen(eq=False)
class Fault:
    """An exception of the JVM, or of a Python library that speaks for it.

    Args:
        error: as Python has it.
        thrown: the Java exception; None where there is none.
    """

    error: Exception
    thrown: Any

    @classmethod
    def behind(cls, error: Exception) -> Fault:
        """The fault that an exception tells of."""
        if isinstance(error, Py4JJavaError):
            return cls(error, error.java_exception)
        return cls(error, error._origin if isinstance(error, CapturedException) else None)

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.error).__name__ if self.thrown is None else str(self.thrown.getClass().getName())

    @property
    def reason(self) -> str:
        """The first line of its message."""
        return str(self.error if self.thrown is None else self.thrown.getMessage()).split("\n", 1)[0]

    @property
    def is_unreachable(self) -> bool:
        """Whether it, or what caused it, says that a place cannot be reached or written."""
        return any(name.startswith(_UNREACHABLE) for name in self.lineage())

    def lineage(self) -> Iterator[str]:
        """The classes of the Java exception and of what caused it, each with what it extends."""
        thrown = self.thrown
        while thrown is not None:
            kind = thrown.getClass()
            while kind is not None:
                yield str(kind.getName())
                kind = kind.getSuperclass()
            thrown = thrown.getCause()


@contextmanager
def translating(table: str, place: str, meant: Callable[[Fault], HeadwaterError | None]) -> Iterator[None]:
    """Raise what the JVM raises as errors that name the table and the remedy.

    Args:
        table: which is worked on.
        place: where it is kept.
        meant: tells the error that a fault of the table format itself stands for; None if it knows of none.
    """
    try:
        yield
    except (Py4JError, PySparkException) as error:
        fault = Fault.behind(error)
        if (own := meant(fault)) is not None:
            raise own from error
        if fault.is_unreachable:
            raise StoreUnavailable(f"table {table}: {place} cannot be reached or written: {fault.reason}") from error
        raise
