"""Spark's and Delta's exceptions as Headwater's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ...domain.errors import EpochConflict, StoreUnavailable, TableDamaged
from ..spark.faults import damage, is_damaged, is_unreachable, reason, thrown_by, unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator


class Overtaken(StoreUnavailable):
    """A commit of another kind (upkeep, a new column) came in between: the same work may be tried again."""


_SAME_WRITER = "ConcurrentTransactionException"
_OVERTAKEN = ("Concurrent", "MetadataChangedException", "ProtocolChangedException")


@contextmanager
def translated(table: str, place: str) -> Iterator[None]:
    """Raise what the JVM raises as errors that name the table and the remedy."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        thrown = thrown_by(error)
        # Delta's own Python exceptions forget the Java one, but are named after it.
        kind = type(error).__name__ if thrown is None else str(thrown.getClass().getName())
        why = str(error) if thrown is None else reason(thrown)
        if kind.endswith(_SAME_WRITER):
            raise EpochConflict(
                f"table {table}: another run has committed in the meantime; nothing was changed. Let one run at a time"
                " write a pipeline"
            ) from error
        if any(word in kind for word in _OVERTAKEN):
            raise Overtaken(f"table {table}: overtaken by another commit ({why}); try again") from error
        if is_damaged(thrown):
            raise TableDamaged(f"table {table}: {damage(thrown)}") from error
        if is_unreachable(thrown):
            raise StoreUnavailable(f"table {table}: {unreachable(place, thrown)}") from error
        raise
