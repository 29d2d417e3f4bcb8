"""How the rows of compacted files are rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.table.change import Matching
from ...domain.table.spec import TableSpec
from ..spark.schema import named, typed
from .actions import total_bytes
from .compaction_policy import Rewrite, files_of
from .read import TableVersion
from .rows import keep_newest
from .stored import APPENDED, OPERATION, has_log, stored_schema


def compact_files(reading: TableVersion, rewrites: Sequence[Rewrite], file_bytes: int) -> DataFrame:
    """The rows of files, folded and sorted by key into few files. Rows keep their newest `_sequence`."""
    by_whole = {is_whole: [each for each in rewrites if each.whole is is_whole] for is_whole in (True, False)}
    rows = [_compacted(reading, found, is_whole=is_whole) for is_whole, found in by_whole.items() if found]
    return repartition(reduce(DataFrame.union, rows), reading.spec, -(-total_bytes(files_of(rewrites)) // file_bytes))


def _compacted(reading: TableVersion, rewrites: list[Rewrite], *, is_whole: bool) -> DataFrame:
    spec, files = reading.spec, files_of(rewrites)
    if has_log(spec) and not is_whole:
        # Of other tables a row in between may be in another file, or some rows add up to more than all of them.
        rows = keep_newest(reading.stored(files), spec) if spec.newest_counts else reading.stored(files)
    else:
        rows = reading.folded(files, Matching())
        rows = rows.withColumn(OPERATION, F.lit(APPENDED)) if has_log(spec) else rows
    return typed(rows, stored_schema(spec))


def repartition(rows: DataFrame, spec: TableSpec, parts: int) -> DataFrame:
    """Repartition rows by key into `parts` Spark partitions (at least one), each sorted by key."""
    order = [named(name) for name in (*spec.partition_by, *spec.key)]
    if not order:
        return rows.coalesce(max(1, parts))
    return rows.repartitionByRange(max(1, parts), *order).sortWithinPartitions(*order)
