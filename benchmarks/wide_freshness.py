"""The freshness and the cost of reading a merge-on-read wide table on Hudi: snapshot reads, and base files only.

python -m benchmarks.wide_freshness [--keys 200000] [--rows 20000] [--every 4] [--compact-every 8]

The same records are merged once without compaction and once with it. After every `--every` epochs, both kinds of reads
run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own name for it

from headwater import Headwater

from . import items
from .reading import drain
from .tables import print_table
from .wide_headwater import PIPELINE, arrive, deployment

if TYPE_CHECKING:
    from headwater.app.run.report import EpochReport

_FOLDER = Path("var/bench/wide_freshness")
_READS = 3
_AT = {topic: items.columns(topic)[0] for topic in items.TOPICS}
_HEAD = (
    *("compact every", "epochs", "epoch s", "compact s", "snapshot s", "base files s"),
    *("rows", "rows behind", "epochs behind", "seconds behind"),
)


@frozen
class Sample:
    """Measurements after some epochs. Seconds are medians; those of an epoch are over the epochs since the last sample.

    Args:
        compact_every: epochs between two compactions; 0 for no compaction.
        epochs: the number of epochs so far.
        epoch: seconds of an epoch, without compaction.
        compaction: seconds of the compaction since the last sample; 0 if there was none.
        snapshot: seconds of a snapshot read of all rows.
        base: seconds of reading base files only.
        rows: the number of rows.
        rows_behind: the number of rows that base files lack or have in an older state.
        epochs_behind: the number of epochs after the newest one that base files show.
        seconds_behind: the time between the publications of that epoch and the newest one.
    """

    compact_every: int
    epochs: int
    epoch: float
    compaction: float
    snapshot: float
    base: float
    rows: int
    rows_behind: int
    epochs_behind: int
    seconds_behind: float

    @property
    def cells(self) -> list[str]:
        """The cells of a line of the table."""
        return [
            str(self.compact_every or "never"),
            str(self.epochs),
            *(f"{seconds:.2f}" for seconds in (self.epoch, self.compaction, self.snapshot, self.base)),
            f"{self.rows:,}",
            f"{self.rows_behind:,}",
            str(self.epochs_behind),
            f"{self.seconds_behind:.1f}",
        ]


@define(eq=False)
class Trial:
    """A run of all epochs.

    Args:
        folder: the folder of the records.
        home: the folder of the run.
        compact_every: epochs between two compactions.
        size: records of a topic in an epoch.
    """

    folder: Path
    home: Path
    compact_every: int
    size: int
    reports: list[EpochReport] = field(factory=list)
    published: list[float] = field(factory=list)

    def samples(self, every: int) -> list[Sample]:
        config = deployment(self.home, "hudi-mor", f"compact_every = {self.compact_every}")
        with Headwater.from_config(config, report=self.reports.append) as headwater:
            found = []
            for number, file in enumerate(sorted((self.folder / "rows").iterdir()), start=1):
                arrive(self.folder, self.home, file.name)
                headwater.run(until_idle=True)
                self.published.append(time())
                if number % every == 0:
                    found.append(self._sample(headwater, every))
            return found

    def _sample(self, headwater: Headwater, every: int) -> Sample:
        lately = [report.seconds for report in self.reports[-every:]]
        compacted = [each.get("compact", 0.0) for each in lately]
        views = [headwater.view(f"{PIPELINE}.rows", read_optimized=alone) for alone in (False, True)]
        snapshot, base = (median(_seconds(view) for _ in range(_READS)) for view in views)
        rows, behind, shown = self._behind(*views)
        return Sample(
            self.compact_every,
            len(self.published),
            median(sum(each.values()) - took for each, took in zip(lately, compacted, strict=True)),
            sum(compacted),
            snapshot,
            base,
            rows,
            behind,
            len(self.published) - shown,
            self.published[-1] - (self.published[shown - 1] if shown else self.published[0]),
        )

    def _behind(self, snapshot: Any, base: Any) -> tuple[int, int, int]:
        """The number of rows, of rows that are behind in base files, and of epochs that base files show."""
        older = base.select(items.KEY, *(F.col(at).alias(f"old_{at}") for at in _AT.values()))
        as_new = [F.col(at).eqNullSafe(F.col(f"old_{at}")) for at in _AT.values()]
        newest = F.max(F.greatest(*(f"old_{at}" for at in _AT.values())))
        counts = snapshot.join(older, items.KEY, "left").agg(
            F.count("*"), F.count(F.when(~(as_new[0] & as_new[1]), 1)), newest
        )
        rows, behind, at = counts.first()
        return rows, behind, 0 if at is None else at // self.size + 1


def _seconds(frame: Any) -> float:
    began = perf_counter()
    drain(frame)
    return perf_counter() - began


def main() -> int:
    """Measure, print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=20_000, help="records an epoch, of both topics together")
    parser.add_argument("--every", type=int, default=4, help="epochs between two samples")
    parser.add_argument("--compact-every", type=int, default=8, help="epochs between two compactions")
    given = parser.parse_args()
    shutil.rmtree(_FOLDER, ignore_errors=True)
    items.write(_FOLDER, given.keys, given.rows)
    size = given.rows // len(items.TOPICS)
    found = [
        sample
        for compact_every in (0, given.compact_every)
        for sample in Trial(_FOLDER, _FOLDER / str(compact_every), compact_every, size).samples(given.every)
    ]
    print_table([[*_HEAD], *(sample.cells for sample in found)])
    file = _FOLDER / "wide-freshness.json"
    file.write_text(json.dumps([asdict(sample) for sample in found], indent=1) + "\n")
    print(f"written to {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
