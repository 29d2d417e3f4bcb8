"""Count the files of a ranking pipeline over many small epochs, and time its reads, with and without upkeep.

python -m benchmarks.upkeep [--backend delta] [--epochs 500] [--rows 200] [--every 50]

A reader holds a lease on the first epoch all the time, and must find it unchanged at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen

from headwater import Headwater
from headwater.domain.errors import VersionExpired

from .data import write_epoch
from .deployment import PIPELINE, fresh
from .reading import drain

if TYPE_CHECKING:
    from headwater.app.run.report import EpochReport

_FOLDER = Path("var/bench")
_UPKEEP = {
    "none": "compact_every = 0",
    "compact": "compact_every = 16",
    "compact and expire": "compact_every = 16\nexpire_every = 16\nretain = { versions = 5 }",
}
_SPARK = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "1"}


@frozen
class Sample:
    """Measurements after some epochs; seconds of an epoch are the median of the epochs since the last sample."""

    backend: str
    upkeep: str
    epochs: int
    data_files: int
    log_files: int
    mebibytes: float
    epoch: float
    upkeep_share: float
    view: float


@define(eq=False)
class Trial:
    """One way of upkeep."""

    backend: str
    upkeep: str
    rows: int
    folder: Path = field(init=False)
    config: Path = field(init=False)
    reports: list[EpochReport] = field(factory=list)
    files: int = 0

    def __attrs_post_init__(self) -> None:
        self.folder = _FOLDER / f"upkeep-{self.backend}-{self.upkeep.replace(' ', '-')}"
        self.config = fresh(self.folder, self.backend, upkeep=_UPKEEP[self.upkeep], spark=_SPARK)

    def samples(self, epochs: int, every: int) -> list[Sample]:
        with Headwater.from_config(self.config, report=self.reports.append) as headwater:
            self._bring(headwater, 1)
            first = _ranks(headwater, 0)
            found = []
            with headwater.pin(PIPELINE, at=0, hold=timedelta(days=1), holder="benchmark") as pin:
                for _ in range(epochs // every):
                    self._bring(headwater, every)
                    found.append(self._sample(headwater, every))
                    _print(found[-1])
                assert _ranks(headwater, pin.epoch) == first
            self._check_unleased(headwater)
            return found

    def _bring(self, headwater: Headwater, count: int) -> None:
        for _ in range(count):
            self.files += 1
            file = self.folder / "in" / f"{self.files:04d}.parquet"
            write_epoch(self.files, self.files * self.rows, file, late_share=0.01, rows=self.rows)
        headwater.run(until_idle=True)

    def _sample(self, headwater: Headwater, every: int) -> Sample:
        files = [file for file in self.folder.glob("lake/**/*") if file.is_file() and file.suffix != ".crc"]
        log = [file for file in files if not {"_delta_log", ".hoodie"}.isdisjoint(file.parts)]
        lately = [sum(report.seconds.values()) for report in self.reports[-every:]]
        kept_up = [report.seconds.get(name, 0.0) for report in self.reports[-every:] for name in ("compact", "expire")]
        size = sum(file.stat().st_size for file in files) / 2**20
        views = [_timed(headwater) for _ in range(3)]
        return Sample(
            self.backend,
            self.upkeep,
            self.files,
            len(files) - len(log),
            len(log),
            size,
            median(lately),
            sum(kept_up) / sum(lately),
            median(views),
        )

    def _check_unleased(self, headwater: Headwater) -> None:
        """Check that versions without a lease have expired, if this way of upkeep expires any."""
        headwater.upkeep(PIPELINE).expire(dry_run=False)
        try:
            headwater.view(f"{PIPELINE}.ranks", at=0)
        except VersionExpired:
            assert "expire" in self.upkeep
        else:
            assert "expire" not in self.upkeep


def _ranks(headwater: Headwater, epoch: int) -> list[Any]:
    return sorted(tuple(row) for row in headwater.view(f"{PIPELINE}.ranks", at=epoch).collect())


def _timed(headwater: Headwater) -> float:
    began = perf_counter()
    drain(headwater.view(f"{PIPELINE}.ranks"))
    return perf_counter() - began


def _print(sample: Sample) -> None:
    took = f"epoch {sample.epoch:5.2f} s, upkeep {sample.upkeep_share:4.0%}, view {sample.view:6.2f} s"
    files = f"{sample.data_files:6d} data files  {sample.log_files:6d} log files  {sample.mebibytes:7.1f} MiB"
    print(f"{sample.backend:>8} {sample.upkeep:>18}  {sample.epochs:5d} epochs  {files}  {took}", flush=True)


def main() -> int:
    """Measure each way of upkeep, print samples, and write them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--backend", default="delta")
    parser.add_argument("--upkeep", nargs="+", choices=list(_UPKEEP), default=list(_UPKEEP))
    given = parser.parse_args()
    trials = (Trial(given.backend, each, given.rows) for each in given.upkeep)
    found = [sample for trial in trials for sample in trial.samples(given.epochs, given.every)]
    (_FOLDER / f"upkeep-{given.backend}.json").write_text(json.dumps([asdict(sample) for sample in found], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
