"""The packages, extensions and settings that Delta Lake needs in a Spark session."""

from __future__ import annotations

from types import MappingProxyType

PACKAGES = ("io.delta:delta-spark_2.12:3.3.3",)
EXTENSIONS = ("io.delta.sql.DeltaSparkSessionExtension",)
SETTINGS = MappingProxyType(
    {
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # A table's state is rebuilt by a shuffle of this many tasks; the default of 50 takes longer than a small epoch.
        "spark.databricks.delta.snapshotPartitions": "1",
        # A checksum of the whole table state with every commit: optional in the protocol, and no reader needs it.
        "spark.databricks.delta.writeChecksumFile.enabled": "false",
    }
)
