"""Starts Spark once, and fetches a Kafka broker, so that all jars are there before tests run side by side.

Ivy's cache does not bear two that fetch at the same time.
"""

import sys
from itertools import chain
from pathlib import Path

from headwater.adapters.delta import package as delta
from headwater.adapters.hudi import package as hudi
from headwater.adapters.spark.session import KAFKA_PACKAGE, open_session
from headwater.testing.kafka_broker import kafka_jars

sys.path.append(str(Path(__file__).parents[1]))
from tests.jdbc_databases import DRIVERS

open_session(
    {"spark.master": "local[1]"},
    packages=[*delta.PACKAGES, *hudi.PACKAGES, KAFKA_PACKAGE, *chain.from_iterable(DRIVERS.values())],
    extensions=[*delta.EXTENSIONS, *hudi.EXTENSIONS],
    defaults={**delta.SETTINGS, **hudi.SETTINGS},
).stop()
kafka_jars()
