"""Notices that Spark's JVM has ended, which Py4J tells in several ways."""

from __future__ import annotations

import logging
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ...domain.errors import EngineLost, HeadwaterError

_LOST_COMMAND = "Exception while sending command."
_TRIES, _PAUSE = 5, 0.1
"""A process that ends closes its ports one by one, so look several times, with a pause (in seconds)."""


@contextmanager
def explain_lost_jvm() -> Iterator[None]:
    """Translate errors of Py4J into one that names the remedy, if the JVM has ended.

    Raises:
        EngineLost: it has.
    """
    try:
        yield
    except (Py4JError, ConnectionError) as error:
        if isinstance(error, (Py4JJavaError, HeadwaterError)) or not _has_ended():
            raise
        raise EngineLost(
            "Spark's JVM has ended: it was killed, or it crashed. If the output above has `OutOfMemoryError: Java heap"
            " space`, its heap was too small: raise spark.driver.memory under [backend.spark], or lower local_mb under"
            " [backend] if the engine is auto. Else, if the machine ran out of memory, its kernel log says so (`dmesg`,"
            " or `journalctl -k`): lower spark.driver.memory, or free memory. Nothing is lost: start the command again,"
            " and it continues after the newest publication"
        ) from error


def forget_jvm(session: SparkSession) -> None:
    """Forget a JVM that has ended, so that the next session of this process starts another one."""
    context = session.sparkContext
    context._jsc = None  # PySpark would ask it to stop
    context.stop()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def expect_loss(context: SparkContext) -> None:
    """Keep PySpark and Py4J from printing tracebacks when the JVM ends: `explain_lost_jvm` says what is to be known."""
    logging.getLogger().addFilter(_is_no_lost_command)  # Py4J logs to the root logger
    server: Any = context._accumulatorServer
    if server is not None:
        report = server.handle_error
        server.handle_error = lambda *request: None if isinstance(sys.exc_info()[1], EOFError) else report(*request)


def _is_no_lost_command(record: logging.LogRecord) -> bool:
    """Whether a record is another one than Py4J's of a command that got no answer; the command raises an error too."""
    return record.msg != _LOST_COMMAND or not (record.exc_info and isinstance(record.exc_info[1], Py4JNetworkError))


def _has_ended() -> bool:
    """Whether nothing listens at the port of the JVM any more."""
    if (gateway := SparkContext._gateway) is None:
        return False
    place = (gateway.gateway_parameters.address, gateway.gateway_parameters.port)
    for _ in range(_TRIES):
        try:
            socket.create_connection(place, timeout=1).close()
        except OSError:
            return True
        time.sleep(_PAUSE)
    return False
