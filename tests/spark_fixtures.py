"""One Spark application for all tests of a process, tuned for tables of a few rows."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest

from .jdbc_databases import DRIVERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from headwater.app.run.runner import Runner

TUNED = {
    # CI gives two cores; more threads only wait for each other.
    "spark.master": "local[2]",
    "spark.driver.memory": "2g",
    # A compiler that starts fast beats one that makes fast code, in runs of minutes; one collector thread is enough.
    # It keeps 48 MiB of code; Spark and Hudi have more, which would be thrown away and made again.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
    # Twenty rows need no second task, no second look at the plan, and no generated code.
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Aggregates and sorts take memory by the page; the default for this heap is 16 MiB for each of them.
    "spark.buffer.pageSize": "1m",
    # What a web page would show of plans and tasks that have ended.
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
}


HOSTILE = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.datetime.java8API.enabled": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.groupByAliases": "false",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.storeAssignmentPolicy": "STRICT",
}
"""A program's own settings, each of which changes what some query answers; adaptive plans change none."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that gives all tests a program of another mind."""
    about = "run in a Spark session whose settings change what queries answer: Headwater's answers stay the same"
    parser.addoption("--hostile-session", action="store_true", help=about)


@pytest.fixture(scope="session")
def program_session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of the program around, with Delta, Hudi and Kafka, started when a test first asks for it."""
    from headwater.adapters.delta import package as delta
    from headwater.adapters.hudi import package as hudi
    from headwater.adapters.spark.session import KAFKA_PACKAGE, open_session

    # Drivers are looked for only where a test may need them.
    marks = {mark.name for item in request.session.items for mark in item.iter_markers()}
    drivers = [each for name, packages in DRIVERS.items() if name in marks for each in packages]
    scratch = tmp_path_factory.mktemp("spark")
    folders = {"spark.sql.warehouse.dir": str(scratch / "warehouse"), "spark.local.dir": str(scratch)}
    session = open_session(
        TUNED | (HOSTILE if request.config.getoption("--hostile-session") else {}) | folders,
        packages=[*delta.PACKAGES, *hudi.PACKAGES, KAFKA_PACKAGE, *drivers],
        extensions=[*delta.EXTENSIONS, *hudi.EXTENSIONS],
        defaults={**delta.SETTINGS, **hudi.SETTINGS},
    )
    session.sparkContext.setLogLevel("ERROR")
    gc.freeze()  # what is there by now stays, and need not be looked at after each test
    yield session
    session.stop()


@pytest.fixture(scope="session")
def _own_session(program_session: SparkSession) -> SparkSession:
    from headwater.adapters.spark.own_session import own_session

    return own_session(program_session, {})


@pytest.fixture
def spark(program_session: SparkSession, _own_session: SparkSession) -> Iterator[SparkSession]:
    """Headwater's own session beside the program's, and the active one while the test runs, as while Headwater works."""
    from headwater.adapters.spark.own_session import working_in

    with working_in(_own_session, program_session):
        yield _own_session


@pytest.fixture(autouse=True)
def _forget_tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the JVM forget the tables of a test that asked for Spark.

    Delta keeps each one's state, and its plans, for an hour after the last use; so does Python what is part of a cycle,
    until its collector comes round to it, which is rarely. A look at everything takes longer than most other tests.
    """
    yield
    if "program_session" not in request.fixturenames:
        return
    from pyspark.sql import SparkSession

    if session := SparkSession.getActiveSession():
        gc.collect()
        from headwater.adapters.spark.jvm import java_class

        java_class(session, "org.apache.spark.sql.delta.DeltaLog").clearCache()
        session.catalog.clearCache()


def store_below(runner: Runner) -> Any:
    """The backend's store, below the generations of the tables and the choice of an engine for compactions."""
    from headwater.app.run.auto import LargeCompactions
    from headwater.domain.ledger.generation_store import GenerationStore

    keeper = runner.keeper.small if isinstance(runner.keeper, LargeCompactions) else runner.keeper
    assert isinstance(keeper, GenerationStore)
    return keeper.store


def compact_few_files(runner: Runner) -> None:
    """Let a compaction take up the few files of a scenario."""
    from headwater.adapters.delta.compaction_policy import CompactionPolicy as DeltaPolicy
    from headwater.adapters.delta.local.store import LocalDeltaStore
    from headwater.adapters.delta.store import DeltaStore
    from headwater.adapters.hudi.compact import CompactionPolicy as HudiPolicy
    from headwater.adapters.hudi.store import HudiStore

    match store_below(runner):
        case LocalDeltaStore() | DeltaStore() as store:
            store.compaction = DeltaPolicy(min_files=2, min_share=0)
        case HudiStore() as store:
            store.compaction = HudiPolicy(min_files=1)
