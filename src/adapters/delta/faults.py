"""Spark's and Delta's exceptions as Headwater's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...domain.errors import EpochConflict, StoreUnavailable
from ..spark.faults import translating

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ...domain.errors import HeadwaterError
    from ..spark.faults import Fault


class Overtaken(StoreUnavailable):
    """A commit of another kind (upkeep, a new column) came in between: the same work may be tried again."""


_SAME_WRITER = "ConcurrentTransactionException"
_OVERTAKEN = ("Concurrent", "MetadataChangedException", "ProtocolChangedException")


def translated(table: str, place: str) -> AbstractContextManager[None]:
    """Raise what the JVM raises as errors that name the table and the remedy."""

    def meant(fault: Fault) -> HeadwaterError | None:
        kind = fault.kind  # Delta's own Python exceptions forget the Java one, but are named after it
        if kind.endswith(_SAME_WRITER):
            return EpochConflict(
                f"table {table}: another run has committed in the meantime; nothing was changed. Let one run at a time"
                " write a pipeline"
            )
        if any(word in kind for word in _OVERTAKEN):
            return Overtaken(f"table {table}: overtaken by another commit ({fault.reason}); try again")
        return None

    return translating(table, place, meant)
