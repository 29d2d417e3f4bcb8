"""Folders that older versions wrote are opened by this one, which goes on with them; see `make.py`."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater import Headwater

from . import arrivals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
WRITTEN = [
    pytest.param("hudi-mor", marks=[pytest.mark.hudi, pytest.mark.contract, pytest.mark.slow]),
    pytest.param("delta", marks=[pytest.mark.delta, pytest.mark.contract]),
]


@pytest.mark.parametrize("backend", WRITTEN)
def test_a_folder_of_0_1_0_is_read_and_resumed(spark: SparkSession, tmp_path: Path, backend: str) -> None:
    with tarfile.open(HERE / f"0.1.0-{backend}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    resumed = _deployment(tmp_path, backend)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    shutil.copy(HERE / "deployment.toml", fresh)
    with resumed, _deployment(fresh, "memory") as oracle:
        for number, rows in enumerate(arrivals.BEFORE):  # run by run, as the old version did
            arrivals.write(fresh, number, rows)
            oracle.run(until_idle=True)
        assert _answers(resumed) == _answers(oracle)
        for folder in (tmp_path, fresh):
            for number, rows in enumerate(arrivals.AFTER, len(arrivals.BEFORE)):
                arrivals.write(folder, number, rows)
        for each in (resumed, oracle):
            each.run(until_idle=True)
        assert _answers(resumed) == _answers(oracle)


def _deployment(folder: Path, backend: str) -> Headwater:
    chosen = {"HEADWATER_BACKEND__NAME": backend, "HEADWATER_BACKEND__PATH": str(folder / "tables")}
    return Headwater.from_config(folder / "deployment.toml", environ=chosen)


def _answers(headwater: Headwater) -> dict[str, list[tuple[Any, ...]]]:
    found = {}
    for view in arrivals.VIEWS:
        rows = headwater.answer(view).frame.collect(backend="polars")
        found[view] = sorted(rows.rows(), key=repr)
    return found
