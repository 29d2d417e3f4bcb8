"""A Spark session of Headwater's own, next to the one of the user's program.

Both share the Spark application, its jars and its cache. In Headwater's session, all settings that results may depend
on have Headwater's own values. The program's session is left as it is.

The frame's session is not all that counts: Spark's expressions (a cast, a sum) and Delta's log take their settings from
the active session of the thread. So Headwater's session is made the active one while Headwater works; afterwards the
previous one is active again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import getmembers, isfunction, isgeneratorfunction, unwrap
from pathlib import Path
from threading import local
from typing import Any, TypeVar

from pyspark import SparkContext
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql.session import _monkey_patch_RDD

from ...domain.errors import ConfigError
from .jvm import java_class
from .lost_jvm import explain_lost_jvm
from .settings import FIXED, check_settings, may_change_answers
from .start_settings import is_same

_log = logging.getLogger(__name__)
_here = local()
_CATALOG = "spark.sql.catalog.spark_catalog"
_LISTS = ("spark.jars.packages", "spark.sql.extensions")
_FOLDER = "spark.sql.warehouse.dir"
_BETWEEN = "\x1e"
_T = TypeVar("_T")


def running_session() -> SparkSession | None:
    """The session of the program: the one active in this thread, else the one that Spark was started with."""
    if SparkContext._active_spark_context is None:
        return None
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def own_session(
    program: SparkSession, settings: Mapping[str, str], defaults: Mapping[str, str] | None = None
) -> SparkSession:
    """A new session on the same Spark application, whose results do not depend on the program's settings.

    Args:
        program: the program's session; it is left as it is.
        settings: the user's Spark settings for Headwater. A warning names settings that take effect only when Spark
            starts and that differ from the running application.
        defaults: the settings of the table format; settings of the program or the user take precedence.

    Raises:
        ConfigError: a setting would change results, or its value is invalid.
    """
    check_settings(settings)
    own = program.newSession()
    _monkey_patch_RDD(program)  # a new session makes itself the one that `RDD.toDF` uses
    theirs, there = _settings(program), _settings(own)
    wanted = {name: value for name, value in theirs.items() if not may_change_answers(name)}
    for name in there.keys() - wanted.keys() - FIXED.keys():
        _change(own.conf.unset, name)
        del there[name]
    wanted |= {name: value for name, value in (defaults or {}).items() if name not in theirs or name == _CATALOG}
    for name, value in {**wanted, **settings, **FIXED}.items():
        if there.get(name) != value and _is_of_a_session(name) and _change(own.conf.set, name, value):
            there[name] = value
    _warn_if_late(settings, there)
    return own


@contextmanager
def working_in(own: SparkSession, program: SparkSession | None = None) -> Iterator[None]:
    """Make Headwater's session the active one of this thread; afterwards the previous one is active again.

    Args:
        own: Headwater's session.
        program: the program's, which `SparkSession.getActiveSession` gives again afterwards.

    Raises:
        EngineLost: the JVM has ended meanwhile.
    """
    if getattr(_here, "session", None) is own:
        yield
        return
    with explain_lost_jvm(), _active(own, program):
        yield


@contextmanager
def _active(own: SparkSession, program: SparkSession | None) -> Iterator[None]:
    """See `working_in`; another session is active."""
    outer = getattr(_here, "session", None)
    sessions = java_class(own, "org.apache.spark.sql.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(own._jsparkSession)
    _here.session = own
    try:
        yield
    finally:
        _here.session = outer
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
        if program is not None and SparkSession._activeSession is own:  # left by PySpark's own `createDataFrame`
            SparkSession._activeSession = program


def work_in_own_session(kind: type[_T]) -> type[_T]:
    """Make `session` active in every public method, also an inherited one, except generators, whose code runs later."""
    for name, member in getmembers(kind, isfunction):
        if not name.startswith("_") and not isgeneratorfunction(unwrap(member)):
            setattr(kind, name, _working(member))
    return kind


def _working(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def working(self: Any, *arguments: Any, **more: Any) -> Any:
        with working_in(self.session):
            return method(self, *arguments, **more)

    return working


def _settings(session: SparkSession) -> dict[str, str]:
    """All settings of a session, in one call into the JVM."""
    text = str(session._jsparkSession.conf().getAll().mkString(_BETWEEN))
    pairs = (each.partition(" -> ") for each in text.split(_BETWEEN) if each)
    return {name: value for name, _, value in pairs}


def _is_of_a_session(name: str) -> bool:
    """Whether a setting belongs to a session, not to the Spark application; some of these cannot be changed either."""
    return not name.startswith("spark.") or name.startswith(("spark.sql.", "spark.databricks.", "spark.hoodie."))


def _change(change: Callable[..., None], *arguments: str) -> bool:
    """Change a setting; False if Spark does not allow a change at run time.

    Raises:
        ConfigError: the value is invalid.
    """
    try:
        change(*arguments)
    except AnalysisException:
        return False
    except IllegalArgumentException as error:
        raise ConfigError(f"backend.spark: {' = '.join(arguments)}: {error}") from error
    return True


def _warn_if_late(settings: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Warn about settings that take effect only when Spark starts, and with which it was not started."""
    late = [
        f'"{name}" = {value!r} (it runs with {there.get(name, "none")!r})'
        for name, value in settings.items()
        if not _same(name, value, there.get(name))
    ]
    if late:
        _log.warning(
            "Spark was running already, and these settings of [backend.spark] take effect only when it starts; they are"
            " not applied: %s. Start your Spark session with them, or let Headwater start Spark",
            ", ".join(late),
        )


def _same(name: str, value: str, there: str | None) -> bool:
    if name in _LISTS:
        return {each.strip() for each in value.split(",")} <= {each.strip() for each in (there or "").split(",")}
    if name == _FOLDER and there is not None:
        return _path(value) == _path(there)
    return is_same(name, value, there)


def _path(folder: str) -> Path:
    """The path of a folder on this machine, before which Spark writes ``file:``."""
    return Path(folder.removeprefix("file:")).resolve()
