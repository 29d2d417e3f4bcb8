"""One side of `benchmarks.bulk_merge`: Headwater loads the bulk, while changes arrive at a steady pace.

python -m benchmarks.bulk_headwater BACKEND EVERY FOLDER HOME
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from time import sleep, time
from typing import TYPE_CHECKING

from attrs import define, field

from headwater import Headwater

from .accounts import DDL
from .deployment import fresh
from .reading import drain
from .sides import Figures, folder_bytes, spark_settings

if TYPE_CHECKING:
    from headwater.app.runner import Runner

PIPELINE = "accounts"
_KEPT_FOR_THE_LOAD = ("waiting", "tombstones", "chunks", "load")
_WORK = """
[sources.log]
kind = "files"
path = "in"
format = "parquet"
files_per_epoch = 1000
schema = "kind string, {ddl}, at timestamp"
row_kind = "kind"
event_time = "at"

[pipelines.{pipeline}]
service = "bulk_merge"
key = ["account"]
columns = ["owner", "balance"]
changelog = "log"
bulk = {{ path = "{bulk}", format = "parquet" }}
position = "pos"
"""


@define(eq=False)
class Feeder:
    """Lets files of changes arrive, one after the other, each at its time."""

    folder: Path
    home: Path
    every: float
    arrived: list[float] = field(factory=list)

    def run(self) -> None:
        began = time()
        for number, file in enumerate(sorted((self.folder / "changes").iterdir())):
            sleep(max(0.0, began + number * self.every - time()))
            os.link(file, self.home / "in" / file.name)
            self.arrived.append(time())


@define(eq=False)
class Run:
    """A load with its changes."""

    runner: Runner
    feeder: Feeder
    shown: int = 0
    waits: list[float] = field(factory=list)
    loaded_at: float = 0.0
    kept: int = 0

    def until_done(self, lake: Path) -> None:
        """Run epochs until all changes have come and the load is done."""
        feeding = threading.Thread(target=self.feeder.run)
        feeding.start()
        while self.runner.advance() or feeding.is_alive():
            self._look(lake)
        feeding.join()
        while self.runner.advance():
            self._look(lake)

    def _look(self, lake: Path) -> None:
        now, latest = time(), self.runner.ledger.latest
        if latest is None:
            return
        changes = latest.offsets.get("changelog")
        count = changes["count"] if changes else 0
        if not self.loaded_at:
            self.waits += [now - at for at in self.feeder.arrived[self.shown : count]]
            self.kept = max(self.kept, sum(folder_bytes(lake / PIPELINE / name) for name in _KEPT_FOR_THE_LOAD))
            snapshot = self.runner.ledger.snapshot()
            if not self.runner.service.bookkeeping(snapshot):
                self.loaded_at = now
        self.shown = count


def deployment(folder: Path, home: Path, backend: str) -> Path:
    """Write the deployment; where its config is."""
    bulk = str((folder / "bulk").resolve())
    work = _WORK.format(ddl=DDL, pipeline=PIPELINE, bulk=bulk)
    return fresh(home, backend, upkeep="", spark=spark_settings(home), work=work)


def main() -> int:
    """Measure, and write the figures down."""
    backend, every, (folder, home) = sys.argv[1], float(sys.argv[2]), map(Path, sys.argv[3:])
    with Headwater.from_config(deployment(folder, home, backend)) as headwater:
        (runner,) = headwater.start()
        began = time()
        run = Run(runner, Feeder(folder, home, every))
        run.until_done(home / "lake")
        rows = headwater.view(f"{PIPELINE}.rows")
        asked = time()
        drain(rows)
        viewed = time() - asked
        accounts, total = rows.selectExpr("count(*)", "sum(balance)").first()
        Figures(
            began,
            run.loaded_at - began,
            state_bytes=folder_bytes(home / "lake"),
            view=viewed,
            waits=run.waits,
            kept_bytes=run.kept,
            found=[accounts, total],
        ).write(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
