"""The deployment that is measured; by default a ranking of the orders from `data`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from .data import DDL

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PIPELINE = "order_rank"
_BACKEND = """
[backend]
name = "{name}"
path = "lake"
{engine}
{upkeep}
{spark}
"""
RANKING = f"""
[sources.orders]
kind = "files"
path = "in"
format = "parquet"
schema = "{DDL}"
event_time = "event_time"
[pipelines.{PIPELINE}]
service = "ranking"
source = "orders"
group = ["group_id"]
id = ["order_id"]
order_by = "event_time"
"""


def fresh(
    folder: Path, backend: str, *, upkeep: str, spark: Mapping[str, str] | None = None, work: str = RANKING
) -> Path:
    """Empty the folder, write a deployment and an empty folder `in` into it; return the path of the configuration.

    Args:
        folder: the folder to write to.
        backend: the name of the backend; with an engine as ``name:engine``; without one, Spark.
        upkeep: lines of TOML.
        spark: Spark settings, left out if the engine takes none.
        work: sources and pipelines, as TOML.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    name, _, engine = backend.partition(":")
    lines = []
    if spark and backend != "delta:local":
        lines = ["[backend.spark]", *(f'"{setting}" = "{value}"' for setting, value in spark.items())]
    if name != "memory":
        engine = f'engine = "{engine or "spark"}"'
    config = folder / "bench.toml"
    config.write_text(_BACKEND.format(name=name, engine=engine, upkeep=upkeep, spark="\n".join(lines)) + work)
    return config
