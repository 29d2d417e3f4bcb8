"""The packages, extensions and settings that Apache Hudi needs in a Spark session."""

from __future__ import annotations

from types import MappingProxyType

PACKAGES = ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",)
EXTENSIONS = ("org.apache.spark.sql.hudi.HoodieSparkSessionExtension",)
SETTINGS = MappingProxyType(
    {
        # Hudi refuses to write with Java's own serializer.
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        # For a look-up of a few keys, Parquet skips all other records before rows are built from them.
        "spark.sql.parquet.recordLevelFilter.enabled": "true",
    }
)
