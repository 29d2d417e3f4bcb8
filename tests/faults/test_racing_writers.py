"""Two processes that commit to one table at the same moment, on one engine or on two: one of them succeeds."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from time import sleep
from typing import TYPE_CHECKING

import pytest
from attrs import frozen

from headwater.domain.errors import EpochConflict
from headwater.domain.table.change import Change
from headwater.testing.store_harness import mark_of, spec_of
from tests.backends import delta_backend, hudi_backend, local_delta_backend
from tests.spark_fixtures import TUNED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.backends import Backend

NAMES = spec_of("id bigint, name string", ["id"])
SETTINGS = TUNED | {"spark.driver.memory": "1g"}
_PATIENCE = 180.0
_RACE = pytest.mark.faults("two processes commit to one table at the same moment")
_MIXED = pytest.mark.faults(
    "two processes, one on each engine, commit to one table at the same moment", backend="delta"
)
_WRITER = "from tests.faults.test_racing_writers import race; race()"


def race() -> None:
    """A writer, in a process of its own: with each line that comes, it waits a moment, commits, and tells the end."""
    name, folder, me = sys.argv[1:]
    with ExitStack() as exits:
        backend = opened(name, folder, None if name == "delta:local" else session_of(name, exits))
        store = backend.open()
        store.ensure(NAMES)
        tell("ready")
        for line in sys.stdin:
            number, wait = line.split()
            change = Change(append=backend.frame([(10 * int(number) + int(me), "raced")], NAMES.schema))
            sleep(float(wait))
            try:
                store.commit(NAMES.name, change, mark_of(int(number)))
                tell("won")
            except EpochConflict:
                tell("turned away")


def tell(word: str) -> None:
    """Say a word to the process that started this one."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def opened(name: str, folder: str, session: SparkSession | None) -> Backend:
    """The backend of that name, its tables in a folder."""
    if session is None:
        return local_delta_backend(folder)
    return delta_backend(session, folder) if name == "delta" else hudi_backend(session, folder, name)


def session_of(name: str, exits: ExitStack) -> SparkSession:
    """A session of this process alone."""
    from headwater.adapters.delta import package as delta
    from headwater.adapters.hudi import package as hudi
    from headwater.adapters.spark.session import open_session

    format_ = delta if name == "delta" else hudi
    session = open_session(
        SETTINGS, packages=format_.PACKAGES, extensions=format_.EXTENSIONS, defaults=dict(format_.SETTINGS)
    )
    exits.callback(session.stop)
    return session


@frozen
class Writer:
    """A process that writes; it is gone in the end."""

    process: subprocess.Popen[str]

    def told(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def commit(self, number: int, wait: float) -> None:
        """Let it commit, as so many seconds have passed."""
        assert self.process.stdin
        self.process.stdin.write(f"{number} {wait}\n")
        self.process.stdin.flush()


@contextmanager
def writer(name: str, folder: Path, me: int) -> Iterator[Writer]:
    command = [sys.executable, "-c", _WRITER, name, str(folder), str(me)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        watch = threading.Timer(_PATIENCE, process.kill)
        watch.start()
        try:
            yield Writer(process)
        finally:
            watch.cancel()
            process.kill()


@pytest.fixture
def pair(backend: str) -> list[str]:
    """The backends of both writers."""
    names = backend.split(" and ")
    return names * 2 if len(names) == 1 else names


@pytest.mark.parametrize(
    ("backend", "rounds"),
    [
        pytest.param("delta:local", 20, marks=_RACE),
        pytest.param("delta and delta:local", 12, marks=[pytest.mark.delta, _MIXED]),
        pytest.param("hudi-mor", 1, marks=[pytest.mark.hudi, _RACE]),
        pytest.param("hudi-mor:local", 12, marks=[pytest.mark.hudi, pytest.mark.slow, _RACE]),
        pytest.param("hudi-mor and hudi-mor:local", 12, marks=[pytest.mark.hudi, pytest.mark.slow, _RACE]),
    ],
)
def test_of_two_processes_one_succeeds(
    backend: str, pair: list[str], rounds: int, session: SparkSession | None, tmp_path: Path
) -> None:
    readers = [opened(name, str(tmp_path), None if name == "delta:local" else session) for name in dict.fromkeys(pair)]
    store = readers[0].open()
    store.ensure(NAMES)
    store.commit(NAMES.name, Change(append=readers[0].frame([(0, "before")], NAMES.schema)), mark_of(1))
    winners, waits = [], [0.0, 0.1 if len(readers) > 1 else 0.0]
    with writer(pair[0], tmp_path, 0) as one, writer(pair[1], tmp_path, 1) as other:
        assert [each.told() for each in (one, other)] == ["ready", "ready"]
        for number in range(2, rounds + 2):
            for each, wait in zip((one, other), waits, strict=True):
                each.commit(number, wait)
            told = [each.told() for each in (one, other)]
            assert sorted(told) == ["turned away", "won"]
            winners.append(told.index("won"))
            waits[1] *= 1.6 if winners[-1] else 0.6  # the local engine is ahead until it waits as long as Spark takes
    expected = [(0, "before"), *((10 * number + winner, "raced") for number, winner in enumerate(winners, start=2))]
    for reader in readers:
        seen = reader.open()
        seen.ensure(NAMES)
        newest = next(seen.versions(NAMES.name))
        assert sorted(seen.read(NAMES.name, newest.version).collect(backend="polars").rows()) == expected
        marks = [commit.mark for commit in seen.versions(NAMES.name)]
        assert marks == [mark_of(number) for number in range(rounds + 1, 0, -1)]
    assert len(readers) == 1 or set(winners) == {0, 1}
