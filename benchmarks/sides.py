"""The sides of a benchmark, a process each: how they are run, what they are given, what they tell of their run."""

from __future__ import annotations

import json
from statistics import quantiles
from time import time
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
    """How a side went; what is 0, or an empty list, was not measured.

    Args:
        began: when it could take its first message, in seconds since 1970; all before was its start.
        seconds: from then until the last result was published.
        state_bytes: what it has to keep for the next record, as it lies on disk.
        totals: orders and cents by state, in the end, where that is what was asked.
        state_rows: how many rows it keeps.
        past_bytes: of the totals before the cut, on disk.
        epochs: seconds of each epoch.
        view: seconds of reading the result in the end.
        floors: seconds of a plain append of each epoch's rows.
        jobs: Spark jobs of each epoch.
        phases: the parts of each epoch's seconds.
        waits: seconds that changes, or ticks, waited until they were visible.
        kept_bytes: what was kept for the sake of a load alone, after each epoch.
        load_epochs: how many epochs the load took.
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
        """Write them into a side's folder."""
        (home / FIGURES).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, home: Path) -> Self:
        """Those of a side's folder."""
        return cls(**json.loads((home / FIGURES).read_text()))


@frozen
class Ran:
    """How a side's process went.

    Args:
        start: seconds from its launch until it could take its first record.
        heap: the most (MiB) that a collection of its JVM left.
        used: memory and processor time.
        figures: what it told.
    """

    start: float
    heap: int
    used: Used
    figures: Figures

    @classmethod
    def of(cls, program: list[str], folder: Path, side: str) -> Self:
        """Run a side to its end, in a new folder of its own beside its log.

        Args:
            program: to which `folder` and the side's own are added.
            folder: what every side is given.
            side: its name.

        Raises:
            RuntimeError: it failed; its log tells why.
        """
        home = folder / side
        home.mkdir()
        launched = time()
        used = run_and_watch([*program, str(folder), str(home)], folder / f"{side}.log")
        figures = Figures.read(home)
        return cls(figures.began - launched, most_left(home / GC_LOG), used, figures)


def spark_settings(home: Path) -> dict[str, str]:
    """The heap that every side has, and where its collections are told."""
    return {
        "spark.driver.memory": _HEAP,
        "spark.driver.extraJavaOptions": f"-Xlog:gc:file={home.resolve() / GC_LOG}",
    }


def folder_bytes(folder: Path) -> int:
    """Bytes of all files of a folder, as they lie there."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def typical_and_slow(seconds: Iterable[float]) -> tuple[float, float]:
    """The median, and what 95 of 100 do not exceed; there are two at least."""
    hundredths = quantiles(seconds, n=100, method="inclusive")
    return hundredths[49], hundredths[94]


def wrong_rows(found: pl.DataFrame, right: pl.DataFrame, key: str) -> int:
    """How many rows are not as they should be: other, missing, too many."""
    of_right = found.select(right.columns)
    missed = right.join(of_right, on=right.columns, how="anti", nulls_equal=True).height
    strange = of_right.join(right, on=key, how="anti").height
    return missed + strange + of_right.height - of_right.unique().height


def totals_of(rows: Iterable[tuple[str, int, Decimal]]) -> dict[str, list[int]]:
    """Orders and cents by state, from orders and amounts."""
    return {state: [orders, round(amount * 100)] for state, orders, amount in rows}
