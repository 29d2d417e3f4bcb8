"""`kill -9` of a rebuild beside a run: readers see the old rows or the new ones, and the same command goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Headwater

from .contracts import drop, records
from .deployments import committed, write
from .processes import headwater, running

if TYPE_CHECKING:
    from pathlib import Path

FILES = 6


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    write(tmp_path / "deploy.toml", 'kind = "files"\npath = "in"\n', "delta:local")
    return tmp_path / "deploy.toml"


def seen(config: Path) -> list[tuple[int, int]]:
    """The ranks that this process sees, by contract."""
    with Headwater.from_config(config) as deployment:
        return sorted(deployment.view("ranked").select("contract", "rank").rows())


def fresh(config: Path, folder: Path) -> list[tuple[int, int]]:
    """The ranks of a pipeline that has always had these settings."""
    text = config.read_text().replace('path = "lake"', f'path = "{folder}"').replace('"in"', f'"{config.parent}/in"')
    (other := config.with_name("fresh.toml")).write_text(text)
    with Headwater.from_config(other) as deployment:
        deployment.run(until_idle=True)
    return seen(other)


def recorded(config: Path) -> list[dict[str, Any]]:
    """What the record of the generations has, oldest first."""
    log = config.parent / "lake" / "ranked~" / "generations" / "_delta_log"
    commits = [map(json.loads, each.read_text().splitlines()) for each in sorted(log.glob("*.json"))]
    infos = [next(action["commitInfo"] for action in commit if "commitInfo" in action) for commit in commits]
    return [json.loads(info["userMetadata"])["publication"]["offsets"] for info in infos]


@pytest.mark.faults("kill -9 of a rebuild, in the middle of an epoch and near the switch", backend="delta:local")
def test_killed_at_each_step(config: Path, tmp_path: Path) -> None:
    edited = config.with_name("edited.toml")
    edited.write_text(config.read_text().replace('order_by = "signed"', 'order_by = "-signed"'))
    drop(config.parent / "in", *range(FILES))
    assert headwater("run", str(config), "--until-idle").returncode == 0
    before = seen(config)
    assert len(before) == len({row["contract"] for file in range(FILES) for row in records(file)})

    with running(edited, "ranked", command="rebuild") as run:  # rows are committed, the publication is not
        run.kill_when(lambda: committed(edited, "ranked", "ranked~2") > committed(edited, "cells", "ranked~2") >= FILES)
    assert seen(config) == before
    with running(edited, "ranked", command="rebuild") as run:  # the old tables are closed, the new ones not current
        run.kill_when(lambda: recorded(edited)[-1]["closing"])
    assert seen(config) == before

    done = headwater("rebuild", str(edited), "ranked")
    assert done.returncode == 0, done.stderr
    assert "switched to generation 2" in done.stderr
    assert recorded(edited)[-1]["current"] == 2
    assert seen(edited) == fresh(edited, tmp_path / "fresh") != before
    refused = headwater("run", str(config), "--until-idle")
    assert refused.returncode == 2
    assert "built with other settings" in refused.stderr
