"""Spark's and Hudi's exceptions as Headwater's."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ...domain.errors import BadInput, StoreUnavailable, TableDamaged
from ..spark.faults import damage, is_damaged, is_unreachable, lineage, thrown_by, unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEY = "org.apache.hudi.exception.HoodieKeyException"


@contextmanager
def translated(table: str, place: str) -> Iterator[None]:
    """Raise what the JVM raises as errors that name the table and the remedy."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        thrown = thrown_by(error)
        if _KEY in lineage(thrown) or _KEY in str(error):
            raise BadInput(f"table {table}: a key column is null in some rows; reject them before") from error
        if is_damaged(thrown):
            raise TableDamaged(f"table {table}: {damage(thrown)}") from error
        if is_unreachable(thrown):
            raise StoreUnavailable(f"table {table}: {unreachable(place, thrown)}") from error
        raise
