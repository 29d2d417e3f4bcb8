"""Two processes that commit to one Hudi table at the same moment: one of them succeeds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from headwater.testing.store_harness import mark_of, spec_of
from tests.spark_fixtures import TUNED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.hudi,
    pytest.mark.faults("two processes commit to one table at the same moment", backend="hudi-mor"),
]

NAMES = spec_of("id bigint, name string", ["id"])
_PATIENCE = 180.0
_WRITER = """
import sys, time
from pathlib import Path
from headwater.adapters.hudi import package
from headwater.adapters.hudi.spec import TableType
from headwater.adapters.hudi.store import HudiStore
from headwater.adapters.spark.schema import frame_of
from headwater.adapters.spark.session import open_session
from headwater.domain.table.change import Change
from headwater.domain.errors import EpochConflict
from headwater.testing.store_harness import mark_of
from tests.faults.test_racing_writers import NAMES, SETTINGS

folder, me = Path(sys.argv[1]), int(sys.argv[2])
session = open_session(
    SETTINGS, packages=package.PACKAGES, extensions=package.EXTENSIONS, defaults=package.SETTINGS
)
store = HudiStore(session, str(folder / "lake"), TableType.MERGE_ON_READ, buckets=8)
store.ensure(NAMES)
change = Change(append=frame_of(session, NAMES.schema, [(me, "raced")]))
(folder / f"ready-{me}").touch()
while not (folder / "go").exists():
    time.sleep(0.001)
try:
    store.commit(NAMES.name, change, mark_of(2))
    print("won")
except EpochConflict:
    print("turned away")
session.stop()
"""
SETTINGS = TUNED | {"spark.driver.memory": "1g"}


@contextmanager
def writer(folder: Path, number: int) -> Iterator[subprocess.Popen[str]]:
    """A writer, which is gone in the end."""
    command = [sys.executable, "-c", _WRITER, str(folder), str(number)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_of_two_processes_one_succeeds(spark: SparkSession, tmp_path: Path) -> None:
    from headwater.adapters.hudi.spec import TableType
    from headwater.adapters.hudi.store import HudiStore
    from headwater.adapters.spark.schema import frame_of
    from headwater.domain.table.change import Change

    store = HudiStore(spark, str(tmp_path / "lake"), TableType.MERGE_ON_READ, buckets=8)
    store.ensure(NAMES)
    store.commit(NAMES.name, Change(append=frame_of(spark, NAMES.schema, [(0, "before")])), mark_of(1))
    with writer(tmp_path, 1) as one, writer(tmp_path, 2) as other:
        deadline = time.monotonic() + _PATIENCE
        while len(list(tmp_path.glob("ready-*"))) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (tmp_path / "go").touch()
        told = [each.communicate(timeout=_PATIENCE)[0].strip() for each in (one, other)]
    assert sorted(told) == ["turned away", "won"]
    newest = next(store.versions(NAMES.name))
    rows = store.read(NAMES.name, newest.version).collect(backend="polars").rows()
    assert sorted(rows) == [(0, "before"), (told.index("won") + 1, "raced")]
    assert [commit.mark for commit in store.versions(NAMES.name)] == [mark_of(2), mark_of(1)]
