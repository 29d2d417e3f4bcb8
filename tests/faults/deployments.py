"""Deployments for runs that get killed, and what their tables' logs say without Spark."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from headwater.domain.epoch.epoch import Mark
from tests.configurations import ranked_contracts
from tests.spark_fixtures import TUNED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SPARK = TUNED | {"spark.driver.memory": "1g"}


def write(config: Path, source: str, backend: str) -> None:
    """Write a deployment that ranks contracts.

    Args:
        config: the file.
        source: the lines that say where contracts come from.
        backend: its name, and its engine behind a colon.
    """
    config.write_text(
        ranked_contracts(
            backend=lake(backend, compact_every=4),
            run='poll = "100ms"\nretries = 1\nretry_wait = "100ms"\n',
            source=source,
        )
    )


def lake(backend: str, *, compact_every: int = 0) -> str:
    """What stands under ``[backend]`` for tables beside the deployment, and a Spark that starts quickly."""
    name, _, engine = backend.partition(":")
    tables = f'name = "{name}"\npath = "lake"\ncompact_every = {compact_every}\n'
    if engine or name == "delta":
        tables += f'engine = "{engine or "spark"}"\n'
    if (name, engine) == ("delta", "local"):
        return tables
    spark = "".join(f'"{name}" = "{value}"\n' for name, value in _SPARK.items())
    return f"{tables}[backend.spark]\n{spark}"


def committed(config: Path, table: str, pipeline: str = "ranked") -> int:
    """The epoch of the newest marked commit of a table; -1 if it has none."""
    folder = config.parent / "lake" / pipeline / table
    epochs = [*map(_delta_epoch, folder.glob("_delta_log/*.json")), *map(_hudi_epoch, _hudi_commits(folder))]
    return max(epochs, default=-1)


def _delta_epoch(commit: Path) -> int:
    actions = map(json.loads, commit.read_text().splitlines())
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    mark = info.get("userMetadata")
    return Mark.from_json(mark).epoch.number if mark else -1


def _hudi_commits(folder: Path) -> Iterator[Path]:
    """Completed commits: their files name when they were completed."""
    return (file for file in folder.glob(".hoodie/timeline/*_*.*commit") if not file.name.startswith("."))


def _hudi_epoch(commit: Path) -> int:
    found = re.search(rb'{"epoch":{"pipeline":"\w+","number":(\d+)}', commit.read_bytes())
    return int(found[1]) if found else -1
