"""The sides of a benchmark: runs each in its own process, and reads the measurements that it writes."""

from __future__ import annotations

import json
import sys
from statistics import quantiles
from time import perf_counter, time
from typing import TYPE_CHECKING, Self

from attrs import asdict, field, frozen

from .memory import Used, most_left, run_and_watch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal
    from pathlib import Path

    import polars as pl

FIGURES, GC_LOG = "figures.json", "gc.log"
_HEAP = "2g"


@frozen
class Figures:
    """The measurements of a side; 0 or an empty list means that a value was not measured.

    Args:
        began: the time when it could take its first message, in seconds since 1970; everything before is its start.
        seconds: seconds from then until the last result was published.
        state_bytes: bytes on disk that it has to keep for the next record.
        totals: orders and cents by state at the end, if the benchmark has these.
        state_rows: the number of rows that it has to keep.
        past_bytes: bytes on disk of the totals before the cut.
        epochs: seconds of each epoch.
        view: seconds of reading the result at the end.
        floors: seconds of a plain append of each epoch's rows.
        jobs: Spark jobs of each epoch.
        phases: the parts of each epoch's seconds.
        waits: seconds that changes or ticks waited until they were visible.
        kept_bytes: bytes stored only for the load, after each epoch.
        load_epochs: the number of epochs of the load.
    """

    began: float
    seconds: float
    state_bytes: int
    totals: dict[str, list[int]] = field(factory=dict)
    state_rows: int = 0
    past_bytes: int = 0
    epochs: list[float] = field(factory=list)
    view: float = 0.0
    floors: list[float] = field(factory=list)
    jobs: list[int] = field(factory=list)
    phases: list[dict[str, float]] = field(factory=list)
    waits: list[float] = field(factory=list)
    kept_bytes: list[int] = field(factory=list)
    load_epochs: int = 0

    def write(self, home: Path) -> None:
        """Write the measurements into a side's folder."""
        (home / FIGURES).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, home: Path) -> Self:
        """Read the measurements from a side's folder."""
        return cls(**json.loads((home / FIGURES).read_text()))


@frozen
class Ran:
    """The measurements of a side's process.

    Args:
        start: seconds from its launch until it could take its first record.
        heap: the largest heap in MiB that was left after a garbage collection of its JVM.
        used: memory and processor time.
        figures: the measurements that it wrote itself.
    """

    start: float
    heap: int
    used: Used
    figures: Figures

    @classmethod
    def of(cls, program: list[str], folder: Path, side: str) -> Self:
        """Run a side to its end, in a new folder next to its log.

        Args:
            program: the command, to which `folder` and the side's own folder are appended.
            folder: the folder of the input, which all sides share.
            side: the name of the side.

        Raises:
            RuntimeError: the side failed; its log shows why.
        """
        home = folder / side
        home.mkdir()
        launched = time()
        used = run_and_watch([*program, str(folder), str(home)], folder / f"{side}.log")
        figures = Figures.read(home)
        return cls(figures.began - launched, most_left(home / GC_LOG), used, figures)

    @classmethod
    def on_flink(cls, flink: Path, program: str, *arguments: str, folder: Path) -> Self:
        """Run a program of this folder on Flink as side ``flink``; see `of`.

        Args:
            flink: a folder with PyFlink in ``venv`` and its jars in ``jars``.
            program: the file of the program.
            arguments: its first arguments.
            folder: the folder of the input.
        """
        python = (flink / "venv" / "bin" / "python").absolute()
        return cls.of([str(python), f"benchmarks/{program}", *arguments], folder.resolve(), "flink")

    @property
    def whole(self) -> float:
        """Seconds from its launch until the last result was published."""
        return self.start + self.figures.seconds


def run_until_idle(config: Path, files: Path, log: Path) -> tuple[float, Used]:
    """Run Headwater in a process of its own, over a folder of files that becomes its folder ``in``.

    Returns the seconds from the launch of the process to its end, and what it used.
    """
    place = config.parent / "in"
    place.rmdir()
    place.symlink_to(files.resolve())
    began = perf_counter()
    used = run_and_watch([sys.executable, "-m", "headwater", "run", str(config), "--until-idle"], log)
    return perf_counter() - began, used


def spark_settings(home: Path) -> dict[str, str]:
    """Spark settings: the driver's heap, which is the same for every side, and the log of garbage collections."""
    return {
        "spark.driver.memory": _HEAP,
        "spark.driver.extraJavaOptions": f"-Xlog:gc:file={home.resolve() / GC_LOG}",
    }


def folder_bytes(folder: Path) -> int:
    """The size of all files of a folder in bytes."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def typical_and_slow(seconds: Iterable[float]) -> tuple[float, float]:
    """The median and the 95th percentile of at least two values."""
    hundredths = quantiles(seconds, n=100, method="inclusive")
    return hundredths[49], hundredths[94]


def wrong_rows(found: pl.DataFrame, right: pl.DataFrame, key: str) -> int:
    """The number of wrong rows: different, missing or extra."""
    of_right = found.select(right.columns)
    missed = right.join(of_right, on=right.columns, how="anti", nulls_equal=True).height
    strange = of_right.join(right, on=key, how="anti").height
    return missed + strange + of_right.height - of_right.unique().height


def totals_of(rows: Iterable[tuple[str, int, Decimal]]) -> dict[str, list[int]]:
    """Orders and cents by state, from orders and amounts."""
    return {state: [orders, round(amount * 100)] for state, orders, amount in rows}
