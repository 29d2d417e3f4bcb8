"""Commits to a table that is folded on read: they store the incoming rows and read nothing.

Each commit writes at most one row per key. The number of the commit is part of the record key. So each row of a key is
a separate record in Hudi, and the rows are ordered by arrival.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.table.change import Change, Matching
from ...domain.table.net_changes import net_changes
from ...domain.table.row_kind import ROW_KIND
from ...domain.table.spec import TableSpec
from ..spark.merge import one_row_per_key
from ..spark.schema import lazy
from .commit import CommitInput, Operation
from .names import SEQUENCE
from .read import TableVersion
from .rows import to_stored

_ARRIVALS = "_headwater_arrivals"


def append_change(change: Change, now: TableVersion, sequence: int) -> CommitInput:
    """The rows of a change that is not an overwrite; only its deletes need a look-up."""
    spec, number = now.spec, F.lit(sequence)
    merged = None if change.merge is None else one_row_per_key(change.merge, spec)
    parts = [to_stored(each.to_native(), spec, sequence=number) for each in (change.append, merged) if each is not None]
    if change.delete is not None:
        parts.append(as_deletes(now.arrived(Matching(change.delete.select(*spec.key))), spec))
    rows = reduce(DataFrame.union, parts) if parts else to_stored(now.nothing(), spec, sequence=number)
    return CommitInput(rows, Operation.UPSERT)


def as_deletes(arrived: DataFrame, spec: TableSpec) -> DataFrame:
    """Arrived rows, stored as deletes."""
    return to_stored(arrived, spec, deleted=F.lit(True), sequence=F.col(SEQUENCE))


def restore_arrivals(now: TableVersion, wanted: TableVersion) -> CommitInput:
    """The rows that restore an earlier version, as they arrived then."""
    key = (*now.spec.key, SEQUENCE)
    moves = net_changes(lazy(now.arrived()), lazy(wanted.arrived()), key).to_native().filter(F.col(ROW_KIND) != "-U")
    rows = to_stored(moves, now.spec, deleted=F.col(ROW_KIND) == "-D", sequence=F.col(SEQUENCE))
    return CommitInput(rows, Operation.UPSERT)


def refold(now: TableVersion) -> CommitInput:
    """The rows that leave one row per key: the folded row replaces the newest one, the others are deleted."""
    several = now.fold(now.arrived(), arrivals=_ARRIVALS).filter(F.size(_ARRIVALS) > 1)
    each = several.withColumn(_ARRIVALS, F.explode(_ARRIVALS))
    older = F.col(_ARRIVALS) != F.col(SEQUENCE)
    return CommitInput(to_stored(each, now.spec, deleted=older, sequence=F.col(_ARRIVALS)), Operation.UPSERT)
