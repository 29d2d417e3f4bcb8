"""The settings of a Spark session that results may depend on, and their fixed values in Headwater's own session."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...domain.errors import ConfigError

FIXED = MappingProxyType(
    {
        # Event times mean the same on every machine.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "false",
        "spark.sql.legacy.timeParserPolicy": "EXCEPTION",
        "spark.sql.storeAssignmentPolicy": "ANSI",
        "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
        "spark.sql.decimalOperations.allowPrecisionLoss": "true",
        "spark.sql.legacy.parquet.nanosAsLong": "false",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
        # Times before the Gregorian calendar, and before 1900, are stored unchanged, and in the type that others read.
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        # A filter that reaches the files finds the ten days that the former calendar lacks, of October 1582.
        "spark.sql.datetime.java8API.enabled": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A missing or damaged file is an error, never fewer rows.
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.databricks.delta.stalenessLimit": "0",
    }
)
"""Settings with the same value in each of Headwater's own sessions."""

_SQL = ("spark.sql.", "spark.databricks.delta.", "spark.hoodie.", "hoodie.")
_ONLY_SPEED_OR_PLACE = (
    "spark.sql.adaptive.",
    "spark.sql.artifact.",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.broadcast",
    "spark.sql.cache.",
    "spark.sql.cartesianProductExec.",
    "spark.sql.catalog.",
    "spark.sql.catalogImplementation",
    "spark.sql.cbo.",
    "spark.sql.codegen.",
    "spark.sql.debug.",
    "spark.sql.defaultSizeInBytes",
    "spark.sql.error.messageFormat",
    "spark.sql.event.",
    "spark.sql.exchange.reuse",
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.execution.broadcastHashJoin.",
    "spark.sql.execution.pyspark.",
    "spark.sql.execution.reuseSubquery",
    "spark.sql.execution.useObjectHashAggregateExec",
    "spark.sql.extensions",
    "spark.sql.files.maxPartition",
    "spark.sql.files.maxRecordsPerFile",
    "spark.sql.files.minPartitionNum",
    "spark.sql.files.openCostInBytes",
    "spark.sql.filesourceTableRelationCacheSize",
    "spark.sql.globalTempDatabase",
    "spark.sql.hive.",
    "spark.sql.inMemory",
    "spark.sql.join.",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.sql.limit.",
    "spark.sql.maxMetadataStringLength",
    "spark.sql.maxPlanStringLength",
    "spark.sql.maxSinglePartitionBytes",
    "spark.sql.metadataCacheTTLSeconds",
    "spark.sql.objectHashAggregate.",
    "spark.sql.optimizer.",
    "spark.sql.orc.compression.codec",
    "spark.sql.parquet.aggregatePushdown",
    "spark.sql.parquet.columnarReaderBatchSize",
    "spark.sql.parquet.compression.codec",
    "spark.sql.parquet.enableNestedColumnVectorizedReader",
    "spark.sql.parquet.enableVectorizedReader",
    "spark.sql.parquet.filterPushdown",
    "spark.sql.parquet.output.committer.class",
    "spark.sql.parquet.pushdown.",
    "spark.sql.parquet.recordLevelFilter.enabled",
    "spark.sql.planChangeLog.",
    "spark.sql.pyspark.jvmStacktrace.enabled",
    "spark.sql.queryExecutionListeners",
    "spark.sql.redaction.",
    "spark.sql.repl.",
    "spark.sql.sessionWindow.",
    "spark.sql.shuffle.",
    "spark.sql.sortMergeJoinExec.",
    "spark.sql.sources.bucketing.",
    "spark.sql.sources.commitProtocolClass",
    "spark.sql.sources.outputCommitterClass",
    "spark.sql.sources.parallelPartitionDiscovery.",
    "spark.sql.statistics.",
    "spark.sql.streaming.",
    "spark.sql.subquery",
    "spark.sql.thriftserver.",
    "spark.sql.ui.",
    "spark.sql.warehouse.dir",
    "spark.sql.windowExec.",
    "spark.databricks.delta.",
)
_OF_DELTA = (
    "spark.databricks.delta.properties.defaults.",
    "spark.databricks.delta.schema.",
    "spark.databricks.delta.stalenessLimit",
)


def may_change_answers(name: str) -> bool:
    """Whether results may depend on a setting: true for every SQL setting that is not known to be harmless.

    Settings of the Spark application (memory, cores, addresses) do not change results.
    """
    return name.startswith(_SQL) and (name.startswith(_OF_DELTA) or not name.startswith(_ONLY_SPEED_OR_PLACE))


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse settings that would change results.

    Raises:
        ConfigError: names the first such setting, the value that Headwater uses, and the remedy.
    """
    for name, value in settings.items():
        fixed = FIXED.get(name)
        if name.startswith("spark.") and may_change_answers(name) and str(value).lower() != str(fixed).lower():
            works = f"with {fixed!r}" if fixed is not None else "with Spark's default"
            raise ConfigError(
                f'"{name}" = {value!r} could change answers. Headwater always works {works}, in a session of its own,'
                " and leaves that of your program as it is: take the line out. Settings that change nothing but speed,"
                ' such as "spark.sql.shuffle.partitions", are allowed'
            )
