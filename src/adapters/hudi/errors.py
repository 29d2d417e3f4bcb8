"""Translates exceptions of Spark and Hudi into Headwater's errors."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ...domain.errors import BadInput, HeadwaterError, SchemaConflict
from ..spark.errors import Fault, translate_faults

_KEY = "org.apache.hudi.exception.HoodieKeyException"
_LACKS_COLUMN = "org.apache.hudi.exception.MissingSchemaFieldException"


def translate_errors(table: str, place: str) -> AbstractContextManager[None]:
    """Translate exceptions of the JVM into errors that name the table and the remedy."""

    def interpret(fault: Fault) -> HeadwaterError | None:
        if _KEY in fault.lineage or _KEY in str(fault.error):
            return null_key(table)
        if _LACKS_COLUMN in fault.lineage:
            return SchemaConflict(
                f"table {table} has columns that this process does not know ({fault.reason}): another one has added"
                " them; start this one again, with the configuration of the other"
            )
        return None

    return translate_faults(table, place, interpret)


def null_key(table: str) -> BadInput:
    """The error about rows without a key."""
    return BadInput(f"table {table}: a key column is null in some rows; reject them before")
