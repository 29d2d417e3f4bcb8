"""Join two topics by their key: Headwater's wide table next to a plain append, a join on Spark, and Paimon's tables.

python -m benchmarks.wide_table [--keys 200000] [--rows 50000] [--backends delta hudi-mor] [--flink FOLDER]

Each side runs in a process of its own, over the same records, with the same heap; all must come to the same rows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import polars as pl
from attrs import asdict, frozen

from . import items
from .sides import Ran, wrong_rows
from .tables import print_table

if TYPE_CHECKING:
    from .sides import Figures

_FOLDER = Path("var/bench/wide_table")
_WARM_UP = 4
_LAST = 3
_HEAD = (
    *("side", "records", "epochs", "epoch s", "last s", "floor s", "x floor", "records/s"),
    *("run s", "overall/s", "with start s", "jobs", "read s", "disk MiB", "heap MiB", "peak MiB", "cpu s", "wrong"),
)


@frozen
class Result:
    """What came of one side; an epoch's figures are medians, of the epochs after the first four.

    Args:
        side: its name.
        rows: records of an epoch.
        records: all of them.
        floor: seconds of a plain append of an epoch's records.
        wrong: rows that are not as they should be.
        ran: how it went.
    """

    side: str
    rows: int
    records: int
    floor: float
    wrong: int
    ran: Ran

    @property
    def cells(self) -> list[str]:
        """A line of the table."""
        figures, run = self.ran.figures, self.ran.figures.seconds
        jobs = figures.jobs[_WARM_UP:]
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
        took = median(figures.epochs[_WARM_UP:])
        last, ratio = median(figures.epochs[-_LAST:]), f"{took / self.floor:.1f}"
        return [
            *(str(len(figures.epochs)), f"{took:.2f}", f"{last:.2f}"),
            *(f"{self.floor:.2f}", ratio, f"{self.rows / took:,.0f}"),
        ]


@frozen
class Trial:
    """The same records for every side."""

    folder: Path
    rows: int
    records: int
    right: pl.DataFrame

    @classmethod
    def prepared(cls, count: int, rows: int) -> Trial:
        """A trial whose records are written."""
        folder = _FOLDER / str(count)
        shutil.rmtree(folder, ignore_errors=True)
        items.write(folder, count, rows)
        (records,) = pl.scan_parquet(folder / "rows" / "*.parquet").select(pl.len()).collect()["len"]
        return cls(folder, rows, records, pl.read_parquet(folder / items.RIGHT))

    def measure(self, side: str, program: list[str], floor: float | None) -> Result:
        """Run one side to its end; it is held against its own floor if it has one."""
        ran = Ran.of(program, self.folder, side)
        found = pl.read_parquet(self.folder / side / "rows" / "[!_.]*")
        print(f"{side}, {self.records:,} records: done", file=sys.stderr)
        own = ran.figures.floors[_WARM_UP:]
        floor = median(own) if own else floor
        assert floor is not None, "the first side has no floor"
        return Result(side, self.rows, self.records, floor, wrong_rows(found, self.right, items.KEY), ran)


def _sides(options: argparse.Namespace) -> dict[str, list[str]]:
    """The program of each side, to which the folder of the records and one of its own are added."""
    here = [sys.executable, "-m"]
    sides = {backend: [*here, "benchmarks.wide_headwater", backend] for backend in options.backends}
    sides["spark-join"] = [*here, "benchmarks.wide_rejoin", str(options.every)]
    if options.flink is None:
        print("Paimon is left out: no --flink says where Flink is, see docs/benchmarks.md", file=sys.stderr)
        return sides
    there = [str(options.flink / "venv" / "bin" / "python"), "benchmarks/wide_paimon.py"]
    return sides | {f"paimon-{way}": [*there, way] for way in ("epochs", "stream")}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=200_000, help="each topic tells of all of them")
    parser.add_argument("--rows", type=int, default=50_000, help="records an epoch, of both topics together")
    parser.add_argument("--backends", nargs="+", default=["delta", "hudi-mor"], help="the first one gives the floor")
    parser.add_argument("--every", type=int, default=1, help="epochs after which Spark joins anew")
    parser.add_argument("--flink", metavar="FOLDER", type=Path, help="with PyFlink in venv, and its jars in jars")
    options = parser.parse_args()
    if 2 * options.keys <= _WARM_UP * options.rows:
        parser.error(f"--rows: the first {_WARM_UP} epochs warm up, and are not counted; make them smaller")
    return options


def main() -> int:
    """Measure, print the table, and write it as JSON; 0 if every row is right."""
    options = _options()
    trial = Trial.prepared(options.keys, options.rows)
    results: list[Result] = []
    for side, program in _sides(options).items():
        results.append(trial.measure(side, program, results[0].floor if results else None))
    print_table([[*_HEAD], *(result.cells for result in results)])
    file = _FOLDER / f"wide-table-{options.keys}.json"
    file.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    print(f"written to {file}")
    return 1 if any(result.wrong for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
