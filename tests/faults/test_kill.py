"""`kill -9` of a run, again and again: nothing is lost, nothing counts twice, nobody sees half an epoch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest

from headwater import Headwater

from .contracts import drop, ranks, records
from .deployments import committed, write
from .processes import headwater, running

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.faults("kill -9 in the middle of an epoch, three times")]

BACKENDS = [
    "delta:local",
    pytest.param("delta", marks=[pytest.mark.delta, pytest.mark.slow]),
    *(
        pytest.param(name, marks=[pytest.mark.hudi, pytest.mark.slow])
        for name in ("hudi-mor", "hudi-cow", "hudi-mor:local", "hudi-cow:local")
    ),
]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def config(backend: str, session: SparkSession | None, tmp_path: Path) -> Path:
    """A deployment, which this process can read too."""
    (tmp_path / "in").mkdir()
    write(tmp_path / "deploy.toml", 'kind = "files"\npath = "in"\n', backend)
    return tmp_path / "deploy.toml"


def ranks_of(files: Iterable[int]) -> list[dict[str, Any]]:
    return ranks(row for file in files for row in records(file))


def seen_by_a_reader(config: Path) -> tuple[int, list[dict[str, Any]]]:
    """The newest epoch published, and the ranks that this process, which is not the run's, can see."""
    with Headwater.from_config(config) as deployment:
        epoch = deployment.epoch("ranked")
        contracts = nw.from_native(deployment.view("ranked")).lazy().select("contract", "rank").collect("pyarrow")
    return epoch, sorted(contracts.rows(named=True), key=lambda row: row["contract"])


def contract_and_rank(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"contract": row["contract"], "rank": row["rank"]} for row in rows]


def test_killed_in_the_middle_of_epochs(config: Path) -> None:
    landing = config.parent / "in"
    drop(landing, *range(6))
    with running(config) as run:  # between any two instructions, a moment after an epoch
        run.wait_until(lambda: run.epochs == 2)
        run.kill()
    drop(landing, 6, 7)
    before = committed(config, "ranked")
    with running(config) as run:  # rows are committed, their cells and the publication are not
        run.kill_when(lambda: committed(config, "ranked") > max(committed(config, "cells"), before))
    half_done = committed(config, "ranked")
    assert seen_by_a_reader(config) == (half_done - 1, contract_and_rank(ranks_of(range(half_done))))

    drop(landing, 8, 9)
    with running(config, HEADWATER_SOURCES__CONTRACTS__FILES_PER_EPOCH="2") as run:  # that epoch again, and once more
        run.kill_when(lambda: committed(config, "ranked") > max(committed(config, "cells"), half_done))
    assert committed(config, "cells") == half_done

    drop(landing, 10, 11)
    show = ("run", str(config), "--until-idle", "--show", "ranked", "--format", "jsonl")
    done = headwater(*show, HEADWATER_SOURCES__CONTRACTS__FILES_PER_EPOCH="3")
    assert done.returncode == 0, done.stderr
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(shown, key=lambda row: row["contract"]) == ranks_of(range(12))
