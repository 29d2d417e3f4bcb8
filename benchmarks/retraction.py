"""Count orders by state from Maxwell's messages: Headwater on Delta next to streams that keep their state in full.

python -m benchmarks.retraction [--epochs 20] [--rows 10000 50000] [--flink PYTHON_WITH_PYFLINK]

Each side runs in a process of its own, over the same files, with the same heap; all must come to the same totals.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Self

from attrs import asdict, frozen

from .memory import run_and_watch
from .orders import write
from .sides import Figures
from .tables import print_table

if TYPE_CHECKING:
    from .orders import Shop

_FOLDER = Path("var/bench/retraction")
_WARM_UP = 4
_HEAD = [
    "side",
    "messages",
    "an epoch",
    "epoch s",
    "floor s",
    "x floor",
    "messages/s",
    "overall/s",
    "state MiB",
    "state rows",
    "live heap MiB",
    "peak MiB",
    "jobs",
    "wrong",
]


@frozen
class Row:
    """One line of the table: medians in seconds, of the epochs after the first four."""

    side: str
    rows: int
    epochs: int
    peak: float
    wrong: int
    figures: Figures

    @property
    def _messages(self) -> int:
        return self.rows * self.epochs

    @property
    def cells(self) -> list[str]:
        """As the printed table shows them."""
        figures, by_epoch = self.figures, len(self.figures.seconds) == self.epochs
        return [
            self.side,
            f"{self._messages:,}",
            *(self._of_an_epoch() if by_epoch else ["-"] * 5),
            f"{self._messages / sum(figures.seconds):,.0f}",
            f"{figures.state_bytes / 2**20:.2f}",
            f"{figures.state_rows:,}" if figures.state_rows else "-",
            f"{figures.live_heap:.0f}",
            f"{self.peak:.0f}",
            f"{median(figures.jobs[_WARM_UP:]):.0f}" if figures.jobs else "-",
            str(self.wrong),
        ]

    def _of_an_epoch(self) -> list[str]:
        took, floors = median(self.figures.seconds[_WARM_UP:]), self.figures.floors[_WARM_UP:]
        floor = [f"{median(floors):.2f}", f"{took / median(floors):.1f}"] if floors else ["-", "-"]
        return [f"{self.rows:,}", f"{took:.2f}", *floor, f"{self.rows / took:,.0f}"]


@frozen(eq=False)
class Trial:
    """The same messages for every side.

    Args:
        folder: where they lie.
        rows, epochs: messages an epoch, and how many of these.
        shop: as they leave it.
    """

    folder: Path
    rows: int
    epochs: int
    shop: Shop

    @classmethod
    def prepared(cls, rows: int, epochs: int) -> Self:
        """A trial whose messages are written."""
        folder = _FOLDER / str(rows)
        shutil.rmtree(folder, ignore_errors=True)
        return cls(folder, rows, epochs, write(folder, epochs, rows))

    def measure(self, side: str, command: list[str]) -> Row:
        """Run one side to its end."""
        peak = run_and_watch([*command, str(self.folder)], self.folder / f"{side}.log")
        figures = Figures.read(self.folder / side)
        print(f"{side}, {self.epochs} epochs of {self.rows:,} messages: done", file=sys.stderr)
        return Row(side, self.rows, self.epochs, peak, self._wrong(figures), figures)

    def _wrong(self, figures: Figures) -> int:
        """How many states' totals are not the shop's."""
        right = {state: [orders, self.shop.cents[state]] for state, orders in self.shop.totals.items() if orders}
        return sum(figures.totals.get(state) != right.get(state) for state in {*figures.totals, *right})


def main() -> int:
    """Measure, print the table, and write it as JSON; 0 if every total is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 50_000], help="messages an epoch")
    parser.add_argument("--flink", metavar="PYTHON", help="an interpreter that has PyFlink; without, Flink is left out")
    options = parser.parse_args()
    here = [sys.executable, "-m"]
    sides = {
        "headwater": [*here, "benchmarks.retraction_headwater"],
        "streaming": [*here, "benchmarks.retraction_streaming"],
    }
    if options.flink:
        sides["flink"] = [options.flink, "benchmarks/retraction_flink.py"]
    trials = (Trial.prepared(rows, options.epochs) for rows in options.rows)
    rows = [trial.measure(side, command) for trial in trials for side, command in sides.items()]
    print_table([_HEAD, *(row.cells for row in rows)])
    result = _FOLDER / "retraction.json"
    result.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(f"written to {result}")
    return 1 if any(row.wrong for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
