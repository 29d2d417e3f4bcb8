"""Scala values from Python, for the few calls that Spark and its table formats offer no Python function for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


def jvm(session: SparkSession) -> Any:
    """The session's JVM, by whose attributes Java packages and classes are reached."""
    return session._jvm


def option(session: SparkSession, value: Any = None) -> Any:
    """``Some(value)``, or ``None`` of Scala for None."""
    return jvm(session).scala.Option.apply(value)


def sequence(session: SparkSession, items: Iterable[Any]) -> Any:
    """An immutable Scala list."""
    collected = jvm(session).java.util.ArrayList()
    for item in items:
        collected.add(item)
    return jvm(session).scala.collection.JavaConverters.asScalaBufferConverter(collected).asScala().toList()
