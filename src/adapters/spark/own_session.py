"""A Spark session of Headwater's own, beside the one of the user's program.

Both share the Spark application, its jars and its cache. The settings that an answer may depend on are Headwater's own
here, whatever they are in the program's session, which is left as it is.

Not only a frame's session counts: Spark's expressions (a cast, a sum) and Delta's log take their settings from the
session that is active in the thread. So Headwater's is made active while Headwater works, and the one before it again
afterwards.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import wraps
from inspect import isfunction, isgeneratorfunction, unwrap
from threading import local
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import SparkContext
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql.session import _monkey_patch_RDD

from ...domain.errors import ConfigError
from .jvm import java_class
from .settings import FIXED, check_settings, may_change_answers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_log = logging.getLogger(__name__)
_here = local()
_CATALOG = "spark.sql.catalog.spark_catalog"
_LISTS = ("spark.jars.packages", "spark.sql.extensions")
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
    """A new session on the same Spark application, in which answers do not depend on the program's settings.

    Args:
        program: the program's session; it is left as it is.
        settings: the user's Spark settings for Headwater. What takes effect only when Spark starts, and differs from
            the application that is running, is told in a warning.
        defaults: what the table format wants; what the program or the user has set comes first.

    Raises:
        ConfigError: a setting would change answers, or has no such value.
    """
    check_settings(settings)
    own = program.newSession()
    _monkey_patch_RDD(program)  # a new session makes itself the one that `RDD.toDF` works in
    theirs, there = _settings(program), _settings(own)
    wanted = {name: value for name, value in theirs.items() if not may_change_answers(name)}
    for name in there.keys() - wanted.keys() - FIXED.keys():
        _changed(own.conf.unset, name)
        del there[name]
    wanted |= {name: value for name, value in (defaults or {}).items() if name not in theirs or name == _CATALOG}
    for name, value in {**wanted, **settings, **FIXED}.items():
        if there.get(name) != value and _is_of_a_session(name) and _changed(own.conf.set, name, value):
            there[name] = value
    _warn_of_late(settings, there)
    return own


@contextmanager
def working_in(own: SparkSession, program: SparkSession | None = None) -> Iterator[None]:
    """Make Headwater's session the active one of this thread, and the one before it again afterwards.

    Args:
        own: Headwater's session.
        program: the program's, which `SparkSession.getActiveSession` gives again afterwards.
    """
    outer = getattr(_here, "session", None)
    if outer is own:
        yield
        return
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
        if program is not None and SparkSession._activeSession is own:  # PySpark's own `createDataFrame` leaves it
            SparkSession._activeSession = program


def work_in_own_session(kind: type[_T]) -> type[_T]:
    """Make `session` the active one in every public method of a class; what a generator does comes later, outside."""
    for name, member in list(vars(kind).items()):
        if isfunction(member) and not name.startswith("_") and not isgeneratorfunction(unwrap(member)):
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
    """Whether a setting is one of a session, not of the Spark application; some of these cannot be changed either."""
    return not name.startswith("spark.") or name.startswith(("spark.sql.", "spark.databricks.", "spark.hoodie."))


def _changed(change: Callable[..., None], *arguments: str) -> bool:
    """Change a setting; False if Spark lets nobody change it once it runs.

    Raises:
        ConfigError: the setting has no such value.
    """
    try:
        change(*arguments)
    except AnalysisException:
        return False
    except IllegalArgumentException as error:
        raise ConfigError(f"backend.spark: {' = '.join(arguments)}: {error}") from error
    return True


def _warn_of_late(settings: Mapping[str, str], there: Mapping[str, str]) -> None:
    """Tell which settings take effect only when Spark starts, which it has done with other values."""
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
    return value == there
