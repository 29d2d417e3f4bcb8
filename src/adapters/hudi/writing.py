"""One commit through Hudi's own writer, and the settings that make a small one cheap."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from attrs import frozen

from ..spark.size import fits_one_task
from .definition import TableType
from .names import KEY, PARTITION, SEQUENCE
from .timeline import COLUMNS, METADATA_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from ...domain.schema import Schema
    from .definition import Definition

_UPKEEP_ON_REQUEST = {
    # `compact` does it, between epochs; inline it would be part of one now and then.
    "hoodie.compact.inline": "false",
    "hoodie.clustering.inline": "false",
    # Files are put together under the lock of commits, so a plan that is met there is a dead process's: it is dropped.
    "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy",
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
    # A version stays readable until it is expired on purpose.
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
_SMALL_COMMITS = {
    # Hudi's table about the table is a second commit with each commit; the folders are listed in less time.
    "hoodie.metadata.enable": "false",
    # Neither are there executors enough to spare the storage from their questions.
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    # Keys stand once in what is written: changes are folded before.
    "hoodie.combine.before.insert": "false",
    "hoodie.combine.before.upsert": "false",
    # Instants are made under the table's lock, one after the other, so no clock has to be waited for.
    "hoodie.time.generator.max_expected_clock_skew_ms": "1",
}
_CLUSTERING = "org.apache.hudi.client.clustering"
_RESIZED_BUCKETS = {
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.min.num.buckets": "1",
    "hoodie.bucket.index.max.num.buckets": "65536",
    "hoodie.clustering.plan.strategy.class": f"{_CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy",
    "hoodie.clustering.execution.strategy.class": (
        f"{_CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
    ),
}


# Columns that came with an earlier version may be missing from this one.
_OTHER_COLUMNS = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}


class Operation(Enum):
    """What is done with the rows given: Hudi's word for it, and whether few of them are brought together first."""

    UPSERT = "upsert", True
    ADD = "bulk_insert", True
    LOAD = "bulk_insert", False
    OVERWRITE = "insert_overwrite_table", True

    def __init__(self, word: str, gathered: bool) -> None:  # noqa: FBT001 - an Enum's values come by position
        self.word = word
        self.gathered = gathered


@frozen(eq=False)
class Written:
    """What a commit writes.

    Args:
        rows: as they are stored.
        operation: what is done with them.
        columns: that the table has from now on, where each version has its own.
    """

    rows: DataFrame
    operation: Operation
    columns: Schema | None = None


def write(written: Written, path: str, definition: Definition, metadata: Mapping[str, str]) -> None:
    """Commit stored rows, with metadata in the commit whose names begin with `METADATA_PREFIX`."""
    rows = written.rows
    few = rows.coalesce(1) if written.operation.gathered and fits_one_task(rows) else rows
    settings = table_settings(definition) | {"hoodie.datasource.write.operation": written.operation.word, **metadata}
    if written.columns is not None:
        settings |= _OTHER_COLUMNS | {COLUMNS: written.columns.ddl}
    few.write.format("hudi").options(**settings).mode("append").save(path)


def table_settings(definition: Definition) -> dict[str, str]:
    """The settings of every write to a table."""
    spec = definition.spec
    settings = _UPKEEP_ON_REQUEST | _SMALL_COMMITS
    settings |= {
        "hoodie.table.name": definition.hudi_name,
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.datasource.write.table.type": definition.table_type.value,
        "hoodie.datasource.write.commitmeta.key.prefix": METADATA_PREFIX,
        # The later commit stands: commits are fenced, so their order is the order of the epochs.
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{_key_generator(definition)}",
    }
    if spec.partition_by:
        settings["hoodie.datasource.write.partitionpath.field"] = PARTITION
    if spec.key:
        record_key = f"{KEY},{SEQUENCE}" if definition.folded else KEY
        settings |= {"hoodie.datasource.write.recordkey.field": record_key} | _index(definition)
    return settings


def _key_generator(definition: Definition) -> str:
    return "SimpleKeyGenerator" if definition.spec.partition_by else "NonpartitionedKeyGenerator"


def by_key(definition: Definition) -> dict[str, str] | None:
    """The settings by which a read finds the files of a few keys; None where it cannot be told from the key."""
    if definition.table_type is TableType.COPY_ON_WRITE:
        return None
    if definition.resized or definition.spec.partition_by:  # of these Hudi's reader only looks for keys inside files
        return {}
    return _index(definition) | {"hoodie.enable.data.skipping": "true"}


def _index(definition: Definition) -> dict[str, str]:
    """How the file of a key is found: by its hash on merge-on-read, where a write then costs its rows alone.

    A copy-on-write table writes whole files again whatever the index is; the keys of the partitions that are touched
    are looked up, and so its files can grow to their size.
    """
    if definition.table_type is TableType.COPY_ON_WRITE:
        return {"hoodie.index.type": "SIMPLE"}
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(definition.buckets),
        "hoodie.bucket.index.hash.field": KEY,
        **(_RESIZED_BUCKETS if definition.resized else {}),
    }
