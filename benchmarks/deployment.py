"""The deployment that is measured: if nothing else is asked for, a ranking of the orders that `data` makes."""

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
name = "{backend}"
path = "lake"
{upkeep}
[backend.spark]
{spark}
"""
_RANKING = f"""
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


def fresh(folder: Path, backend: str, *, upkeep: str, spark: Mapping[str, str], work: str = _RANKING) -> Path:
    """Write a deployment into an emptied folder, with an empty folder `in` for its files; where its config is.

    Args:
        folder: where.
        backend: its name.
        upkeep: lines of TOML.
        spark: settings of Spark.
        work: sources and pipelines, as TOML.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    settings = "\n".join(f'"{name}" = "{value}"' for name, value in spark.items())
    config = folder / "bench.toml"
    config.write_text(_BACKEND.format(backend=backend, upkeep=upkeep, spark=settings) + work)
    return config
