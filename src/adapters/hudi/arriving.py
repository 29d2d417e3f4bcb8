"""Commits to a table that folds its rows when it is read: they store what comes, and read nothing.

At most one row a key comes with each commit, so the commit's number, which is a part of the record key, tells the rows
of a key apart and orders them by their arrival. Each of them is a record of its own to Hudi.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.change import Matching
from ...domain.changelog.net import net_changes
from ...domain.epoch import ROW_KIND
from ..spark.merging import one_a_key
from ..spark.schema import lazy
from .names import SEQUENCE
from .rows import stored
from .writing import Operation, Written

if TYPE_CHECKING:
    from ...domain.change import Change
    from ...domain.table import TableSpec
    from .reading import Reading

_ARRIVALS = "_arrivals"


def arriving(change: Change, now: Reading, sequence: int) -> Written:
    """The rows of a change that does not overwrite; what it deletes is looked up."""
    spec, number = now.spec, F.lit(sequence)
    merged = None if change.merge is None else one_a_key(change.merge, spec)
    parts = [stored(each.to_native(), spec, sequence=number) for each in (change.append, merged) if each is not None]
    if change.delete is not None:
        parts.append(gone(now.arrived(Matching(change.delete.select(*spec.key))), spec))
    rows = reduce(DataFrame.union, parts) if parts else stored(now.nothing(), spec, sequence=number)
    return Written(rows, Operation.UPSERT)


def gone(arrived: DataFrame, spec: TableSpec) -> DataFrame:
    """Rows as they came, stored as deletes."""
    return stored(arrived, spec, deleted=F.lit(True), sequence=F.col(SEQUENCE))


def rearranged(now: Reading, wanted: Reading) -> Written:
    """The rows that bring an earlier version back, as they came then."""
    key = (*now.spec.key, SEQUENCE)
    moves = net_changes(lazy(now.arrived()), lazy(wanted.arrived()), key).to_native().filter(F.col(ROW_KIND) != "-U")
    rows = stored(moves, now.spec, deleted=F.col(ROW_KIND) == "-D", sequence=F.col(SEQUENCE))
    return Written(rows, Operation.UPSERT)


def refolded(now: Reading) -> Written:
    """The rows that leave one row a key: the folded one in the place of the newest, and deletes of the others."""
    several = now.fold(now.arrived(), arrivals=_ARRIVALS).filter(F.size(_ARRIVALS) > 1)
    each = several.withColumn(_ARRIVALS, F.explode(_ARRIVALS))
    older = F.col(_ARRIVALS) != F.col(SEQUENCE)
    return Written(stored(each, now.spec, deleted=older, sequence=F.col(_ARRIVALS)), Operation.UPSERT)
