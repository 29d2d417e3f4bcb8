"""One side of `benchmarks.cumulate`: Headwater, and before each epoch a plain append of the same rows.

python -m benchmarks.cumulate_headwater BACKEND FOLDER HOME
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import perf_counter, time
from typing import TYPE_CHECKING

from attrs import define, field

from headwater import Headwater

from .deployment import fresh
from .floors import floor_of
from .page_views import COLUMNS, HOURS, curve_of
from .reading import drain
from .sides import Figures, folder_bytes, spark_settings

if TYPE_CHECKING:
    from headwater.app.runner import EpochReport

    from .floors import Floor

_TICKS = "page_views.ticks"
_WORK = f"""
[sources.views]
kind = "files"
path = "in"
format = "parquet"
schema = "{COLUMNS}"
event_time = "at"
watermark_delay = "1m"
[pipelines.page_views]
service = "cumulate"
source = "views"
step = "1m"
size = "{HOURS}h"
dimensions = [["page"], []]
measures = {{ pv = "count(*)", uv = "count(distinct visitor)" }}
ticks = "dense"
"""


@define(eq=False)
class Run:
    """A run over all views of a folder, a file an epoch."""

    folder: Path
    home: Path
    headwater: Headwater
    floor: Floor
    reports: list[EpochReport]
    floors: list[float] = field(factory=list)
    epochs: list[float] = field(factory=list)
    jobs: list[int] = field(factory=list)

    def figures(self) -> Figures:
        """Run, and tell how it went."""
        began = time()
        for file in sorted((self.folder / "rows").iterdir()):
            self.floors.append(self.floor.append(file))
            self._epoch(file)
        asked = perf_counter()
        drain(self.headwater.view(_TICKS))
        viewed = perf_counter() - asked
        curve_of(self.headwater.view(_TICKS)).write.parquet(str((self.home / "rows").resolve()))
        return Figures(
            began,
            sum(self.epochs),
            state_bytes=folder_bytes(self.home / "lake"),
            epochs=self.epochs,
            view=viewed,
            floors=self.floors,
            jobs=self.jobs,
            phases=[dict(each.seconds) for each in self.reports],
        )

    def _epoch(self, file: Path) -> None:
        os.link(file, self.home / "in" / file.name)
        before, began = self.floor.jobs(), perf_counter()
        self.headwater.run(until_idle=True)
        self.epochs.append(perf_counter() - began)
        self.jobs.append(self.floor.jobs() - before)


def main() -> int:
    """Measure, and write the figures down."""
    backend, (folder, home) = sys.argv[1], map(Path, sys.argv[2:])
    reports = list["EpochReport"]()
    config = fresh(home, backend, upkeep="", spark=spark_settings(home), work=_WORK)
    with Headwater.from_config(config, report=reports.append) as headwater:
        headwater.start()
        Run(folder, home, headwater, floor_of(backend, home), reports).figures().write(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
