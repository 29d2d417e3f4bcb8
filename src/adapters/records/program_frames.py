"""Frames that programs hand over. Imports no library of frames but narwhals, so that `import headwater` is quick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from typing import Any

import narwhals as nw
from attrs import frozen
from narwhals.exceptions import DuplicateError, NarwhalsError

from ...domain.errors import BadInput, ConfigError, first_line

WHAT = "the pushed frame"
_LARGEST = 2**63 - 1
"""A greater number is a mistake, after which each later frame would be skipped as a repeat."""


def is_of_spark(rows: Any) -> bool:
    """Whether a frame is one of Spark; the others are in memory."""
    return type(rows).__module__.startswith("pyspark.sql.")


def is_lazy(rows: Any) -> bool:
    """Whether a frame is computed again at each read."""
    return is_of_spark(rows) or _lazy_frame(rows) is not None


def _lazy_frame(rows: Any) -> nw.LazyFrame[Any] | None:
    try:
        frame = nw.from_native(rows, pass_through=True)
    except DuplicateError:  # it is refused when it is read
        return None
    return frame if isinstance(frame, nw.LazyFrame) else None


def collect(frame: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    """The rows of a lazy frame.

    Raises:
        BadInput: it cannot be computed.
    """
    try:
        return frame.collect("pyarrow")
    except NarwhalsError as error:
        raise BadInput(
            f"{WHAT} is lazy, and cannot be computed: {first_line(error)}; correct its query: collecting it before the"
            " push tells where it fails"
        ) from error


@contextmanager
def hold(rows: Any) -> Iterator[Any]:
    """A frame that has the same rows at each read inside: a lazy one is collected, and one of Spark is cached."""
    if not is_of_spark(rows):
        lazy = _lazy_frame(rows)
        yield rows if lazy is None else collect(lazy).to_native()
        return
    level = rows.storageLevel
    if level.useMemory or level.useDisk:  # the program caches it, and goes on to do so
        yield rows
        return
    rows.persist()  # in memory, and on disk what does not fit
    try:
        yield rows
    finally:
        rows.unpersist()


@frozen
class QueryBatch:
    """A batch of a query of Structured Streaming.

    Args:
        query: the id of the query, which is in its checkpoint.
        number: of the batch, as Spark counts it.
        planned: when Spark planned it, in milliseconds since 1970: a repeat has that of the first try. None if unknown.
    """

    query: str
    number: int
    planned: int | None


def query_batch(rows: Any) -> QueryBatch | None:
    """The batch whose function hands these rows over; None if none does, or it is unknown."""
    session = getattr(rows, "sparkSession", None) if is_of_spark(rows) else None
    names = ("sql.streaming.queryId", "streaming.sql.batchId")
    query, batch = map(session.sparkContext.getLocalProperty, names) if session else (None, None)
    return QueryBatch(query, int(batch), _planned(session, query, int(batch))) if query and batch else None


def _planned(session: Any, query: str, batch: int) -> int | None:
    """See `QueryBatch.planned`: the query's log of offsets has it. The function's session does not list its query."""
    running = session._jsparkSession.sharedState().activeStreamingQueries()  # noqa: SLF001 - the only way to the log
    logs = (each.offsetLog() for id_, each in running.items() if str(id_) == query)
    entries = (log.get(batch) for log in logs)
    return next((int(each.get().metadata().get().batchTimestampMs()) for each in entries if each.isDefined()), None)


def whole_number(number: Any) -> int:
    """The number of a frame as an `int`; texts would be ordered by their characters.

    Raises:
        ConfigError: it is not a whole number from 0 on, or greater than any that a counter reaches.
    """
    try:
        found = index(number)
    except TypeError:
        found = -1
    if not 0 <= found <= _LARGEST or isinstance(number, bool):
        raise ConfigError(
            f"the number of {WHAT} is {number!r}: give a whole number from 0 on, such as 8, and at most 2**63 - 1"
        )
    return found


def published_with_error(number: int, newest: int) -> ConfigError:
    """Refuses a push without a number after one that ended with an error although its frame is published."""
    return ConfigError(
        f"the push of frame {number} ended with an error, but the frame is published: it is unknown whether this push"
        f" is its repeat. To repeat frame {number}, push it with number={number}, which skips it. To push a new frame,"
        f" give number={newest + 1}"
    )
