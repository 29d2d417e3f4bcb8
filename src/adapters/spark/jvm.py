"""Access to Java and Scala classes, for the few calls that Spark and its table formats do not offer in Python.

py4j looks a class up in the JVM at every use, package by package, and searches all jars for each package. For the plan
of a small epoch that took as long as running it. So classes are addressed by full name, and PySpark's own are cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_IMPORTED_BY_PYSPARK = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.api.python.SimplePythonFunction",
    "org.apache.spark.sql.SparkSession",
    "org.apache.spark.sql.SparkSession$",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
    "org.apache.spark.sql.functions",
)
"""PySpark asks for these by the class's own name."""
_ASKED_FOR_BY_PATH = (
    "org.apache.spark.SparkFiles",
    "org.apache.spark.sql.execution.python.UserDefinedPythonFunction",
    "org.apache.spark.sql.expressions.Window",
    "org.apache.spark.storage.StorageLevel",
    "org.apache.spark.util.Utils",
    "py4j.reflection.TypeUtil",
)


class _Remembering(JavaClass):  # type: ignore[misc]  # py4j is untyped
    """A class that looks up each static method only once."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        setattr(self, name, member)
        return member


def java_class(session: SparkSession, name: str) -> Any:
    """A Java class, by its full name: call it to construct, or call its static methods."""
    return _class(session.sparkContext._gateway._gateway_client, name)  # type: ignore[union-attr]


@cache
def _class(client: Any, name: str) -> Any:
    return _Remembering(name, client)


def remember_names(session: SparkSession) -> None:
    """Cache the classes with which PySpark builds plans, so that it does not look them up again and again."""
    for name in _IMPORTED_BY_PYSPARK:
        setattr(session._jvm, name.rpartition(".")[2], java_class(session, name))
    for name in _ASKED_FOR_BY_PATH:
        *packages, last = name.split(".")
        place: Any = session._jvm
        for package in packages:
            inner = getattr(place, package)
            setattr(place, package, inner)
            place = inner
        setattr(place, last, java_class(session, name))


def option(session: SparkSession, value: Any = None) -> Any:
    """``Some(value)``, or ``None`` of Scala for None."""
    return java_class(session, "scala.Option").apply(value)


def sequence(session: SparkSession, items: Iterable[Any]) -> Any:
    """An immutable Scala list."""
    collected = java_class(session, "java.util.ArrayList")()
    for item in items:
        collected.add(item)
    return java_class(session, "scala.collection.JavaConverters").asScalaBufferConverter(collected).asScala().toList()


def each_of(collection: Any) -> Iterator[Any]:
    """The items of a Java or Scala collection or stream."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()
