"""One Spark session for all tests of a process, tuned for tables of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .jdbc_databases import POSTGRESQL_PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from headwater.app.runner import Runner

TUNED = {
    # CI gives two cores; more threads only wait for each other.
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    # A compiler that starts fast beats one that makes fast code, in runs of minutes; one collector thread is enough.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Twenty rows need no second task, no second look at the plan, and no generated code.
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session with Delta, Hudi and Kafka, started when a test first asks for it."""
    from headwater.adapters.delta import package as delta
    from headwater.adapters.hudi import package as hudi
    from headwater.adapters.spark.session import KAFKA_PACKAGE, open_session

    # Its driver is looked for only where a test may need it.
    postgres = any(item.get_closest_marker("postgres") for item in request.session.items)
    scratch = tmp_path_factory.mktemp("spark")
    session = open_session(
        TUNED | {"spark.sql.warehouse.dir": str(scratch / "warehouse"), "spark.local.dir": str(scratch)},
        packages=[*delta.PACKAGES, *hudi.PACKAGES, KAFKA_PACKAGE, *([POSTGRESQL_PACKAGE] if postgres else [])],
        extensions=[*delta.EXTENSIONS, *hudi.EXTENSIONS],
        defaults={**delta.SETTINGS, **hudi.SETTINGS},
        app_name="headwater-tests",
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def compact_few_files(runner: Runner) -> None:
    """Let a compaction take up the few files of a scenario."""
    from headwater.adapters.delta.compaction import CompactionPolicy as DeltaPolicy
    from headwater.adapters.delta.store import DeltaStore
    from headwater.adapters.hudi.compaction import CompactionPolicy as HudiPolicy
    from headwater.adapters.hudi.store import HudiStore

    match runner.keeper:
        case DeltaStore() as store:
            store.compaction = DeltaPolicy(min_files=2, min_share=0)
        case HudiStore() as store:
            store.compaction = HudiPolicy(min_files=1)
