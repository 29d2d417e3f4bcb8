"""What Apache Hudi needs of a Spark session."""

from __future__ import annotations

from types import MappingProxyType

PACKAGES = ("org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",)
EXTENSIONS = ("org.apache.spark.sql.hudi.HoodieSparkSessionExtension",)
SETTINGS = MappingProxyType(
    {
        # Hudi refuses to write with Java's own serializer.
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        # Rows of a few keys are looked up in base files by their keys alone, all others never made rows of.
        "spark.sql.parquet.recordLevelFilter.enabled": "true",
    }
)
