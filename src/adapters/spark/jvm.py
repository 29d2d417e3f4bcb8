"""Java and Scala from Python, for the few calls that Spark and its table formats offer no Python function for.

py4j asks the JVM for a class by name at every use, package by package, and each package is looked for as a class in
all jars. For the plan of a small epoch that took as long as running it; so names are given whole, and PySpark's own are
remembered.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

_ASKED_FOR_BY_PYSPARK = (
    ("functions", "org.apache.spark.sql.functions"),
    ("PythonUtils", "org.apache.spark.api.python.PythonUtils"),
    ("PythonSQLUtils", "org.apache.spark.sql.api.python.PythonSQLUtils"),
    ("SparkSession", "org.apache.spark.sql.SparkSession"),
    ("py4j.reflection.TypeUtil", "py4j.reflection.TypeUtil"),
    ("org.apache.spark.sql.expressions.Window", "org.apache.spark.sql.expressions.Window"),
)


class _Remembering(JavaClass):  # type: ignore[misc]  # py4j is untyped
    """A class whose static methods are asked for once each."""

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
    """Spare PySpark from asking the JVM again and again for the classes that plans are built with."""
    for path, name in _ASKED_FOR_BY_PYSPARK:
        *packages, last = path.split(".")
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
    """What a Java or Scala collection, or a stream, holds."""
    iterator = collection.iterator()
    while iterator.hasNext():
        yield iterator.next()
