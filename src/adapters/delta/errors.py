"""Translates exceptions of Spark and Delta into Headwater's errors."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ...domain.errors import EpochConflict, HeadwaterError, StoreUnavailable
from ..spark.errors import Fault, translate_faults


class CommitConflict(StoreUnavailable):
    """A concurrent commit of another kind (compaction, a new column) came first; the commit may be tried again."""


_SAME_WRITER = "ConcurrentTransactionException"
_OVERTAKEN = ("Concurrent", "MetadataChangedException", "ProtocolChangedException")


def translate_errors(table: str, place: str) -> AbstractContextManager[None]:
    """Translate exceptions of the JVM into errors that name the table and the remedy."""

    def interpret(fault: Fault) -> HeadwaterError | None:
        kind = fault.kind  # Delta's Python exceptions drop the Java exception, but have its name
        if kind.endswith(_SAME_WRITER):
            return EpochConflict(
                f"table {table}: another run has committed in the meantime; nothing was changed. Let one run at a time"
                " write a pipeline"
            )
        if any(word in kind for word in _OVERTAKEN):
            return CommitConflict(f"table {table}: overtaken by another commit ({fault.reason}); try again")
        return None

    return translate_faults(table, place, interpret)
