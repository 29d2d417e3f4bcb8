"""Starts Spark once, so that the jars of the table formats and of Kafka are there before anything needs them."""

from headwater.adapters.delta.package import EXTENSIONS, PACKAGES, SETTINGS
from headwater.adapters.spark.session import KAFKA_PACKAGE, open_session

open_session(
    {"spark.master": "local[1]"}, packages=[*PACKAGES, KAFKA_PACKAGE], extensions=EXTENSIONS, defaults=SETTINGS
).stop()
