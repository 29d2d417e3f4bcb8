"""The errors that Headwater raises. Each is a `HeadwaterError` and a matching builtin, and its message has a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager


class HeadwaterError(Exception):
    """Root of all errors raised on purpose."""


_NAMED = 3
_HINT = re.compile(r",? \(set [A-Z_]+=1[^)]*\)")


def name_some(names: Sequence[str]) -> str:
    """The first three names, for a message.

    >>> name_some(["a", "b"]), name_some(["a", "b", "c", "d"])
    ('a, b', 'a, b, c …')
    """
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")


def first_line(error: Exception) -> str:
    """What an error says, without the inside of a library, and without its hint at a variable to set.

    >>> first_line(OSError("no such file: a.csv (set POLARS_VERBOSE=1 to see full path)"))
    'no such file: a.csv'
    """
    return _HINT.sub("", str(error).partition("\n")[0])


@contextmanager
def prefix_errors(place: str) -> Iterator[None]:
    """Add a place to the front of the message of each `ConfigError`."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place}: {error}") from error


@contextmanager
def add_place(place: str) -> Iterator[None]:
    """Add the place in the configuration as a note to errors raised inside, unless they have a note already."""
    try:
        yield
    except HeadwaterError as error:
        if place and not getattr(error, "__notes__", None):
            error.add_note(place)
        raise


def with_place(error: HeadwaterError) -> str:
    """The message of an error, after the place that `add_place` has noted."""
    return ": ".join([*getattr(error, "__notes__", ()), str(error)])


def describe_error(error: BaseException) -> str:
    """What has ended a run, for a message: the error with its place, or with its type if it was not raised on purpose.

    >>> describe_error(ConfigError("no topic")), describe_error(KeyError("topic"))
    ('no topic', "KeyError: 'topic'")
    """
    return with_place(error) if isinstance(error, HeadwaterError) else f"{type(error).__name__}: {error}"


class Transient(HeadwaterError):
    """Mix-in for temporary faults: the same call may succeed later, so the runner retries it."""


class ConfigError(HeadwaterError, ValueError):
    """The deployment's configuration cannot be used; the message names the place and what is allowed."""


class NotInstalled(HeadwaterError, ImportError):
    """A backend or source needs a package that is not installed; the message names the extra to install."""


class NotSupported(HeadwaterError, NotImplementedError):
    """This backend does not support a part of a port; backends declare such gaps."""

    def __init__(self, port: str, backend: str, remedy: str) -> None:
        super().__init__(f"{backend} does not support {port}: {remedy}")
        self.port = port
        self.backend = backend


class EngineLimit(HeadwaterError, RuntimeError):
    """The work is beyond this engine, and another engine may do it. Nothing was published.

    Args:
        why: the reason.
        lasting: whether the engine cannot do such work at all; else there is only too much of it this time.
    """

    def __init__(self, why: str, *, lasting: bool = False) -> None:
        super().__init__(why)
        self.lasting = lasting


class BadInput(HeadwaterError, ValueError):
    """The input cannot be read as declared (a file lacks a declared column, for example)."""


class SumOverflow(HeadwaterError, OverflowError):
    """A sum does not fit into its column; the message names the measure or column, and the group."""


class SchemaConflict(HeadwaterError, TypeError):
    """A stored table and the declared one differ by more than new columns."""


class EpochConflict(HeadwaterError, RuntimeError):
    """Another writer has committed to this pipeline; this one stops before it changes anything."""


class PipelineRebuilt(HeadwaterError, RuntimeError):
    """The pipeline has been rebuilt since this process opened its tables; a new process opens the new ones."""


class UnfinishedMove(HeadwaterError, RuntimeError):
    """A `headwater move` to these tables has begun and not ended, so rows of the pipeline may be missing."""


class VersionNotFound(HeadwaterError, LookupError):
    """The requested version never existed."""


class VersionExpired(HeadwaterError, LookupError):
    """The requested version existed and has expired."""


class RetentionTooShort(HeadwaterError, LookupError):
    """A query may take longer than its version is guaranteed to be kept."""


class WaitTimeout(HeadwaterError, TimeoutError):
    """The awaited watermark was not reached in time."""


class LeaseNotFound(HeadwaterError, LookupError):
    """There is no lease of that name: it never existed, was released, or has ended and been deleted."""


class StoreUnavailable(Transient, ConnectionError):
    """The table store cannot be reached or written at present."""


class TableDamaged(HeadwaterError, RuntimeError):
    """A file of a table or of its log is truncated, changed or lost; or another program has changed its rows."""


class ClusterUnavailable(Transient, ConnectionError):
    """The compute cluster cannot be reached, or has no free resources at present."""


class EngineLost(HeadwaterError, RuntimeError):
    """The engine's own process has ended (Spark's JVM was killed, for example); a new run starts another one."""


class SourceUnavailable(Transient, ConnectionError):
    """The source cannot be reached at present (a broker is down, for example)."""


class SinkUnavailable(Transient, ConnectionError):
    """The sink cannot be reached or written at present; missing epochs are published later."""


class SinkChanged(HeadwaterError, RuntimeError):
    """The sink cannot be continued.

    Its records do not come from these tables, or were written with other settings; the tables no longer have the epochs
    that it lacks; or partitions were added to its topic.
    """


class SourceChanged(HeadwaterError, RuntimeError):
    """The source no longer holds the records read before, so continuing would lose or repeat rows."""


def find_similar(word: str, known: Iterable[str]) -> str | None:
    """Return the most similar known word, for a message; None if none is similar.

    A word that differs only in case, or in blanks around it, is the most similar one, however short it is.

    >>> find_similar("id", ["od", " ID"]), find_similar("amuont", ["amount"]), find_similar("x", ["y"])
    (' ID', 'amount', None)
    """
    from difflib import get_close_matches  # imported only for an error

    words, folded = list(known), word.strip().casefold()
    same = (each for each in words if each.strip().casefold() == folded)
    return next(same, None) or next(iter(get_close_matches(word, words, n=1)), None)


def did_you_mean(given: object, allowed: Iterable[object]) -> str:
    """Return the end of a message: the most similar allowed word, if any, else an empty text."""
    near = find_similar(str(given), map(str, allowed))
    return "" if near is None else f"; did you mean {near!r}?"
