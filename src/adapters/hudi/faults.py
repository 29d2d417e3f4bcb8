"""Spark's and Hudi's exceptions as Headwater's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...domain.errors import BadInput
from ..spark.faults import translating

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ...domain.errors import HeadwaterError
    from ..spark.faults import Fault

_KEY = "org.apache.hudi.exception.HoodieKeyException"


def translated(table: str, place: str) -> AbstractContextManager[None]:
    """Raise what the JVM raises as errors that name the table and the remedy."""

    def meant(fault: Fault) -> HeadwaterError | None:
        if _KEY in fault.lineage or _KEY in str(fault.error):
            return BadInput(f"table {table}: a key column is null in some rows; reject them before")
        return None

    return translating(table, place, meant)
