"""Starts Spark once, so that the jars of the table formats and of Kafka are there before anything needs them."""

from headwater.adapters.delta import package as delta
from headwater.adapters.hudi import package as hudi
from headwater.adapters.spark.session import KAFKA_PACKAGE, open_session

open_session(
    {"spark.master": "local[1]"},
    packages=[*delta.PACKAGES, *hudi.PACKAGES, KAFKA_PACKAGE],
    extensions=[*delta.EXTENSIONS, *hudi.EXTENSIONS],
    defaults={**delta.SETTINGS, **hudi.SETTINGS},
).stop()
