"""A deployment to be broken, the files of its tables, and the answers that it must give all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, field

from headwater.testing.trial import Trial
from tests.configurations import ranked_contracts

from .contracts import lines, ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import ExitStack
    from pathlib import Path

    from pyspark.sql import SparkSession

WITHOUT_SPARK = frozenset({"memory", "delta:local"})
_DELTA = ("delta:local", pytest.param("delta", marks=pytest.mark.delta))
_HUDI = (
    pytest.param("hudi-mor:local", marks=pytest.mark.hudi),
    pytest.param("hudi-cow:local", marks=[pytest.mark.hudi, pytest.mark.slow]),
)
on_files = pytest.mark.parametrize("backend", [*_DELTA, *_HUDI])
on_delta = pytest.mark.parametrize("backend", _DELTA)
on_hudi = pytest.mark.parametrize("backend", _HUDI)
in_processes = pytest.mark.parametrize(
    "backend", ["delta:local", pytest.param("delta", marks=[pytest.mark.delta, pytest.mark.slow])]
)
everywhere = pytest.mark.parametrize("backend", ["memory", *_DELTA, *_HUDI])


def arriving(epoch: int) -> list[dict[str, Any]]:
    """What an epoch brings: contracts of one day, so that each epoch reads the rows of those before it."""
    hours = range(8, 11)
    return [
        {"project": hour % 2, "contract": 10 * epoch + hour, "signed": f"2024-03-01T{hour:02}:{epoch:02}:00Z"}
        for hour in hours
    ]


@define(eq=False)
class Broken:
    """A trial that ranks contracts; `epochs` are those that it must answer for."""

    trial: Trial
    session: SparkSession | None
    epochs: list[int] = field(factory=list)

    @classmethod
    def deployed(cls, folder: Path, backend: str, exits: ExitStack, session: SparkSession | None) -> Broken:
        """On a backend; nothing has run yet."""
        trial = Trial(folder, backend, exits)
        run = 'retries = 1\nretry_wait = "10ms"\n'
        trial.deploy(ranked_contracts(backend='name = "memory"\ncompact_every = 0\n', run=run))
        return cls(trial, session)

    def feed(self, epoch: int) -> None:
        """Let the rows of an epoch arrive."""
        self.epochs.append(epoch)
        self.trial.feed("contracts", lines(arriving(epoch)))

    def run(self) -> None:
        """Run until idle, as a process does that remembers nothing."""
        self.forget()
        self.trial.run()

    def runs(self, *epochs: int) -> None:
        """Let epochs arrive and run, one by one."""
        for epoch in epochs:
            self.feed(epoch)
            self.run()

    def answer(self) -> list[dict[str, Any]]:
        """The ranks that a process sees which remembers nothing, told as the command line tells them."""
        self.forget()
        deployment = self.trial.open()
        with deployment.explaining():
            rows = deployment.answer("ranked").frame.select("contract", "rank").collect(backend="polars")
        return sorted(rows.rows(named=True), key=lambda row: row["contract"])

    def expected(self, epochs: Iterable[int]) -> list[dict[str, Any]]:
        """The ranks after some epochs, by a few plain lines."""
        rows = ranks(row for epoch in epochs for row in arriving(epoch))
        return [{"contract": row["contract"], "rank": row["rank"]} for row in rows]

    def check(self) -> None:
        """Hold the answer to all that has arrived."""
        assert self.answer() == self.expected(self.epochs)

    def forget(self) -> None:
        """Delta's logs are remembered by the JVM, which a new process would not find."""
        if self.trial.backend == "delta":
            assert self.session is not None
            self.session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()

    # ---- its files

    def newest_data(self, table: str) -> Path:
        """The data file of a table that was written last."""
        return max(self._data(table), key=lambda file: file.stat().st_mtime_ns)

    def commits(self, table: str) -> list[Path]:
        """The files of a table's commits, oldest first."""
        folder = self.folder(table)
        found = [*folder.glob("_delta_log/0*.json"), *folder.glob(".hoodie/timeline/*_*.*commit")]
        return sorted(file for file in found if not file.name.startswith("."))

    def folder(self, table: str) -> Path:
        """The folder of a table."""
        return self.trial.folder / "tables" / "ranked" / table

    def _data(self, table: str) -> Iterator[Path]:
        for file in self.folder(table).rglob("*"):
            if file.name.endswith(".parquet") or (".log." in file.name and not file.name.endswith(".crc")):
                yield file


def tear(file: Path) -> bytes:
    """Cut a file off in the middle; what it held."""
    whole = file.read_bytes()
    put(file, whole[: len(whole) // 2])
    return whole


def put(file: Path, content: bytes) -> None:
    """Write a file as another program would, which knows nothing of Hadoop's checksums."""
    file.write_bytes(content)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def remove(file: Path) -> None:
    """Remove a file, as if it had never been written."""
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
