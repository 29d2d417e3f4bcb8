"""One side of `benchmarks.retraction`: Headwater on Delta, next to a plain append of the same rows.

python -m benchmarks.retraction_headwater FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define, field

from headwater import Headwater

from .deployment import fresh
from .floors import floor_of
from .memory import live_heap
from .orders import COLUMNS
from .sides import Figures, totals_of

if TYPE_CHECKING:
    from headwater.app.runner import EpochReport

    from .floors import Floor

_PIPELINE = "order_states"
_COUNTING = f"""
[sources.orders]
kind = "files"
path = "in"
format = "maxwell-json"
tables = ['shop\\.orders']
schema = "{COLUMNS}, file string, at bigint, line bigint"
metadata = {{ file = "log_file", at = "log_position", line = "row" }}
key = ["order_id"]
event_time = "mtime"

[pipelines.{_PIPELINE}]
service = "retraction"
source = "orders"
group = ["state"]
measures = {{ orders = "count(*)", amount = "sum(amount)" }}
updated_at = "mtime"
identity = ["file", "at", "line"]
roll_after = "1d"
"""


@define(eq=False)
class Run:
    """A run over all messages of a folder, a file an epoch."""

    input: Path
    headwater: Headwater
    floor: Floor
    landing: Path
    reports: list[EpochReport]
    floors: list[float] = field(factory=list)
    jobs: list[int] = field(factory=list)

    def figures(self) -> Figures:
        """Run, and tell how it went."""
        for messages in sorted(self.input.glob("messages/*.json")):
            self._epoch(messages)
        began = perf_counter()
        rows = self.headwater.view(f"{_PIPELINE}.totals").collect()
        viewed = perf_counter() - began
        return Figures(
            [sum(each.seconds.values()) for each in self.reports],
            *_state(self.headwater),
            totals_of((row["state"], row["orders"], row["amount"]) for row in rows),
            live_heap(_session()),
            viewed,
            self.floors,
            self.jobs,
            {name: [each.seconds.get(name, 0.0) for each in self.reports] for name in self.reports[0].seconds},
        )

    def _epoch(self, messages: Path) -> None:
        self.floors.append(self.floor.append(self.input / "rows" / f"{messages.stem}.parquet"))
        before = self.floor.jobs()
        os.link(messages, self.landing / messages.name)
        self.headwater.run(until_idle=True)
        self.jobs.append(self.floor.jobs() - before)


def _state(headwater: Headwater) -> tuple[int, int]:
    """Bytes and rows of the pipeline's tables as they are now."""
    tables = [table.name for table in headwater.services[_PIPELINE].tables]
    snapshot = headwater.snapshot(_PIPELINE)
    rows = sum(nw.to_native(snapshot.read(name)).count() for name in tables)
    places = (Path(str(headwater.deployment.backend.path), *name.split(".")) for name in tables)
    details = (_session().sql(f"DESCRIBE DETAIL delta.`{place}`").first() for place in places if place.exists())
    return sum(detail["sizeInBytes"] for detail in details), rows


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def main() -> int:
    """Measure, and write the figures down."""
    folder = Path(sys.argv[1])
    home, reports = folder / "headwater", list["EpochReport"]()
    config = fresh(home, "delta", upkeep="", spark={"spark.driver.memory": "2g"}, work=_COUNTING)
    with Headwater.from_config(config, report=reports.append) as headwater:
        headwater.start()
        run = Run(folder, headwater, floor_of("delta", home), home / "in", reports)
        run.figures().write(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
