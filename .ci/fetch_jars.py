"""Starts Spark once, and fetches a Kafka broker, so that all jars are there before tests run side by side.

Ivy's cache does not bear two that fetch at the same time. The classes that this Spark has loaded are written to an
archive, with which the next ones start in half the time.

    python .ci/fetch_jars.py ARCHIVE
"""

import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

from headwater.adapters.delta import package as delta
from headwater.adapters.hudi import package as hudi
from headwater.adapters.spark.java import java_home
from headwater.adapters.spark.session import KAFKA_PACKAGE, open_session
from headwater.testing.kafka_broker import kafka_jars

sys.path.append(str(Path(__file__).parents[1]))
from tests.jdbc_databases import DRIVERS

writing = ["-Xlog:cds=error", "-Xlog:cds+dynamic=error", f"-XX:ArchiveClassesAtExit={sys.argv[1]}"]
can_write = subprocess.run([f"{java_home()}/bin/java", *writing, "-version"], capture_output=True, check=False)
# A Java without an archive of its own classes, as the one of a wheel, does not start with these options.
os.environ["SPARK_SUBMIT_OPTS"] = " ".join(writing) if can_write.returncode == 0 else ""
session = open_session(
    {"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"},
    packages=[*delta.PACKAGES, *hudi.PACKAGES, KAFKA_PACKAGE, *chain.from_iterable(DRIVERS.values())],
    extensions=[*delta.EXTENSIONS, *hudi.EXTENSIONS],
    defaults={**delta.SETTINGS, **hudi.SETTINGS},
)
session.range(9).selectExpr("id % 2 AS half", "cast(id AS string) AS name").groupBy("half").count().collect()
gateway = session.sparkContext._gateway  # noqa: SLF001 - Spark has no other way to wait for its JVM
session.stop()
gateway.shutdown()
gateway.proc.stdin.close()  # the JVM ends with its input, and writes the archive then
gateway.proc.wait()
kafka_jars()
