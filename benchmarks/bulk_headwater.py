"""One side of `benchmarks.bulk_merge`: Headwater on Delta loads the bulk, while changes arrive at a steady pace.

python -m benchmarks.bulk_headwater ENGINE EVERY CHUNK_ROWS FOLDER HOME
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from time import perf_counter, sleep, time
from typing import TYPE_CHECKING, Any

import polars as pl
from attrs import define, field

from headwater import Headwater
from headwater.domain.source.bulk import BulkGroup

from .accounts import DDL, KEY
from .deployment import fresh
from .floors import floor_of
from .reading import drain
from .sides import Figures, folder_bytes, spark_settings

if TYPE_CHECKING:
    from headwater.app.run.report import EpochReport
    from headwater.app.run.runner import Runner
    from headwater.domain.epoch.epoch import Publication

    from .floors import Floor

PIPELINE = "accounts"
_KEPT_FOR_THE_LOAD = ("waiting", "tombstones", "chunks", "load")
_WORK = """
[sources.log]
kind = "files"
path = "in"
format = "debezium-json"
tables = ["bank.accounts"]
files_per_epoch = 1000
schema = "{ddl}, at timestamp"
metadata = {{ pos = "log_position", at = "commit_time" }}
event_time = "at"

[pipelines.{pipeline}]
service = "bulk_merge"
key = ["{key}"]
columns = ["owner", "balance"]
changelog = "log"
bulk = {{ path = "{bulk}", format = "parquet", chunk_rows = {chunk_rows} }}
position = "pos"
"""


@define(eq=False)
class Feeder:
    """Links files of changes into the source's folder, one after the other, each at its time."""

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
    """A bulk load while changes arrive."""

    runner: Runner
    feeder: Feeder
    floor: Floor
    shown: int = 0
    waits: list[float] = field(factory=list)
    loaded_at: float = 0.0
    load_epochs: int = 0
    epochs: list[float] = field(factory=list)
    jobs: list[int] = field(factory=list)

    def until_done(self) -> None:
        """Run epochs until all changes have arrived and the load is complete."""
        feeding = threading.Thread(target=self.feeder.run)
        feeding.start()
        while self._advance() or feeding.is_alive():
            pass
        feeding.join()
        while self._advance():
            pass

    def _advance(self) -> bool:
        """Run an epoch and record its measurements; return False if there was nothing to do."""
        jobs, began = self.floor.jobs(), perf_counter()
        if not self.runner.advance():
            return False
        self.epochs.append(perf_counter() - began)
        self.jobs.append(self.floor.jobs() - jobs)
        latest = self.runner.ledger.latest
        if latest is not None and not self.loaded_at:
            self._look(latest)
        return True

    def _look(self, latest: Publication) -> None:
        published, changes = latest.published_at.timestamp(), latest.offsets.get("changelog")
        count = changes["count"] if changes else 0
        self.waits += [published - at for at in self.feeder.arrived[self.shown : count]]
        self.shown = count
        assert isinstance(self.runner.source, BulkGroup)
        if self.runner.source.bulk.remaining(latest.offsets.get("bulk")):
            return
        if not any(self.runner.service.bookkeeping(self.runner.ledger.snapshot()).values()):
            self.loaded_at, self.load_epochs = published, len(self.epochs)


def load_bytes(lake: Path, publication: Publication) -> int:
    """Bytes of the data files of a publication that are stored only for the load."""
    tables = [f"{PIPELINE}.{name}" for name in _KEPT_FOR_THE_LOAD]
    versions = {table: publication.tables.get(table) for table in tables}
    return sum(_bytes(lake.joinpath(*table.split(".")), int(at)) for table, at in versions.items() if at is not None)


def _bytes(table: Path, version: int) -> int:
    """Bytes of the data files of a version of a Delta table whose log is complete."""
    files = dict[str, int]()
    for number in range(version + 1):
        lines = (table / "_delta_log" / f"{number:020d}.json").read_text().splitlines()
        actions = [json.loads(line) for line in lines]
        for action in actions:
            files.pop(action.get("remove", {}).get("path"), None)
        files |= {action["add"]["path"]: action["add"]["size"] for action in actions if "add" in action}
    return sum(files.values())


def deployment(folder: Path, home: Path, chunk_rows: int, engine: str) -> Path:
    """Write the deployment; return the path of its configuration."""
    spark = None if engine == "local" else spark_settings(home)
    bulk = str((folder / "bulk").resolve())
    work = _WORK.format(ddl=DDL, pipeline=PIPELINE, key=KEY, bulk=bulk, chunk_rows=chunk_rows)
    return fresh(home, f"delta:{engine}", upkeep="", spark=spark, work=work)


def _write(rows: Any, folder: Path) -> None:
    if isinstance(rows, pl.DataFrame):
        folder.mkdir()
        rows.write_parquet(folder / "rows.parquet")
    else:
        rows.write.parquet(str(folder))


def main() -> int:
    """Measure, and write the figures and the rows to files."""
    engine, every, chunk_rows = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    folder, home = map(Path, sys.argv[4:])
    reports = list["EpochReport"]()
    config = deployment(folder, home, chunk_rows, engine)
    with Headwater.from_config(config, report=reports.append) as headwater:
        (runner,) = headwater.start()
        began = time()
        floor = floor_of(f"delta:{engine}", home)
        run = Run(runner, Feeder(folder, home, every), floor)
        run.until_done()
        asked = perf_counter()
        drain(headwater.view(f"{PIPELINE}.rows"))
        viewed = perf_counter() - asked
        _write(headwater.view(f"{PIPELINE}.rows"), (home / "rows").resolve())
        Figures(
            began,
            run.loaded_at - began,
            state_bytes=folder_bytes(home / "lake"),
            epochs=run.epochs,
            view=viewed,
            jobs=run.jobs,
            phases=[dict(each.seconds) for each in reports],
            waits=run.waits,
            kept_bytes=[load_bytes(home / "lake", each) for each in reversed(list(runner.ledger.publications()))],
            load_epochs=run.load_epochs,
        ).write(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
