"""One side of `benchmarks.retraction`: Headwater on Delta, and after that a plain append of the same rows.

python -m benchmarks.retraction_headwater FOLDER HOME
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

import narwhals as nw
from attrs import define

from headwater import Headwater

from .deployment import fresh
from .epochs import Epochs
from .floors import floor_of
from .orders import COLUMNS
from .sides import Figures, spark_settings, totals_of

if TYPE_CHECKING:
    from headwater.app.run.report import EpochReport

_PIPELINE = "order_states"
COUNTING = f"""
[sources.orders]
kind = "files"
path = "in"
format = "maxwell-json"
tables = ['shop\\.orders']
schema = "{COLUMNS}"
key = ["order_id"]
event_time = "mtime"

[pipelines.{_PIPELINE}]
service = "retraction"
source = "orders"
group = ["state"]
measures = {{ orders = "count(*)", amount = "sum(amount)" }}
updated_at = "mtime"
roll_after = "1d"
"""


@define(eq=False)
class Run:
    """A run over all messages of a folder, one file per epoch."""

    folder: Path
    home: Path
    epochs: Epochs
    reports: list[EpochReport]

    def figures(self) -> Figures:
        """Run, and return the measurements."""
        began = time()
        for messages in sorted(self.folder.glob("messages/*.json")):
            os.link(messages, self.home / "in" / messages.name)
            self.epochs.run()
        asked = perf_counter()
        rows = self.epochs.headwater.view(f"{_PIPELINE}.totals").collect()
        viewed = perf_counter() - asked
        live, past = _tables(self.epochs.headwater)
        return Figures(
            began,
            sum(self.epochs.seconds),
            state_bytes=sum(map(self._bytes, live)),
            totals=totals_of((row["state"], row["orders"], row["amount"]) for row in rows),
            state_rows=sum(map(self._rows, live)),
            past_bytes=sum(map(self._bytes, past)),
            epochs=self.epochs.seconds,
            view=viewed,
            floors=[self.epochs.floor.append(rows) for rows in sorted(self.folder.glob("rows/*.parquet"))],
            jobs=self.epochs.jobs,
            phases=[dict(each.seconds) for each in self.reports],
        )

    def _bytes(self, table: str) -> int:
        """Bytes of the files of a table's current version."""
        place = (self.home / "lake").resolve().joinpath(*table.split("."))
        return int(_session().sql(f"DESCRIBE DETAIL delta.`{place}`").first()["sizeInBytes"])

    def _rows(self, table: str) -> int:
        return int(nw.to_native(self.epochs.headwater.snapshot(_PIPELINE).read(table)).count())


def _tables(headwater: Headwater) -> tuple[list[str], list[str]]:
    """The tables of the pipeline: those for the days since the cut, and those for the past."""
    tables = [table.name for table in headwater.services[_PIPELINE].tables]
    past = [name for name in tables if name.startswith(f"{_PIPELINE}.past")]
    return [name for name in tables if name not in past], past


def _session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def main() -> int:
    """Measure, and write the figures to a file."""
    folder, home = map(Path, sys.argv[1:])
    reports = list["EpochReport"]()
    config = fresh(home, "delta", upkeep="", spark=spark_settings(home), work=COUNTING)
    with Headwater.from_config(config, report=reports.append) as headwater:
        headwater.start()
        epochs = Epochs(headwater, floor_of("delta", home))
        Run(folder, home, epochs, reports).figures().write(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
