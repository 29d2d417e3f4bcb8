"""Measure ranking epochs of 10,000 rows after larger and larger pasts, with the floor and the full recompute.

python -m benchmarks.run [--backends delta hudi-mor hudi-mor:local memory] [--pasts 100000 1000000 5000000] [--epochs 8]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from attrs import asdict, define, field, frozen

from headwater import Headwater

from .data import EPOCH_ROWS, write_epoch, write_past
from .deployment import PIPELINE, fresh
from .floors import append_by_delta_rs, floor_of
from .reading import drain
from .tables import print_table

if TYPE_CHECKING:
    from headwater.app.run.report import EpochReport

    from .floors import Floor

_FOLDER = Path("var/bench")
_WARM_UP = 4


@frozen
class Row:
    """One line of the table: medians in seconds, and their ratios to the floor of the same run."""

    backend: str
    past: int
    floor: float
    delta_rs: float
    in_order: float
    late: float
    compaction: float
    recompute: float
    load: float
    view: float
    jobs: float
    phases: dict[str, float]

    @property
    def cells(self) -> list[str]:
        """The cells of the printed table."""
        return [
            self.backend,
            f"{self.past:,}",
            f"{self.floor:.3f}",
            f"{self.delta_rs:.3f}",
            f"{self.in_order:.3f}",
            f"{self.in_order / self.floor:.1f}",
            f"{self.late:.3f}",
            f"{self.late / self.floor:.1f}",
            f"{self.recompute:.2f}",
            f"{self.recompute / self.in_order:.1f}",
            f"{self.compaction:.2f}",
            f"{self.view:.2f}",
            f"{self.jobs:.0f}",
        ]


_HEAD = [
    "backend",
    "past rows",
    "floor s",
    "delta-rs s",
    "epoch s",
    "x floor",
    "1 % late s",
    "x floor",
    "recompute s",
    "/ epoch",
    "compact s",
    "view s",
    "jobs",
]


@define(eq=False)
class Trial:
    """Measures one backend with one size of the past."""

    backend: str
    past: int
    epochs: int
    folder: Path = field(init=False)
    config: Path = field(init=False)
    reports: list[EpochReport] = field(factory=list)
    files: int = 0
    next_id: int = 0

    def __attrs_post_init__(self) -> None:
        self.folder = _FOLDER / f"{self.backend.replace(':', '-')}-{self.past}"
        upkeep = f"compact_every = {_WARM_UP + 2 * self.epochs + 1}"
        self.config = fresh(self.folder, self.backend, upkeep=upkeep, spark={"spark.driver.memory": "8g"})

    def measure(self) -> Row:
        with Headwater.from_config(self.config, report=self.reports.append) as headwater:
            headwater.start()
            floor = floor_of(self.backend, self.folder)
            load = self._load(headwater, floor)
            for _ in range(_WARM_UP):
                self._epoch(headwater, floor, late_share=0.01)
            pairs = [
                (self._epoch(headwater, floor), self._epoch(headwater, floor, late_share=0.01))
                for _ in range(self.epochs)
            ]
            compaction = self.reports[-1].seconds.get("compact", 0.0)
            calm, late = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            began = perf_counter()
            drain(headwater.view(f"{PIPELINE}.ranks"))
            viewed = perf_counter() - began
            return Row(
                self.backend,
                self.past,
                floor=median(each.floor for each in (*calm, *late)),
                delta_rs=median(each.delta_rs for each in (*calm, *late)),
                in_order=median(each.seconds for each in calm),
                late=median(each.seconds for each in late),
                compaction=compaction,
                recompute=median(floor.recompute() for _ in range(2)),
                load=load,
                view=viewed,
                jobs=median(each.jobs for each in calm),
                phases={name: median(each.phases.get(name, 0.0) for each in calm) for name in calm[0].phases},
            )

    def _load(self, headwater: Headwater, floor: Floor) -> float:
        file = self._next_file()
        write_past(self.past, file)
        self.next_id = self.past
        floor.append(file)
        headwater.run(until_idle=True)
        return sum(self.reports[-1].seconds.values())

    def _epoch(self, headwater: Headwater, floor: Floor, late_share: float = 0.0) -> _Epoch:
        file = self._next_file()
        write_epoch(self.files, self.next_id, file, late_share=late_share)
        self.next_id += EPOCH_ROWS
        plain, jobs = floor.append(file), floor.jobs()
        by_delta_rs = append_by_delta_rs(file, self.folder)
        headwater.run(until_idle=True)
        phases = {name: took for name, took in self.reports[-1].seconds.items() if name != "compact"}
        return _Epoch(plain, by_delta_rs, sum(phases.values()), floor.jobs() - jobs, phases)

    def _next_file(self) -> Path:
        self.files += 1
        return self.folder / "in" / f"{self.files:04d}.parquet"


@frozen
class _Epoch:
    floor: float
    delta_rs: float
    seconds: float
    jobs: int
    phases: dict[str, float]


def main() -> int:
    """Measure, print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    named = ["delta", "hudi-mor:local", "hudi-mor", "hudi-cow:local", "hudi-cow", "memory"]
    parser.add_argument("--backends", nargs="+", default=named)
    parser.add_argument("--pasts", nargs="+", type=int, default=[100_000, 1_000_000, 5_000_000])
    parser.add_argument("--epochs", type=int, default=8)
    arguments = parser.parse_args()
    rows: list[Row] = []
    for backend in arguments.backends:
        for past in arguments.pasts:
            rows.append(Trial(backend, past, arguments.epochs).measure())
            print(f"{backend}, {past:,} rows of past: done", file=sys.stderr)
    print_table([_HEAD, *(row.cells for row in rows)])
    result = _FOLDER / "ranking.json"
    result.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(f"written to {result}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
