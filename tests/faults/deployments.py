"""Deployments on Delta for runs that get killed, and what their tables' logs say without Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headwater.domain.epoch import Mark
from tests.configurations import ranked_contracts
from tests.spark_fixtures import TUNED

if TYPE_CHECKING:
    from pathlib import Path

_SPARK = TUNED | {"spark.driver.memory": "1g"}


def write(config: Path, source: str, backend: str = "delta") -> None:
    """Write a deployment that ranks contracts.

    Args:
        config: the file.
        source: the lines that say where contracts come from.
        backend: its name.
    """
    spark = "".join(f'"{name}" = "{value}"\n' for name, value in _SPARK.items())
    config.write_text(
        ranked_contracts(
            backend=f'name = "{backend}"\npath = "lake"\ncompact_every = 4\n[backend.spark]\n{spark}',
            run='poll = "100ms"\nretries = 1\nretry_wait = "100ms"\n',
            source=source,
        )
    )


def committed(config: Path, table: str) -> int:
    """The epoch of the newest marked commit of a table; -1 if it has none."""
    log = config.parent / "lake" / "ranked" / table / "_delta_log"
    return max(map(_epoch, log.glob("*.json")), default=-1)


def _epoch(commit: Path) -> int:
    actions = map(json.loads, commit.read_text().splitlines())
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    mark = info.get("userMetadata")
    return Mark.from_json(mark).epoch.number if mark else -1
