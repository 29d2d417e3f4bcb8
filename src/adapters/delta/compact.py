"""How the rows of compacted partitions are rewritten."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ...domain.table.change import Matching
from ...domain.table.spec import TableSpec
from ..spark.schema import named, typed
from .actions import DataFile
from .compaction_policy import CompactionPolicy, total_bytes
from .read import TableVersion
from .stored import APPENDED, OPERATION, has_log, stored_schema


def compact_files(reading: TableVersion, files: list[DataFile], policy: CompactionPolicy) -> DataFrame:
    """The folded rows of whole partitions, sorted by key into few files. Rows keep their newest `_sequence`."""
    rows = reading.folded(files, Matching())
    if has_log(reading.spec):
        rows = rows.withColumn(OPERATION, F.lit(APPENDED))
    rows = typed(rows, stored_schema(reading.spec))
    return repartition(rows, reading.spec, -(-total_bytes(files) // policy.target_bytes))


def repartition(rows: DataFrame, spec: TableSpec, parts: int) -> DataFrame:
    """Repartition rows by key into `parts` Spark partitions (at least one), each sorted by key."""
    order = [named(name) for name in (*spec.partition_by, *spec.key)]
    if not order:
        return rows.coalesce(max(1, parts))
    return rows.repartitionByRange(max(1, parts), *order).sortWithinPartitions(*order)
