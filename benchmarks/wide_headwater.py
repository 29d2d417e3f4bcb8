"""One side of `benchmarks.wide_table`: Headwater, and before each epoch a plain append of the same rows.

python -m benchmarks.wide_headwater BACKEND FOLDER HOME
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
from .items import KEY, TOPICS, columns, ddl, sequence
from .sides import spark_settings

if TYPE_CHECKING:
    from headwater.app.run.report import EpochReport

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


def work() -> str:
    """The sources and the wide table of the items' topics, as TOML."""
    sources = "".join(_SOURCE.format(topic=topic, ddl=ddl(topic)) for topic in TOPICS)
    topics = (_TOPIC.format(topic=topic, columns=list(columns(topic)), sequence=sequence(topic)) for topic in TOPICS)
    return sources + _PIPELINE + "".join(topics)


def deployment(home: Path, backend: str, upkeep: str = "") -> Path:
    """Write a deployment with the wide table of the items' topics; return the path of its configuration."""
    config = fresh(home, backend, upkeep=upkeep, spark=spark_settings(home), work=work())
    for topic in TOPICS:
        (home / "in" / topic).mkdir()
    return config


def arrive(folder: Path, home: Path, name: str) -> None:
    """Add a file of each topic to the sources."""
    for topic in TOPICS:
        os.link(folder / topic / name, home / "in" / topic / name)


def main() -> int:
    """Measure, and write the figures to a file."""
    backend, (folder, home) = sys.argv[1], map(Path, sys.argv[2:])
    reports = list["EpochReport"]()
    with Headwater.from_config(deployment(home, backend), report=reports.append) as headwater:
        headwater.start()
        epochs = Epochs(headwater, floor_of(backend, home))
        run = Run(folder, home, epochs, reports, lambda file: arrive(folder, home, file.name), f"{PIPELINE}.rows")
        run.figures().write(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
