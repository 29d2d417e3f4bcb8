"""One commit through Hudi's own writer, and the settings that make a small one cheap."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from attrs import frozen

from ...domain.table.schema import Schema
from ..spark.size import fits_one_task
from .clock import name_instants_in_utc
from .names import KEY, PARTITION, SEQUENCE
from .spec import Definition, TableType
from .timeline import COLUMNS, METADATA_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UPKEEP_ON_REQUEST = {
    # `compact` does it, between epochs; inline it would slow down some commits.
    "hoodie.compact.inline": "false",
    "hoodie.clustering.inline": "false",
    # Clustering runs under the lock of commits, so a plan that is found there belongs to a dead process, and is
    # dropped.
    "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy",
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
    # A version stays readable until `expire` removes it.
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
_SMALL_COMMITS = {
    # Hudi's metadata table makes a second commit with each commit; listing the folders takes less time.
    "hoodie.metadata.enable": "false",
    # There are not enough executors for the timeline server to save storage requests.
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    # Written keys are unique: changes are folded before.
    "hoodie.combine.before.insert": "false",
    "hoodie.combine.before.upsert": "false",
    # No index of ours asks the filter, and it adds 430 kB to each base file.
    "hoodie.parquet.bloom.filter.enabled": "false",
    # Instants are created under the table's lock, one after the other, so there is no clock skew to wait for.
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


# Columns of an earlier version may be missing from this one.
_OTHER_COLUMNS = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}


class Operation(Enum):
    """The operation of a commit: Hudi's name for it, and whether few rows are written by one task."""

    UPSERT = "upsert", True
    ADD = "bulk_insert", True
    LOAD = "bulk_insert", False
    OVERWRITE = "insert_overwrite_table", True

    def __init__(self, word: str, gathered: bool) -> None:  # noqa: FBT001 - an Enum's values come by position
        self.word = word
        self.gathered = gathered


@frozen(eq=False)
class CommitInput:
    """The input of one commit.

    Args:
        rows: as they are stored.
        operation: how they are written.
        columns: the table's columns from now on, if each version has its own columns.
    """

    rows: DataFrame
    operation: Operation
    columns: Schema | None = None


def write(commit_input: CommitInput, path: str, definition: Definition, metadata: Mapping[str, str]) -> None:
    """Commit stored rows, with metadata in the commit; its names begin with `METADATA_PREFIX`."""
    rows = commit_input.rows
    few = rows.coalesce(1) if commit_input.operation.gathered and fits_one_task(rows) else rows
    settings = table_settings(definition) | {
        "hoodie.datasource.write.operation": commit_input.operation.word,
        **metadata,
    }
    if commit_input.columns is not None:
        settings |= _OTHER_COLUMNS | {COLUMNS: commit_input.columns.ddl}
    name_instants_in_utc(few.sparkSession)
    few.write.format("hudi").options(**settings).mode("append").save(path)


def table_settings(definition: Definition) -> dict[str, str]:
    """The settings of every write to a table."""
    spec = definition.spec
    generator = "SimpleKeyGenerator" if spec.partition_by else "NonpartitionedKeyGenerator"
    settings = _UPKEEP_ON_REQUEST | _SMALL_COMMITS
    settings |= {
        "hoodie.table.name": definition.hudi_name,
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.datasource.write.table.type": definition.table_type.value,
        "hoodie.datasource.write.commitmeta.key.prefix": METADATA_PREFIX,
        # The later commit wins: commits are fenced, so their order is the order of the epochs.
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
    }
    if spec.partition_by:
        settings["hoodie.datasource.write.partitionpath.field"] = PARTITION
    if spec.key:
        record_key = f"{KEY},{SEQUENCE}" if definition.folded else KEY
        settings |= {"hoodie.datasource.write.recordkey.field": record_key} | _index(definition)
    return settings


def by_key(definition: Definition) -> dict[str, str] | None:
    """The settings with which a read finds the files of a few keys; None if a key does not determine its file."""
    if definition.table_type is TableType.COPY_ON_WRITE:
        return None
    if definition.resized or definition.spec.partition_by:  # here Hudi's reader looks for keys only inside files
        return {}
    return _index(definition) | {"hoodie.enable.data.skipping": "true"}


def _index(definition: Definition) -> dict[str, str]:
    """The index settings: merge-on-read finds a key's file by the key's hash, so that a write costs its own rows only.

    A copy-on-write table rewrites whole files with any index. Its keys are looked up in the touched partitions, so that
    its files can grow to their target size.
    """
    if definition.table_type is TableType.COPY_ON_WRITE:
        return {"hoodie.index.type": "SIMPLE"}
    return {
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": str(definition.buckets),
        "hoodie.bucket.index.hash.field": KEY,
        **(_RESIZED_BUCKETS if definition.resized else {}),
    }
