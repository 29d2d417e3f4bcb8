"""Finds or starts the Spark session, with settings for small epochs, and silent on standard output."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext, SparkFiles
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from ...domain.errors import ClusterUnavailable, ConfigError, EngineLost, NotInstalled
from .errors import Fault
from .executors import follow_cores, wait_for_executors
from .hadoop_settings import leave_out_defaults
from .java import java_home
from .java_locale import UTF8_LOCALE, check_locale, has_utf8_names
from .jvm import remember_names
from .lost_jvm import expect_loss, explain_lost_jvm, forget_jvm
from .master import LOOPBACK, check_answers, is_local
from .own_session import running_session
from .settings import FIXED
from .start_settings import BIND_ADDRESS, EXTENSIONS, MASTER, PACKAGES, Wanted, given_before_launch
from .workers import choose_python, send_package

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7"
"""Spark's Kafka source and sink; the newest of the 3.5 line."""

_PARTITIONS = "spark.sql.shuffle.partitions"
_NEEDED = (
    "spark.sql.session.timeZone",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.datetime.java8API.enabled",
)
"""Those of the fixed settings that a program's session gets too, if it is started here."""
_log = logging.getLogger(__name__)


def open_session(
    settings: Mapping[str, str],
    *,
    packages: Sequence[str] = (),
    extensions: Sequence[str] = (),
    defaults: Mapping[str, str] | None = None,
) -> SparkSession:
    """The running session, or a new one.

    Spark's own Ivy downloads jars from Maven Central, or from the repositories in ``spark.jars.ivySettings``, into
    ``~/.ivy2``. If Ivy says "download failed", look for the artifact under ``~/.m2/repository``: a folder with only its
    POM hides the jar, so delete that folder.

    Args:
        settings: those of `[backend.spark]`. They have priority over spark-submit and ``PYSPARK_SUBMIT_ARGS``, these
            over spark-defaults.conf, and that over our own. Settings with which a JVM was started cannot be changed; a
            warning names them.
        packages: Maven coordinates that the table format and the sources need.
        extensions: session extensions that they need.
        defaults: further settings that they need.

    Raises:
        ConfigError: the running session was started without one of the extensions, or its JVM in a locale that changes
            results.
        NotInstalled: there is no Java 17, Spark does not start, or was submitted without the packages.
        ClusterUnavailable: the master does not answer, or no executor has come within a minute.
    """
    if running := running_session():
        check_locale(running.sparkContext._gateway)
        remember_names(running)
        send_package(running.sparkContext)
        return _check_extensions(running, extensions)
    wanted = Wanted(
        settings,
        {**_defaults(), **(defaults or {})},
        {name: FIXED[name] for name in _NEEDED},
        packages,
        extensions,
    )
    session = _start(wanted)
    remember_names(session)
    return session


def stop_session(session: SparkSession) -> None:
    """Stop a session that `open_session` has started, unless the program has stopped it.

    Spark deletes its jars then, but leaves them in the path of Python's modules, where the next import would fail. If
    the JVM has ended, nothing is raised: whatever needed it has said so.
    """
    if session.sparkContext._jsc is None:
        return
    try:
        with explain_lost_jvm():
            jars = SparkFiles.getRootDirectory()
            session.stop()
    except EngineLost:
        forget_jvm(session)
        return
    sys.path[:] = [each for each in sys.path if not each.startswith(jars)]


def chosen_names(session: SparkSession) -> set[str]:
    """The names of settings that were submitted or are in spark-defaults.conf; epochs do not change these."""
    return {name for name, _ in session.sparkContext.getConf().getAll()}


def _start(wanted: Wanted) -> SparkSession:
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    planned = wanted.over({} if submitted else given_before_launch())
    if not submitted:
        check_answers(planned[MASTER])
    gateway = _left_gateway(wanted.extensions) or _gateway(planned)
    check_locale(gateway)
    given = dict(SparkConf(_jvm=gateway.jvm).getAll())
    settings = wanted.over(given, is_launched=True)
    _warn_of(wanted.unused(given))
    if submitted:
        check_answers(settings[MASTER])
    _check_jars(gateway, wanted)
    settings = choose_python(settings) | settings
    session = SparkSession(_context(settings, gateway))
    try:
        wait_for_executors(session)
        if _PARTITIONS not in settings and (cores := follow_cores(session)):
            # Spark's 200 tasks cost a small epoch more than its work.
            session.conf.set(_PARTITIONS, cores)
        if is_local(settings[MASTER]):
            leave_out_defaults(session)
        send_package(session.sparkContext)
        expect_loss(session.sparkContext)
    except BaseException:
        stop_session(session)
        raise
    return session


def _defaults() -> dict[str, str]:
    return {
        MASTER: "local[*]",
        "spark.ui.enabled": "false",
        # The progress bar overwrites log lines.
        "spark.ui.showConsoleProgress": "false",
        # An epoch's frames are cached for a second or two: compressing them takes longer than it saves.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # Every epoch has the same plans, so compiled code is worth keeping; the default keeps less than one epoch's.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Plans of finished queries are kept as text, some of many MiB; the thousand of the default would fill the heap.
        "spark.sql.ui.retainedExecutions": "50",
    }


def _gateway(settings: Mapping[str, str]) -> JavaGateway:
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM, with its own Java
        return launch_gateway()  # type: ignore[no-untyped-call]
    os.environ["JAVA_HOME"] = java_home()
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    try:
        with _bound_to(settings.get(BIND_ADDRESS)), _with_utf8_names():
            # Ivy writes to standard output, which belongs to our caller: the JVM gets standard error for both.
            return launch_gateway(conf, popen_kwargs={"stdout": sys.__stderr__})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        raise NotInstalled(
            f"Spark did not start ({error}); the reason is above, on standard error. If jars are missing, check"
            " the network, and delete folders of them under ~/.m2/repository that hold no jar"
        ) from error


def _context(settings: Mapping[str, str], gateway: JavaGateway) -> SparkContext:
    try:
        return SparkContext(conf=SparkConf().setAll(list(settings.items())), gateway=gateway)
    except Py4JJavaError as error:
        if is_local(settings[MASTER]):
            raise
        reason = Fault.behind(error).reason
        raise ClusterUnavailable(f"Spark did not start with spark.master = {settings[MASTER]}: {reason}") from error


@contextmanager
def _bound_to(address: str | None) -> Iterator[None]:
    """A JVM that is launched in this block uses the loopback address, whatever the host's name resolves to."""
    if address != LOOPBACK or "SPARK_LOCAL_IP" in os.environ:
        yield
        return
    os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    try:
        yield
    finally:
        del os.environ["SPARK_LOCAL_IP"]


@contextmanager
def _with_utf8_names() -> Iterator[None]:
    """A JVM that is launched in this block has file names in UTF-8, as Python has them; Java follows the locale."""
    before = os.environ.get("LC_ALL")
    if has_utf8_names(os.environ):
        yield
        return
    os.environ["LC_ALL"] = UTF8_LOCALE
    try:
        yield
    finally:
        if before is None:
            del os.environ["LC_ALL"]
        else:
            os.environ["LC_ALL"] = before


def _warn_of(unused: Mapping[str, str]) -> None:
    for name, value in unused.items():
        _log.warning(
            "backend.spark: %s = %s is not used, as spark-submit has started the JVM with other settings. Give it to"
            " spark-submit, or in PYSPARK_SUBMIT_ARGS: --conf %s=%s",
            *(name, value) * 2,
        )


def _check_jars(gateway: JavaGateway, wanted: Wanted) -> None:
    """Check for the extensions' classes in a JVM that was launched with its own list of packages.

    Raises:
        NotInstalled: a class is missing.
    """
    loader = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for extension in wanted.extensions:
        try:
            loader.loadClass(extension)
        except Py4JJavaError as error:
            raise NotInstalled(
                f"Spark was started without {extension}: start it with --packages {','.join(wanted.packages)}, behind"
                " spark-submit or in PYSPARK_SUBMIT_ARGS, or with the same under spark.jars.packages in"
                " spark-defaults.conf"
            ) from error


def _check_extensions(running: SparkSession, extensions: Sequence[str]) -> SparkSession:
    present = [each.strip() for each in (running.conf.get(EXTENSIONS, "") or "").split(",")]
    if missing := [each for each in extensions if each not in present or not _is_loaded(each)]:
        raise _too_late("the Spark session that is running was", missing)
    return running


def _left_gateway(extensions: Sequence[str]) -> JavaGateway | None:
    """The JVM that an earlier session of this process left behind (PySpark starts no second one), or None.

    Raises:
        ConfigError: it was started without the jars of one of the extensions.
    """
    gateway: JavaGateway | None = SparkContext._gateway
    if gateway is not None and (missing := [each for each in extensions if not _is_loaded(each)]):
        raise _too_late("a Spark session ran in this Python process before; its JVM still runs, and was", missing)
    return gateway


def _is_loaded(name: str) -> bool:
    """Whether the JVM can load a class."""
    jvm: Any = SparkContext._jvm
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(name))


def _too_late(what: str, missing: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{what} started without {', '.join(missing)}, and jars and extensions cannot be added later, not even after"
        " the session is stopped: start a new Python process. There, let Headwater start Spark, or start the session"
        f" with {PACKAGES} (the jars) and {EXTENSIONS} (these names)"
    )
