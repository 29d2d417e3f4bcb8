"""Epochs of Headwater, one a file, as the sides of a benchmark measure them."""

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
    from headwater.app.runner import EpochReport

    from .floors import Floor


@define(eq=False)
class Epochs:
    """Runs what has arrived.

    Args:
        headwater: runs it.
        floor: knows of Spark's jobs.
        seconds, jobs: of each epoch so far.
    """

    headwater: Headwater
    floor: Floor
    seconds: list[float] = field(factory=list)
    jobs: list[int] = field(factory=list)

    def run(self) -> None:
        """One more epoch."""
        before, began = self.floor.jobs(), perf_counter()
        self.headwater.run(until_idle=True)
        self.seconds.append(perf_counter() - began)
        self.jobs.append(self.floor.jobs() - before)


@define(eq=False)
class Run:
    """A run over all files of ``rows`` in a folder, one an epoch, and before each a plain append of the same rows.

    Args:
        folder: where they are.
        home: of the side.
        epochs: see there.
        reports: where reports of the epochs go.
        arrive: lets what a file holds come in.
        view: is read in the end, all of it.
    """

    folder: Path
    home: Path
    epochs: Epochs
    reports: list[EpochReport]
    arrive: Callable[[Path], None]
    view: str

    def figures(self, result: Callable[[DataFrame], DataFrame] = lambda rows: rows) -> Figures:
        """Run, and tell how it went; what `result` makes of the view's rows is written into the side's ``rows``."""
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
