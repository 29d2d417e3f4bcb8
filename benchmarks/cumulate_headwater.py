"""One side of `benchmarks.cumulate`: Headwater, and before each epoch a plain append of the same rows.

python -m benchmarks.cumulate_headwater BACKEND FOLDER HOME
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headwater import Headwater

from .deployment import fresh
from .epochs import Epochs, Run
from .floors import floor_of
from .page_views import COLUMNS, curve_of
from .sides import spark_settings

if TYPE_CHECKING:
    from headwater.app.run.report import EpochReport

TICKS = "page_views.ticks"
WORK = f"""
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
size = "1d"
dimensions = [["page"], []]
measures = {{ pv = "count(*)", uv = "count(distinct visitor)" }}
ticks = "dense"
"""


def main() -> int:
    """Measure, and write the figures to a file."""
    backend, (folder, home) = sys.argv[1], map(Path, sys.argv[2:])
    reports = list["EpochReport"]()
    config = fresh(home, backend, upkeep="", spark=spark_settings(home), work=WORK)
    with Headwater.from_config(config, report=reports.append) as headwater:
        headwater.start()
        epochs = Epochs(headwater, floor_of(backend, home))
        run = Run(folder, home, epochs, reports, lambda file: os.link(file, home / "in" / file.name), TICKS)
        run.figures(curve_of).write(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
