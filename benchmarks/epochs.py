"""Runs Headwater with one input file per epoch, and measures each epoch; used by the sides of benchmarks."""

from __future__ import annotations

from time import perf_counter, time
from typing import TYPE_CHECKING

from attrs import define, field

from .reading import drain
from .sides import Figures, folder_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

    from headwater import Headwater
    from headwater.app.run.report import EpochReport

    from .floors import Floor


@define(eq=False)
class Epochs:
    """Runs epochs and measures them.

    Args:
        headwater: runs the epochs.
        floor: counts Spark jobs.
        seconds, jobs: the seconds and the Spark jobs of each epoch so far.
    """

    headwater: Headwater
    floor: Floor
    seconds: list[float] = field(factory=list)
    jobs: list[int] = field(factory=list)

    def run(self) -> None:
        """Run one epoch."""
        before, began = self.floor.jobs(), perf_counter()
        self.headwater.run(until_idle=True)
        self.seconds.append(perf_counter() - began)
        self.jobs.append(self.floor.jobs() - before)


@define(eq=False)
class Run:
    """A run over all files of ``rows`` in a folder, one per epoch, with a plain append of the same rows before each.

    Args:
        folder: the folder of the input.
        home: the folder of the side.
        epochs: runs and measures the epochs.
        reports: receives the reports of the epochs.
        arrive: adds the records of a file to the sources.
        view: the view of which all rows are read at the end.
    """

    folder: Path
    home: Path
    epochs: Epochs
    reports: list[EpochReport]
    arrive: Callable[[Path], None]
    view: str

    def figures(self, result: Callable[[DataFrame], DataFrame] = lambda rows: rows) -> Figures:
        """Run, and return the measurements; the output of `result` for the view's rows is written to ``rows``."""
        began, floors = time(), list[float]()
        for file in sorted((self.folder / "rows").iterdir()):
            floors.append(self.epochs.floor.append(file))
            self.arrive(file)
            self.epochs.run()
        headwater, asked = self.epochs.headwater, perf_counter()
        drain(headwater.view(self.view))
        viewed = perf_counter() - asked
        result(headwater.view(self.view)).write.parquet(str((self.home / "rows").resolve()))
        return Figures(
            began,
            sum(self.epochs.seconds),
            state_bytes=folder_bytes(self.home / "lake"),
            epochs=self.epochs.seconds,
            view=viewed,
            floors=floors,
            jobs=self.epochs.jobs,
            phases=[dict(each.seconds) for each in self.reports],
        )
