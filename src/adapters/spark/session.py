"""The Spark session: found or started, with settings that suit small epochs, and silent on standard output."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ...domain.errors import ConfigError, NotInstalled
from .java import java_home
from .jvm import remember_names
from .own_session import running_session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py4j.java_gateway import JavaGateway

KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7"
"""Spark's Kafka source and sink; the newest of the 3.5 line."""

_PACKAGES, _EXTENSIONS = "spark.jars.packages", "spark.sql.extensions"
_LOOPBACK = "127.0.0.1"


def open_session(
    settings: Mapping[str, str],
    *,
    packages: Sequence[str] = (),
    extensions: Sequence[str] = (),
    defaults: Mapping[str, str] | None = None,
    app_name: str = "headwater",
) -> SparkSession:
    """The running session, or a new one.

    Jars come through Spark's own Ivy from Maven Central, or from what ``spark.jars.ivySettings`` names; they are kept
    in ``~/.ivy2``. If Ivy says "download failed", look for the artifact under ``~/.m2/repository``: a folder that holds
    only its POM hides the jar, so delete that folder.

    Args:
        settings: the user's Spark settings; they win over all others.
        packages: Maven coordinates that the table format and the sources need.
        extensions: session extensions that they need.
        defaults: further settings that they want.
        app_name: shown by Spark's own tools.

    Raises:
        ConfigError: the running session was started without one of the extensions.
        NotInstalled: there is no Java 17, or Spark does not start.
    """
    if running := running_session():
        remember_names(running)
        return _fitting(running, extensions)
    wanted = _defaults() | dict(defaults or {}) | dict(settings)
    wanted[_PACKAGES] = _joined(packages, settings.get(_PACKAGES))
    wanted[_EXTENSIONS] = _joined(extensions, settings.get(_EXTENSIONS))
    conf = SparkConf().setAppName(app_name).setAll([(name, value) for name, value in wanted.items() if value])
    session = SparkSession(SparkContext(conf=conf, gateway=_left_gateway(extensions) or _gateway(conf)))
    remember_names(session)
    return session


def _defaults() -> dict[str, str]:
    cores = str(len(os.sched_getaffinity(0)))
    return {
        "spark.master": "local[*]",
        # A laptop's host name often resolves to an address that changes with the network, and nobody else may connect.
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.ui.enabled": "false",
        # The progress bar writes over log lines.
        "spark.ui.showConsoleProgress": "false",
        # Event times mean the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        # Times before the Gregorian calendar, and before 1900, are stored as they are, and in the type others read.
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.python.daemon.module": f"{__package__}.worker_daemon",
        # Spark's 200 tasks cost a small epoch more than its work.
        "spark.sql.shuffle.partitions": cores,
        # An epoch's frames are cached for a second or two: to squeeze them takes longer than to hold them.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # Every epoch has the same plans, so compiled code is worth keeping; the default keeps less than one epoch's.
        "spark.sql.codegen.cache.maxEntries": "2000",
    }


def _joined(ours: Sequence[str], theirs: str | None) -> str:
    listed = [*ours, *(theirs or "").split(",")]
    return ",".join(dict.fromkeys(each.strip() for each in listed if each.strip()))


def _gateway(conf: SparkConf) -> JavaGateway:
    os.environ["JAVA_HOME"] = java_home()
    # Python workers otherwise run the first python3 of the PATH, and miss this one's packages; PySpark asks no setting.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if str(conf.get("spark.driver.bindAddress")) == _LOOPBACK:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    try:
        # Ivy reports on standard output, which belongs to whoever reads ours: the JVM gets standard error for both.
        return launch_gateway(conf, popen_kwargs={"stdout": sys.__stderr__})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        raise NotInstalled(
            f"Spark did not start ({error}); its reason stands above, on standard error. Jars that cannot be had: check"
            " the network, and delete folders of them under ~/.m2/repository that hold no jar"
        ) from error


def _fitting(running: SparkSession, extensions: Sequence[str]) -> SparkSession:
    present = [each.strip() for each in (running.conf.get(_EXTENSIONS, "") or "").split(",")]
    if missing := [each for each in extensions if each not in present or not _is_loaded(each)]:
        raise _too_late("the Spark session that is running was", missing)
    return running


def _left_gateway(extensions: Sequence[str]) -> JavaGateway | None:
    """The JVM that a session of this process has left behind, as PySpark starts no second one; None if there is none.

    Raises:
        ConfigError: it was started without the jars of one of the extensions.
    """
    gateway: JavaGateway | None = SparkContext._gateway
    if gateway is not None and (missing := [each for each in extensions if not _is_loaded(each)]):
        raise _too_late("a Spark session ran in this Python process before; its Java process goes on, and was", missing)
    return gateway


def _is_loaded(name: str) -> bool:
    """Whether the JVM knows a class."""
    jvm: Any = SparkContext._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(name))


def _too_late(what: str, missing: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{what} started without {', '.join(missing)}, and jars and extensions cannot be added later, not even after"
        " the session is stopped: start a new Python process. There, let Headwater start Spark, or start the session"
        f" with {_PACKAGES} (the jars) and {_EXTENSIONS} (these names)"
    )
