"""Compares the sides of a benchmark that read the same records in epochs: one line for each side."""

from __future__ import annotations

import json
import sys
from statistics import median
from typing import TYPE_CHECKING

import polars as pl
from attrs import asdict, frozen

from .sides import Ran
from .tables import print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from .sides import Figures

WARM_UP = 4
"""The number of first epochs that are not counted."""

_LAST = 3
_HEAD = (
    *("side", "records", "epochs", "epoch s", "last s", "floor s", "x floor", "records/s"),
    *("run s", "overall/s", "with start s", "jobs", "read s", "disk MiB", "heap MiB", "peak MiB", "cpu s", "wrong"),
)


@frozen
class Result:
    """The result of one side; figures per epoch are medians of the epochs after the first four.

    Args:
        side: the name of the side.
        rows: records per epoch.
        records: records in total.
        floor: seconds of a plain append of an epoch's records.
        wrong: the number of wrong rows: different, missing or extra.
        ran: the measurements of its process.
    """

    side: str
    rows: int
    records: int
    floor: float
    wrong: int
    ran: Ran

    @property
    def cells(self) -> list[str]:
        """The cells of a line of the table."""
        figures, run = self.ran.figures, self.ran.figures.seconds
        jobs = figures.jobs[WARM_UP:]
        return [
            self.side,
            f"{self.records:,}",
            *(self._of_an_epoch(figures) if figures.epochs else ["-"] * 6),
            f"{run:.1f}",
            f"{self.records / run:,.0f}",
            f"{self.ran.start + run:.1f}",
            f"{median(jobs):.0f}" if jobs else "-",
            f"{figures.view:.2f}",
            f"{figures.state_bytes / 2**20:.1f}",
            str(self.ran.heap),
            f"{self.ran.used.peak:.0f}",
            f"{self.ran.used.cpu:.0f}",
            str(self.wrong),
        ]

    def _of_an_epoch(self, figures: Figures) -> list[str]:
        took = median(figures.epochs[WARM_UP:])
        last, ratio = median(figures.epochs[-_LAST:]), f"{took / self.floor:.1f}"
        return [
            *(str(len(figures.epochs)), f"{took:.2f}", f"{last:.2f}"),
            *(f"{self.floor:.2f}", ratio, f"{self.rows / took:,.0f}"),
        ]


@frozen
class Trial:
    """The input, which is the same for every side.

    Args:
        folder: the folder of the records, in which each side has its own folder.
        rows: records per epoch.
        records: records in total.
        wrong: counts the wrong rows among those that a side wrote into ``rows`` of its folder.
    """

    folder: Path
    rows: int
    records: int
    wrong: Callable[[pl.DataFrame], int]

    def measured(self, sides: Mapping[str, list[str]]) -> list[Result]:
        """Run sides to their end, one after the other.

        Args:
            sides: the command of each side by its name; the trial's folder and the side's own folder are appended to
                it. A side without its own floor is compared with the floor of the first side.
        """
        results: list[Result] = []
        for side, program in sides.items():
            ran = Ran.of(program, self.folder, side)
            found = pl.read_parquet(self.folder / side / "rows" / "[!_.]*")
            print(f"{side}, {self.records:,} records: done", file=sys.stderr)
            own = ran.figures.floors[WARM_UP:]
            assert own or results, "the first side has no floor"
            floor = median(own) if own else results[0].floor
            results.append(Result(side, self.rows, self.records, floor, self.wrong(found), ran))
        return results


def tell(results: Sequence[Result], file: Path) -> int:
    """Print the table and write it as JSON; return 0 if every row is right."""
    print_table([[*_HEAD], *(result.cells for result in results)])
    file.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    print(f"written to {file}")
    return 1 if any(result.wrong for result in results) else 0
