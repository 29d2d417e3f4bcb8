"""Count orders by state from Maxwell messages: Headwater on Delta, and streams that keep full state.

python -m benchmarks.retraction [--epochs 20] [--rows 10000 50000] [--flink FOLDER]

Each side runs in its own process, over the same messages and with the same heap; all must have the same totals.
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

from .orders import write
from .sides import Ran
from .tables import print_table

if TYPE_CHECKING:
    from .orders import Shop
    from .sides import Figures

_FOLDER = Path("var/bench/retraction")
_WARM_UP = 4
_STATES = ("heap", "rocksdb")
_SPEED = (
    *("side", "messages", "an epoch", "epoch s", "floor s", "x floor", "messages/s"),
    *("run s", "overall/s", "with start s", "jobs"),
)
_STORAGE = ("side", "messages", "state MiB", "state rows", "past MiB", "heap MiB", "peak MiB", "wrong")


@frozen
class Result:
    """The result of one side; figures per epoch are medians of the epochs after the first four."""

    side: str
    rows: int
    epochs: int
    start: float
    heap: int
    peak: float
    wrong: int
    figures: Figures

    @property
    def speed(self) -> list[str]:
        """The cells of a line of the first table."""
        run = self.figures.seconds
        jobs = self.figures.jobs[_WARM_UP:]
        return [
            *self._named,
            *(self._of_an_epoch() if self.figures.epochs else ["-"] * 5),
            f"{run:.1f}",
            f"{self._messages / run:,.0f}",
            f"{self.start + run:.1f}",
            f"{median(jobs):.0f}" if jobs else "-",
        ]

    @property
    def storage(self) -> list[str]:
        """The cells of a line of the second table."""
        figures = self.figures
        return [
            *self._named,
            f"{figures.state_bytes / 2**20:.2f}",
            f"{figures.state_rows:,}" if figures.state_rows else "-",
            f"{figures.past_bytes / 2**20:.2f}" if figures.past_bytes else "-",
            str(self.heap),
            f"{self.peak:.0f}",
            str(self.wrong),
        ]

    @property
    def _named(self) -> list[str]:
        return [self.side, f"{self._messages:,}"]

    @property
    def _messages(self) -> int:
        return self.rows * self.epochs

    def _of_an_epoch(self) -> list[str]:
        took, floors = median(self.figures.epochs[_WARM_UP:]), self.figures.floors[_WARM_UP:]
        floor = [f"{median(floors):.2f}", f"{took / median(floors):.1f}"] if floors else ["-", "-"]
        return [f"{self.rows:,}", f"{took:.2f}", *floor, f"{self.rows / took:,.0f}"]


@frozen(eq=False)
class Trial:
    """The input, which is the same for every side.

    Args:
        folder: the folder of the messages.
        rows: messages per epoch.
        epochs: the number of epochs.
        shop: the shop's state after all messages.
    """

    folder: Path
    rows: int
    epochs: int
    shop: Shop

    @classmethod
    def prepared(cls, rows: int, epochs: int) -> Self:
        """A trial with its messages written."""
        folder = _FOLDER / str(rows)
        shutil.rmtree(folder, ignore_errors=True)
        return cls(folder, rows, epochs, write(folder, epochs, rows))

    def measure(self, side: str, program: list[str]) -> Result:
        """Run one side to its end."""
        ran = Ran.of(program, self.folder, side)
        print(f"{side}, {self.epochs} epochs of {self.rows:,} messages: done", file=sys.stderr)
        wrong = self._wrong(ran.figures)
        return Result(side, self.rows, self.epochs, ran.start, ran.heap, ran.used.peak, wrong, ran.figures)

    def _wrong(self, figures: Figures) -> int:
        """The number of states whose totals differ from the shop's."""
        right = {state: [orders, self.shop.cents[state]] for state, orders in self.shop.totals.items() if orders}
        return sum(figures.totals.get(state) != right.get(state) for state in {*figures.totals, *right})


def _sides(flink: Path | None) -> dict[str, list[str]]:
    """The command of each side; the folder of the messages and the side's own folder are appended to it."""
    here = [sys.executable, "-m"]
    sides = {"headwater": [*here, "benchmarks.retraction_headwater"]}
    sides |= {f"spark-{state}": [*here, "benchmarks.retraction_streaming", state] for state in _STATES}
    if flink is None:
        print("Flink is left out: no --flink says where it is, see docs/benchmarks.md", file=sys.stderr)
        return sides
    there = [str(flink / "venv" / "bin" / "python"), "benchmarks/retraction_flink.py"]
    return sides | {f"flink-{state}": [*there, state] for state in _STATES}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help=f"more than {_WARM_UP}")
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 50_000], help="messages an epoch")
    parser.add_argument("--flink", metavar="FOLDER", type=Path, help="with PyFlink in venv, and Paimon's jars in jars")
    options = parser.parse_args()
    if options.epochs <= _WARM_UP:
        parser.error(f"--epochs: the first {_WARM_UP} warm up, and are not counted")
    return options


def main() -> int:
    """Measure, print the tables and write them as JSON; return 0 if every total is right."""
    options = _options()
    sides = _sides(options.flink)
    trials = (Trial.prepared(rows, options.epochs) for rows in options.rows)
    results = [trial.measure(side, program) for trial in trials for side, program in sides.items()]
    print_table([[*_SPEED], *(result.speed for result in results)])
    print()
    print_table([[*_STORAGE], *(result.storage for result in results)])
    file = _FOLDER / "retraction.json"
    file.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    print(f"written to {file}")
    return 1 if any(result.wrong for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
