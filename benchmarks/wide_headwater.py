"""One side of `benchmarks.wide_table`: Headwater, and before each epoch a plain append of the same rows.

python -m benchmarks.wide_headwater BACKEND FOLDER HOME
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
from .items import KEY, TOPICS, columns, ddl, sequence
from .reading import drain
from .sides import Figures, folder_bytes, spark_settings

if TYPE_CHECKING:
    from headwater.app.runner import EpochReport

    from .floors import Floor

PIPELINE = "items"
_SOURCE = """
[sources.{topic}]
kind = "files"
path = "in/{topic}"
format = "parquet"
schema = "{ddl}"
"""
_PIPELINE = f"""
[pipelines.{PIPELINE}]
service = "wide_table"
key = ["{KEY}"]
"""
_TOPIC = f"""
[pipelines.{PIPELINE}.topics.{{topic}}]
source = "{{topic}}"
columns = {{columns}}
sequence = ["{{sequence}}"]
"""


def deployment(home: Path, backend: str, upkeep: str = "") -> Path:
    """Write a deployment of the wide table of the items' topics; where its config is."""
    sources = "".join(_SOURCE.format(topic=topic, ddl=ddl(topic)) for topic in TOPICS)
    topics = (_TOPIC.format(topic=topic, columns=list(columns(topic)), sequence=sequence(topic)) for topic in TOPICS)
    work = sources + _PIPELINE + "".join(topics)
    config = fresh(home, backend, upkeep=upkeep, spark=spark_settings(home), work=work)
    for topic in TOPICS:
        (home / "in" / topic).mkdir()
    return config


@define(eq=False)
class Run:
    """A run over all records of a folder, a file of each topic an epoch."""

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
            self._epoch(file.name)
        asked = perf_counter()
        drain(self.headwater.view(f"{PIPELINE}.rows"))
        viewed = perf_counter() - asked
        self.headwater.view(f"{PIPELINE}.rows").write.parquet(str((self.home / "rows").resolve()))
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

    def _epoch(self, name: str) -> None:
        arrive(self.folder, self.home, name)
        before, began = self.floor.jobs(), perf_counter()
        self.headwater.run(until_idle=True)
        self.epochs.append(perf_counter() - began)
        self.jobs.append(self.floor.jobs() - before)


def arrive(folder: Path, home: Path, name: str) -> None:
    """Let a file of each topic come in."""
    for topic in TOPICS:
        os.link(folder / topic / name, home / "in" / topic / name)


def main() -> int:
    """Measure, and write the figures down."""
    backend, (folder, home) = sys.argv[1], map(Path, sys.argv[2:])
    reports = list["EpochReport"]()
    with Headwater.from_config(deployment(home, backend), report=reports.append) as headwater:
        headwater.start()
        Run(folder, home, headwater, floor_of(backend, home), reports).figures().write(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
